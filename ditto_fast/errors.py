"""Every error this package raises on purpose: one base class, and the builtin a caller would expect."""


class DittoError(Exception):
    """Base of the package's errors; the command line prints its message and exits with status 1."""


class HeadError(DittoError, ValueError):
    """A head that is not written L-H, or that the model does not have."""


class OptionError(DittoError, ValueError):
    """An argument outside its valid values."""


class TextTypeError(DittoError, TypeError):
    """Something other than text was given where text is wanted."""


class TextValueError(DittoError, ValueError):
    """A string that cannot be encoded, such as one with lone surrogates."""


class ModelNotFoundError(DittoError, FileNotFoundError):
    """A checkpoint that is neither a local folder, a short name nor reachable on the hub."""


class UnsupportedModelError(DittoError, ValueError):
    """A checkpoint whose architecture cannot be exported."""


class ExportDirectoryError(DittoError, ValueError):
    """An export directory (or the .onnx file in it) that breaks the contract of `ditto_fast.artifact`."""


class OutputExistsError(DittoError, FileExistsError):
    """An output path that already holds something."""


class ParityError(DittoError, RuntimeError):
    """An exported graph whose outputs differ from the eager model's."""


class MissingDependencyError(DittoError, ImportError):
    """An optional dependency that is needed and not installed."""


class ProviderError(DittoError, RuntimeError):
    """An ONNX Runtime execution provider that was asked for and cannot run."""


class DataError(DittoError, ValueError):
    """Evaluation data that is missing, malformed or cannot be scored."""


class EmbeddingError(DittoError, ValueError):
    """Embeddings that are not finite."""
