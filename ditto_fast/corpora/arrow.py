"""The one place that says how to get pyarrow."""

from __future__ import annotations

from typing import Any

from ditto_fast.errors import MissingDependencyError


def import_pyarrow() -> Any:
    """The `pyarrow` module, with its Parquet reader loaded.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError(
            f"Corpora are read and written by pyarrow: pip install 'ditto-fast[cpu,corpora]' ({error})."
        ) from error
    return pyarrow
