"""Every error this package raises on purpose: one base class, and the builtin a caller would expect."""

from __future__ import annotations


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
    """A checkpoint or export that is neither a local folder, a short name nor reachable on the hub."""


class HubError(DittoError, OSError):
    """A request that the hub refused."""


class UntrustedCodeError(DittoError, ValueError):
    """A checkpoint that would run code of its own (pickled weights, Python files) without being asked for."""


class UnsupportedModelError(DittoError, ValueError):
    """A checkpoint whose architecture cannot be exported."""


class ExportDirectoryError(DittoError, ValueError):
    """An export directory (or the .onnx file in it) that breaks the contract of `ditto_fast.artifact`."""


class OutputExistsError(DittoError, FileExistsError):
    """An output path that already holds something."""


class OutputError(DittoError, OSError):
    """An output that cannot be written: a full disk, or another process at the same one."""


class ResumeError(DittoError, ValueError):
    """An output that was begun with another model, input or option, so that it cannot be gone on with."""


class ParityError(DittoError, RuntimeError):
    """An exported graph whose outputs differ from the eager model's."""


class MissingDependencyError(DittoError, ImportError):
    """An optional dependency that is needed and not installed."""


class WorkerError(DittoError, RuntimeError):
    """A worker process that died."""


class ClusterError(DittoError, RuntimeError):
    """A Ray cluster that cannot be reached, or that lacks what is asked of it."""


class EncoderClosedError(DittoError, RuntimeError):
    """An encoder that is used after close()."""


class NonFiniteError(DittoError, ArithmeticError):
    """Embeddings with NaN or infinity; `rows` are their positions in the input."""

    def __init__(self, message: str, rows: list[int]) -> None:
        super().__init__(message)
        self.rows = rows

    @classmethod
    def of(cls, rows: list[int], count: int) -> NonFiniteError:
        """The error of so many embeddings, of which `rows` are not finite."""
        shown = f"{rows[:10]}{' ...' if len(rows) > 10 else ''}"
        return cls(
            f"{len(rows)} of {count} embeddings are not finite: rows {shown}. In fp16 the model may overflow: use an "
            "fp32 or int8 graph; nonfinite='zero' returns zeros for such rows.",
            rows,
        )

    def __reduce__(self) -> tuple[type, tuple[str, list[int]]]:
        """By both arguments: an exception is otherwise unpickled, as where a worker raised it, by its message alone."""
        return type(self), (str(self), self.rows)


class ProviderError(DittoError, RuntimeError):
    """An ONNX Runtime execution provider that was asked for and cannot run."""


class DataError(DittoError, ValueError):
    """Data that is missing, malformed or cannot be scored."""


class EmbeddingError(DittoError, ValueError):
    """Embeddings that are not finite."""
