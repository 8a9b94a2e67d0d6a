"""The heads' scores as an L x N heat map, in the terminal and as a PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from ditto_fast.errors import MissingDependencyError

Grid = NDArray[np.float64]

_SHADES = ("grey15", "grey23", "grey30", "grey39", "dark_green", "green4", "green3", "chartreuse2")


def terminal_heat_map(grid: Grid, title: str) -> Table:
    """Layers down, heads across, numbered from 1; the better the brighter.

    Args:
        grid: Scores (L, N).
        title: What they are.
    """
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("layer", justify="right")
    for number in range(grid.shape[1]):
        table.add_column(str(number + 1), justify="right", no_wrap=True)
    ranks = np.searchsorted(np.quantile(grid, np.linspace(0, 1, len(_SHADES) + 1)[1:-1]), grid, side="left")
    for layer, (scores, shades) in enumerate(zip(grid, ranks, strict=True), start=1):
        cells = [
            Text(f"{score:.1f}", style=f"{'black' if shade > 4 else 'white'} on {_SHADES[shade]}")
            for score, shade in zip(scores, shades, strict=True)
        ]
        table.add_row(str(layer), *cells)
    return table


def write_heat_maps(grids: Mapping[str, Grid], plain: Mapping[str, float], path: Path, title: str) -> None:
    """Draws one heat map a pooling, each on a scale of its own, with the plain average's score above it.

    Args:
        grids: Scores (L, N) by pooling.
        plain: The plain average's score by pooling.
        path: The PNG to write.
        title: Above it all.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(f"A PNG needs matplotlib: pip install 'ditto-fast[eval]' ({error}).") from error
    figure = Figure(figsize=(1 + 5 * len(grids), 4.2), layout="constrained")
    axes = figure.subplots(1, len(grids), squeeze=False)[0]
    for axis, (name, grid) in zip(axes, grids.items(), strict=True):
        image = axis.imshow(grid, aspect="auto", cmap="viridis")
        axis.set(
            title=f"{name}; plain average {plain[name]:.2f}",
            xlabel="head",
            ylabel="layer",
            xticks=range(grid.shape[1]),
            xticklabels=range(1, grid.shape[1] + 1),
            yticks=range(grid.shape[0]),
            yticklabels=range(1, grid.shape[0] + 1),
        )
        layer, number = np.unravel_index(grid.argmax(), grid.shape)
        axis.plot(number, layer, "r*", markersize=10)
        figure.colorbar(image, ax=axis)
    figure.suptitle(f"{title}: Spearman x100 (star: best head)")
    figure.savefig(path, dpi=150)
