"""scikit-learn: an exported model as a transformer of texts, for pipelines and searches over their parameters."""

from __future__ import annotations

import os

from ditto_fast.encoder import FastEncoder, FloatArray
from ditto_fast.errors import MissingDependencyError, TextTypeError
from ditto_fast.prompts import prompted
from ditto_fast.providers import Providers
from ditto_fast.texts import Sentences, as_texts, describe

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise MissingDependencyError(
        f"ditto_fast.integrations.sklearn needs scikit-learn>=1.6: pip install 'ditto-fast[sklearn]' ({error})."
    ) from error


class DittoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns texts into Ditto embeddings; nothing is learnt from them, `fit` opens the model.

    Args:
        onnx_path: As `FastEncoder` takes it; so are `pooling`, `precision`, `max_seq_length`, `providers`,
            `num_threads` and `num_workers`.
        pooling: A name of `ditto_fast.pooling.POOLINGS`; the export's own by default.
        normalize_embeddings: Divide each embedding by its L2 norm.
        prompt: What to put before each text, such as one that the checkpoint was trained with; nothing by default.
        batch_size: Texts that one run of the graph takes at most.
        precision: Precision of the graph; the first of "fp32", "fp16", "int8" that is there by default.
        truncate_dim: Keep the first dimensions only.
        max_seq_length: Length in tokens that texts are cut to; the export's own by default.
        providers: Where the graph runs.
        num_threads: Threads to use; by default the CPUs this process may use.
        num_workers: Processes to share the texts of a call; 0 for none.

    Attributes:
        encoder_: The encoder that `fit` opened.

    Example:
        >>> vectorizer = DittoVectorizer("minilm-ditto", pooling="mean-first-last")
        >>> vectorizer.fit_transform(["The cat is asleep.", "The bank raised rates."]).shape
        (2, 384)
    """

    def __init__(
        self,
        onnx_path: str | os.PathLike[str],
        *,
        pooling: str | None = None,
        normalize_embeddings: bool = False,
        prompt: str = "",
        batch_size: int | None = None,
        precision: str | None = None,
        truncate_dim: int | None = None,
        max_seq_length: int | None = None,
        providers: Providers = "cpu",
        num_threads: int | None = None,
        num_workers: int = 0,
    ) -> None:
        self.onnx_path = onnx_path
        self.pooling = pooling
        self.normalize_embeddings = normalize_embeddings
        self.prompt = prompt
        self.batch_size = batch_size
        self.precision = precision
        self.truncate_dim = truncate_dim
        self.max_seq_length = max_seq_length
        self.providers = providers
        self.num_threads = num_threads
        self.num_workers = num_workers

    def fit(self, X: Sentences, y: object = None) -> DittoVectorizer:  # noqa: ARG002, N803 (scikit-learn's)
        """Opens the model; neither texts nor targets are read, so a generator is left to `transform`.

        Raises:
            DittoError: As `FastEncoder` and its `encode` do, for parameters outside their valid values.
            TextTypeError: X is one string.

        Example:
            >>> DittoVectorizer("minilm-ditto").fit(["The cat is asleep."]).encoder_.pooling
            'ditto-first-last'
        """
        _check_rows(X)
        self.encoder_ = FastEncoder(
            self.onnx_path,
            pooling=self.pooling,
            precision=self.precision,
            max_seq_length=self.max_seq_length,
            providers=self.providers,
            num_threads=self.num_threads,
            num_workers=self.num_workers,
        )
        self._n_features_out = self._encoded([]).shape[1]
        return self

    def transform(self, X: Sentences) -> FloatArray:  # noqa: N803 (scikit-learn's)
        """Embeds texts.

        Args:
            X: Texts, as `FastEncoder.encode` takes them, but not one bare string.

        Returns:
            Embeddings (n, H), float32.

        Raises:
            NotFittedError: `fit` has not been called.
            TextTypeError: X is one string, or holds an item that is none.

        Example:
            >>> DittoVectorizer("minilm-ditto").fit([]).transform(["The cat is asleep."]).shape
            (1, 384)
        """
        check_is_fitted(self)
        _check_rows(X)
        return self._encoded(as_texts(X)[0])

    def _encoded(self, texts: list[str]) -> FloatArray:
        embeddings: FloatArray = self.encoder_.encode(
            prompted(texts, self.prompt),
            batch_size=self.batch_size,
            normalize_embeddings=self.normalize_embeddings,
            truncate_dim=self.truncate_dim,
        )
        return embeddings

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []  # texts have none to keep
        return tags


def _check_rows(texts: object) -> None:
    if isinstance(texts, str) or getattr(texts, "ndim", 1) == 0:
        raise TextTypeError(f"X must hold one text a row; got {describe(texts)}. Pass [text].")
