"""From a checkpoint to an export directory: `ditto-export` and `export_model`."""

from typing import TYPE_CHECKING, Any

if __name__ != "ditto_fast.export":
    raise ImportError(f"{__file__} is ditto_fast.export, not {__name__}; import it by that name")
if TYPE_CHECKING:
    from ditto_fast.export.pipeline import ExportReport, export_model
__all__ = ["ExportReport", "export_model"]


def __getattr__(name: str) -> Any:  # torch and transformers take seconds to import: --help need not wait
    from ditto_fast.export import pipeline

    return getattr(pipeline, name)
