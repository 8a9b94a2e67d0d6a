"""Token states of sentences, run once and pooled in every way that is asked for.

Two sources give them by name. An export directory of `ditto-export` holds one head's diagonal and the first and
last hidden states. A checkpoint is written once, as a graph of its own, into a cache directory: that one gives
the diagonals of ALL heads, the second-last states and the dense pooler's output too, with the word embeddings beside
it. Both run on ONNX Runtime.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ditto_fast.artifact import MANIFEST_FILE
from ditto_fast.batches import CPU_RULE, graph_inputs, pad, plan_batches
from ditto_fast.checks import integer
from ditto_fast.cpus import available_cpus
from ditto_fast.errors import ExportDirectoryError
from ditto_fast.evaluation.encodings import Encodings
from ditto_fast.heads import Head
from ditto_fast.selection import select
from ditto_fast.session import open_session

States = dict[str, NDArray[Any]]
Result = TypeVar("Result")

STATES_GRAPH = "states.onnx"
STATES_FILE = "states.json"
TABLES_FILE = "tables.npz"
STATES_OUTPUTS = ("diagonals", "first", "second_last", "last")
POOLER_OUTPUT = "pooler_output"
_FROM_EXPORT = {"attention_diagonal": "diagonal", "first_hidden_state": "first", "last_hidden_state": "last"}


@dataclass(frozen=True)
class Sizes:
    """What is known of a model. `pad_token_id` pads, `max_positions` is its longest input in tokens."""

    name: str
    num_layers: int
    num_heads: int
    hidden_size: int
    pad_token_id: int
    max_positions: int

    def limit(self, max_seq_length: int | None) -> int:
        """Tokens that texts are cut to: what was asked for, else all that the position table allows.

        Raises:
            OptionError: It allows less than what was asked for.
        """
        if max_seq_length is None:
            return self.max_positions
        return integer("max_seq_length", max_seq_length, 1, self.max_positions, "the model's position table")

    def write(self, directory: Path) -> None:
        """Writes it as JSON."""
        (directory / STATES_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> Sizes:
        """Reads it back."""
        record = json.loads((directory / STATES_FILE).read_text(encoding="utf-8"))
        return cls(**{entry.name: record[entry.name] for entry in fields(cls)})


@dataclass
class StateSource:
    """A model that gives token states.

    Args:
        directory: Where its graph and tokenizer lie.
        session: The open graph.
        sizes: What is known of the model.
        encodings: Its tokenizer.
        head: The head whose diagonal is called "diagonal"; None where none is known.
        tables: Arrays with a row for each token id: "static" (V, H), the word embeddings, and what is put there.
    """

    directory: Path
    session: Any
    sizes: Sizes
    encodings: Encodings
    head: Head | None
    tables: States = field(default_factory=dict)

    @property
    def all_heads(self) -> bool:
        """Whether it gives the diagonal of every head."""
        return "diagonals" in self._outputs()

    @property
    def provides(self) -> frozenset[str]:
        """Names of the states that it gives."""
        own = {_FROM_EXPORT.get(name, name) for name in self._outputs()} | set(self.tables)
        if self.all_heads and self.head is not None:
            own.add("diagonal")
        return frozenset(own)

    def _outputs(self) -> list[str]:
        return [output.name for output in self.session.get_outputs()]

    def look_up(self, token_ids: Sequence[NDArray[np.int64]]) -> States:
        """What needs no model: "input_ids" and "mask" (B, T) each, and the tables' rows (B, T, ...)."""
        input_ids, mask = pad(token_ids, self.sizes.pad_token_id)
        return {"input_ids": input_ids, "mask": mask, **{name: rows[input_ids] for name, rows in self.tables.items()}}

    def run(self, token_ids: Sequence[NDArray[np.int64]]) -> States:
        """The states of a batch by name, and what `look_up` gives.

        "first", "second_last", "last" and "static" are (B, T, H), "diagonal" (B, T), "diagonals" (B, T, L, N),
        "pooler_output" (B, H).
        """
        states = self.look_up(token_ids)
        input_ids, mask = states["input_ids"], states["mask"]
        names = [node.name for node in self.session.get_inputs()]
        outputs = self.session.run(None, graph_inputs(input_ids, mask, names))
        states |= {_FROM_EXPORT.get(name, name): array for name, array in zip(self._outputs(), outputs, strict=True)}
        if self.all_heads and self.head is not None:
            states["diagonal"] = states["diagonals"][:, :, self.head.layer - 1, self.head.number - 1]
        return states

    def map(
        self,
        groups: Sequence[Sequence[str]],
        function: Callable[[States], Result],
        description: str = "",
        model: bool = True,
    ) -> Iterator[tuple[NDArray[np.int64], Result]]:
        """Runs `function` on the states of batches of similar length, from as many threads as there are CPUs.

        Args:
            groups: Texts that belong together, such as a pair's two; a batch holds whole groups, so the states of
                group g of a batch are its rows g * size to (g + 1) * size.
            function: What to make of a batch's states.
            description: Shown with a progress bar on stderr; none is shown where it is empty.
            model: Whether the model is needed; without it there is what `look_up` gives.

        Yields:
            The groups' positions, and the function's result.
        """
        token_ids = [[self.encodings.ids(text) for text in group] for group in groups]
        longest = [max(map(len, group)) for group in token_ids]
        size = len(groups[0]) if groups else 1
        states_of = self.run if model else self.look_up

        def run(batch: NDArray[np.int64]) -> Result:
            return function(states_of([ids for position in batch for ids in token_ids[position]]))

        batches = plan_batches(longest, replace(CPU_RULE, max_tokens=CPU_RULE.max_tokens // size))
        with (
            tqdm(total=len(groups), disable=not description, desc=description, unit="text") as progress,
            ThreadPoolExecutor(available_cpus()) as executor,
        ):
            for batch, result in zip(batches, executor.map(run, batches), strict=True):
                yield batch, result
                progress.update(len(batch))


def open_export(directory: Path, max_seq_length: int | None = None) -> StateSource:
    """The states of an export directory's tokens graph.

    Args:
        directory: What `ditto-export` wrote.
        max_seq_length: Tokens that texts are cut to; the position table's by default, as the protocol truncates
            nothing.

    Raises:
        ExportDirectoryError: It has no tokens graph; the message says how to get one.
    """
    selection = select(directory, None, None, kind="tokens")
    manifest = selection.manifest
    if selection.info.kind != "tokens":
        raise ExportDirectoryError(
            f"{selection.path} gives {', '.join(selection.info.outputs)}; to pool in other ways the tokens graph is "
            "needed. Name the directory, or export with --outputs tokens."
        )
    sizes = Sizes(
        str(manifest.source["model_id"]),
        manifest.num_layers,
        manifest.num_heads,
        manifest.hidden_size,
        manifest.pad_token_id,
        manifest.max_positions,
    )
    encodings = Encodings(selection.directory, sizes.limit(max_seq_length))
    session = open_session(selection.path, "cpu", num_threads=1)
    return StateSource(selection.directory, session, sizes, encodings, Head.parse(manifest.head))


def open_states(directory: Path, head: Head | None = None, max_seq_length: int | None = None) -> StateSource:
    """The states of a checkpoint, from the folder that `with_torch.states_graph` wrote."""
    sizes = Sizes.read(directory)
    if head is not None:
        head.check(sizes.num_layers, sizes.num_heads)
    encodings = Encodings(directory, sizes.limit(max_seq_length))
    session = open_session(directory / STATES_GRAPH, "cpu", num_threads=1)
    with np.load(directory / TABLES_FILE) as file:
        return StateSource(directory, session, sizes, encodings, head, dict(file))


def is_export(path: Path) -> bool:
    """Whether the path is an export directory, or a graph file in one, rather than a checkpoint."""
    return path.suffix == ".onnx" or (path / MANIFEST_FILE).is_file()
