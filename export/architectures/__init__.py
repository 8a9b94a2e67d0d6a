"""Which architectures can be exported: the one list. A new family is one file here and its line below."""

from ditto_fast.export.architectures.base import Architecture, HeadProjection, Tap
from ditto_fast.export.architectures.bert import Bert, Roberta

ARCHITECTURES: tuple[Architecture, ...] = (Bert(), Roberta())

SUPPORTED_MODEL_TYPES = tuple(sorted(name for arch in ARCHITECTURES for name in arch.model_types))

__all__ = ["ARCHITECTURES", "SUPPORTED_MODEL_TYPES", "Architecture", "HeadProjection", "Tap"]
