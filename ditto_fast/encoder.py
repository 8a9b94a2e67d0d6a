"""FastEncoder: sentences in, Ditto embeddings out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ditto_fast.artifact import Manifest, choose_graph, graph_file, graph_kind
from ditto_fast.batches import pad, plan_batches
from ditto_fast.checks import one_of, positive_int
from ditto_fast.cpus import available_cpus
from ditto_fast.errors import ExportDirectoryError
from ditto_fast.hub import fetch_export
from ditto_fast.pooling import POOLINGS, normalize, pool
from ditto_fast.session import open_session
from ditto_fast.texts import Sentences, as_texts
from ditto_fast.tokenizer import Tokenizer, resolve_max_seq_length

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


class FastEncoder:
    """Encodes sentences with an exported model on ONNX Runtime; neither torch nor transformers is needed.

    Args:
        onnx_path: An export directory of `ditto-export`, or an .onnx file in it. For a directory the
            embedding graph is taken where it exists and does the pooling asked for, else model.onnx.
        pooling: A name of `ditto_fast.pooling.POOLINGS`; the export's own (ditto-first-last) by default.
        max_seq_length: Length in tokens, special tokens included, that texts are cut to; the export's
            own by default.
        providers: "cpu" or "cuda": what is asked for is what runs.
        num_threads: Threads to use; by default the CPUs this process may use.

    Raises:
        ExportDirectoryError: The path is no export, or a file of it is missing or broken.
        MissingDependencyError: ONNX Runtime is not installed.
        OptionError: An argument is outside its valid values.
        ProviderError: The provider cannot run here.

    Example:
        >>> encoder = FastEncoder("minilm-ditto")
        >>> encoder.encode(["A man is eating food.", "Someone is having a meal."]).shape
        (2, 384)
    """

    def __init__(
        self,
        onnx_path: str | os.PathLike[str],
        *,
        pooling: str | None = None,
        max_seq_length: int | None = None,
        providers: str = "cpu",
        num_threads: int | None = None,
    ) -> None:
        path = Path(onnx_path)
        directory = path.parent if path.suffix == ".onnx" else path
        if not path.exists():
            raise ExportDirectoryError(f"{path} does not exist. Make it with ditto-export --model MODEL.")
        self._num_threads = available_cpus() if num_threads is None else positive_int("num_threads", num_threads)
        self._provider = providers
        if path.suffix == ".onnx":  # a foreign graph is told from its outputs, before a manifest is missed
            self._open(path)
            self.manifest = Manifest.read(directory)
            self.pooling = self._check_pooling(pooling)
        else:
            self.manifest = Manifest.read(directory)
            self.pooling = self._check_pooling(pooling)
            self._open(directory / choose_graph(self.manifest, self.pooling))
        self._directory = directory
        self._tokenizer = self._load_tokenizer(
            self.manifest.max_seq_length if max_seq_length is None else max_seq_length
        )

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        revision: str | None = None,
        token: str | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        pooling: str | None = None,
        max_seq_length: int | None = None,
        providers: str = "cpu",
        num_threads: int | None = None,
    ) -> FastEncoder:
        """Opens an export of the Hugging Face hub, of which only the files it needs are downloaded.

        Args:
            name: A hub id such as "org/name", or an export directory, which needs no network.
            revision: Branch, tag or commit on the hub.
            token: Access token of the hub; by default the one that `hf auth login` or HF_TOKEN set.
            cache_dir: The hub's cache; by default that of huggingface_hub.
            local_files_only: Take files from the cache alone, as HF_HUB_OFFLINE=1 does for all programs.
            pooling: See `FastEncoder`, as for the arguments that follow.
            max_seq_length: See `FastEncoder`.
            providers: See `FastEncoder`.
            num_threads: See `FastEncoder`.

        Raises:
            ExportDirectoryError: The repository is no export.
            ModelNotFoundError: It cannot be reached, or is not in the cache where only that may be used.
            OptionError: An argument is outside its valid values.

        Example:
            >>> FastEncoder.from_pretrained("minilm-ditto", pooling="cls").encode("One sentence.").shape
            (384,)
        """
        path = Path(name)
        if not path.exists():
            path = fetch_export(
                str(name),
                pooling,
                revision=revision,
                token=token,
                cache_dir=cache_dir,
                local_files_only=local_files_only,
            )
        return cls(path, pooling=pooling, max_seq_length=max_seq_length, providers=providers, num_threads=num_threads)

    def _check_pooling(self, pooling: str | None) -> str:
        name = one_of("pooling", self.manifest.pooling if pooling is None else pooling, POOLINGS)
        if getattr(self, "_kind", None) == "embedding" and name != self.manifest.pooling:
            raise ExportDirectoryError(
                f"{self.path} pools {self.manifest.pooling} inside the graph, so it cannot give {name!r}. "
                f"Pass the directory or its {graph_file('tokens')}."
            )
        return name

    def _open(self, path: Path) -> None:
        self.path = path
        self._session = open_session(path, self._provider, num_threads=1)
        self._kind = graph_kind([output.name for output in self._session.get_outputs()], path)
        self._input_names = [graph_input.name for graph_input in self._session.get_inputs()]

    def _load_tokenizer(self, max_seq_length: int) -> Tokenizer:
        self._max_seq_length = resolve_max_seq_length(self._directory, self.manifest.max_positions, max_seq_length)
        tokenizer = Tokenizer(self._directory, self._max_seq_length)
        if tokenizer.vocab_size > self.manifest.vocab_size:
            raise ExportDirectoryError(
                f"The tokenizer of {self._directory} has {tokenizer.vocab_size} tokens but the model embeds "
                f"{self.manifest.vocab_size}: they do not belong together. Export again."
            )
        return tokenizer

    def __repr__(self) -> str:
        return (
            f"FastEncoder({str(self.path)!r}, model={self.manifest.source['model_id']!r}, "
            f"head={self.manifest.head!r}, pooling={self.pooling!r}, precision={self.manifest.precision!r}, "
            f"provider={self._provider!r}, num_threads={self._num_threads})"
        )

    @property
    def max_seq_length(self) -> int:
        """Length in tokens, special tokens included, that texts are cut to."""
        return self._max_seq_length

    def get_sentence_embedding_dimension(self) -> int:
        """Width H of an embedding."""
        return self.manifest.hidden_size

    def encode(
        self,
        sentences: Sentences,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        normalize_embeddings: bool = False,
    ) -> FloatArray:
        """Embeds sentences.

        Args:
            sentences: One string, or strings in any sequence or iterable with an order.
            batch_size: Sentences that one run of the graph takes at most.
            show_progress_bar: Show progress on stderr; None and False do not.
            normalize_embeddings: Divide each embedding by its L2 norm.

        Returns:
            Embeddings (n, H), float32, rows in the order of the input; (H,) for one string.

        Raises:
            OptionError: `batch_size` is not a positive integer.
            TextTypeError: An item is no string; the message gives its position.
            TextValueError: A string that has no UTF-8 form.

        Example:
            >>> encoder = FastEncoder("minilm-ditto")
            >>> encoder.encode("One sentence.", normalize_embeddings=True).shape
            (384,)
        """
        positive_int("batch_size", batch_size)
        texts, single = as_texts(sentences)
        embeddings = np.zeros((len(texts), self.manifest.hidden_size), np.float32)
        token_ids = self._tokenizer(texts)
        share = -(-len(texts) // self._num_threads)  # a short list is spread over the threads
        batches = plan_batches([len(ids) for ids in token_ids], max(1, min(batch_size, share)))
        with tqdm(total=len(texts), disable=not show_progress_bar, unit="sentence") as progress:
            for batch, rows in self._run_batches(batches, token_ids):
                embeddings[batch] = rows
                progress.update(len(batch))
        if normalize_embeddings:
            embeddings = normalize(embeddings)
        return embeddings[0] if single else embeddings

    def _run_batches(self, batches: list[IntArray], token_ids: list[IntArray]) -> Iterator[tuple[IntArray, FloatArray]]:
        """Runs the graph from several threads at once: faster than several threads inside one run."""

        def run(batch: IntArray) -> FloatArray:
            return self._run([token_ids[i] for i in batch])

        if len(batches) <= 1 or self._num_threads == 1:
            yield from ((batch, run(batch)) for batch in batches)
            return
        with ThreadPoolExecutor(self._num_threads) as executor:
            yield from zip(batches, executor.map(run, batches), strict=True)

    def _run(self, token_ids: list[IntArray]) -> FloatArray:
        input_ids, mask = pad(token_ids, self.manifest.pad_token_id)
        feeds = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
        outputs = self._session.run(None, {name: feeds[name] for name in self._input_names})
        named = dict(zip((output.name for output in self._session.get_outputs()), outputs, strict=True))
        if self._kind == "embedding":
            embedding: FloatArray = named["sentence_embedding"]
            return embedding
        return pool(
            self.pooling,
            named["attention_diagonal"],
            named["first_hidden_state"],
            named["last_hidden_state"],
            mask,
        )
