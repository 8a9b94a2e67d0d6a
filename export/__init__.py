"""From a checkpoint to an export directory: `ditto-export` and `export_model`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "ditto_fast.export":
    raise ImportError(f"{__file__} is ditto_fast.export, not {__name__}; import it by that name")
if TYPE_CHECKING:
    from ditto_fast.export.hub import HubOptions
    from ditto_fast.export.pipeline import ExportReport, export_model
    from ditto_fast.export.upload import publish
__all__ = ["ExportReport", "HubOptions", "export_model", "publish"]


def __getattr__(name: str) -> Any:  # torch and transformers take seconds to import: --help need not wait
    if name not in __all__:
        raise AttributeError(name)
    home = {"HubOptions": "hub", "publish": "upload"}.get(name, "pipeline")
    return getattr(import_module(f"ditto_fast.export.{home}"), name)
