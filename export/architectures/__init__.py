"""Which architectures can be exported: the one list. A new family is one file here and its line below."""

from ditto_fast.export.architectures.albert import Albert
from ditto_fast.export.architectures.base import Architecture, HeadProjection
from ditto_fast.export.architectures.bert import Bert
from ditto_fast.export.architectures.deberta import Deberta
from ditto_fast.export.architectures.distilbert import DistilBert
from ditto_fast.export.architectures.mobilebert import MobileBert
from ditto_fast.export.architectures.modernbert import ModernBert
from ditto_fast.export.architectures.mpnet import MPNet
from ditto_fast.export.architectures.rembert import RemBert
from ditto_fast.export.architectures.roberta import Roberta
from ditto_fast.export.architectures.xlm import Xlm

ARCHITECTURES: tuple[Architecture, ...] = (
    Bert(),
    Roberta(),
    RemBert(),
    Albert(),
    DistilBert(),
    MobileBert(),
    MPNet(),
    Deberta(),
    ModernBert(),
    Xlm(),
)

SUPPORTED_MODEL_TYPES = tuple(sorted(name for arch in ARCHITECTURES for name in arch.model_types))

__all__ = ["ARCHITECTURES", "SUPPORTED_MODEL_TYPES", "Architecture", "HeadProjection"]
