"""FastEncoder: sentences in, Ditto embeddings out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ditto_fast.artifact import Manifest, verify_files
from ditto_fast.backends import open_runner, select_backend
from ditto_fast.batches import BatchRule, default_rule, pad
from ditto_fast.checks import integer, one_of
from ditto_fast.cpus import available_cpus
from ditto_fast.embedder import Embedder
from ditto_fast.errors import EncoderClosedError, ExportDirectoryError
from ditto_fast.pooling import DEFAULT_POOLING, normalize
from ditto_fast.prompts import by_role, check_prompt, check_prompts, prompted
from ditto_fast.providers import CPU, Providers
from ditto_fast.quantization import check_streamable, quantize_embeddings
from ditto_fast.results import as_asked, check_finite, check_options
from ditto_fast.runner import GraphRunner
from ditto_fast.scheduler import Done
from ditto_fast.selection import select
from ditto_fast.similarity import similarity, similarity_pairwise
from ditto_fast.streams import encoded_chunks
from ditto_fast.texts import Sentences, as_texts
from ditto_fast.tokenizer import Tokenizer, resolve_max_seq_length
from ditto_fast.wide import WideRunner
from ditto_fast.workers import check_sendable

if TYPE_CHECKING:
    import onnxruntime

FloatArray = NDArray[np.float32]


class FastEncoder:
    """Encodes sentences with an exported model on ONNX Runtime; neither torch nor transformers is needed.

    An encoder may be shared by threads, pickled, and used after a fork. It is a context manager.

    Args:
        onnx_path: An export directory of `ditto-export`, or an .onnx file in it. For a directory the
            embedding graph is taken where it exists and does the pooling asked for, else model.onnx.
        pooling: A name of `ditto_fast.pooling.POOLINGS`; the export's own (ditto-first-last) by default.
        pooling_backend: Where the pooling is done: "graph" (the embedding graph), "numpy" (the tokens graph),
            "triton" (the head graph and a fused kernel: the choice on CUDA), or "auto", the best that the
            directory holds.
        precision: "fp32", "fp16" or "int8", where the directory holds several; the first of these that it
            holds by default.
        max_seq_length: Length in tokens, special tokens included, that texts are cut to; the export's
            own by default.
        providers: "cpu", "cuda", "tensorrt", "coreml", "openvino", "auto", or ONNX Runtime's list of names or
            (name, options): what is asked for is what runs.
        num_threads: Threads to use, each with a batch of its own; by default the CPUs this process may use.
        num_workers: Processes to share the texts of a call, the threads divided among them; 0 for none. For
            machines with dozens of cores.
        max_batch_tokens: Tokens of a batch, padding included; a measured default.
        prompts: What `encode_query` ("query") and `encode_document` ("document", "passage" or "corpus") put before
            each text; those of the checkpoint that was exported by default, {} for none.
        nonfinite: "raise" an error that names the rows with NaN or infinity, or "zero" them.
        session_options: Called with ONNX Runtime's SessionOptions before the graph is opened.
        verify: Check every file against the SHA-256 in the manifest; `from_pretrained` then downloads them all.

    Raises:
        ExportDirectoryError: The path is no export, or a file of it is missing, changed or broken.
        MissingDependencyError: ONNX Runtime is not installed.
        OptionError: An argument is outside its valid values.
        ProviderError: A provider cannot run here.

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
        pooling_backend: str = "auto",
        precision: str | None = None,
        max_seq_length: int | None = None,
        providers: Providers = "cpu",
        num_threads: int | None = None,
        num_workers: int = 0,
        max_batch_tokens: int | None = None,
        prompts: Mapping[str, str] | None = None,
        nonfinite: Literal["raise", "zero"] = "raise",
        session_options: Callable[[onnxruntime.SessionOptions], None] | None = None,
        verify: bool = False,
    ) -> None:
        self._arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        path = Path(onnx_path).absolute()  # files are opened later, too: in other processes and after a chdir
        # what the caller changes later changes no copy of this encoder
        self._arguments |= {"onnx_path": path, "providers": deepcopy(providers), "prompts": deepcopy(prompts)}
        threads = available_cpus() if num_threads is None else integer("num_threads", num_threads)
        if workers := integer("num_workers", num_workers, minimum=0):
            check_sendable(self._arguments)
        self._nonfinite = one_of("nonfinite", nonfinite, ("raise", "zero"))
        check_prompts(prompts)
        self._selection = select_backend(path, pooling, precision, pooling_backend, providers)
        self._prompts = by_role(self.manifest.prompts if prompts is None else prompts)
        if verify:
            verify_files(self._selection.directory, self.manifest)
        runner = open_runner(self._selection, providers, session_options)
        wide = None
        # who sets session_options decides on threads inside a run, too
        if runner.provider == CPU and threads > 1 and session_options is None:
            wide = WideRunner(runner, partial(GraphRunner, self._selection, providers, num_threads=threads))
        self._embedder: Embedder | None = Embedder(runner, self.manifest.hidden_size, threads, workers, wide)
        self._batches = default_rule(self.precision, runner.on_gpu)
        if max_batch_tokens is not None:
            self._batches = replace(self._batches, max_tokens=integer("max_batch_tokens", max_batch_tokens))
        if max_seq_length is None:
            self._cut_to(self.manifest.max_seq_length, asked=False)
        else:
            self.max_seq_length = max_seq_length
        self._tokens_runner: GraphRunner | None = None

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
        precision: str | None = None,
        **options: Any,
    ) -> FastEncoder:
        """Opens an export of the Hugging Face hub, of which only the files it needs are downloaded.

        Args:
            name: A hub id such as "org/name", or an export directory, which needs no network.
            revision: Branch, tag or commit on the hub.
            token: Access token of the hub; by default the one that `hf auth login` or HF_TOKEN set.
            cache_dir: The hub's cache; by default that of huggingface_hub.
            local_files_only: Take files from the cache alone, as HF_HUB_OFFLINE=1 does for all programs.
            pooling: See `FastEncoder`.
            precision: See `FastEncoder`.
            **options: The other arguments of `FastEncoder`; any else is a TypeError.

        Raises:
            ExportDirectoryError: The repository is no export.
            ModelNotFoundError: It cannot be reached, or is not in the cache where only that may be used.
            OptionError: An argument is outside its valid values.

        Example:
            >>> FastEncoder.from_pretrained("minilm-ditto", pooling="cls").encode("One sentence.").shape
            (384,)
        """
        signature(cls).bind(name, **options)  # a misspelt option is told before anything is downloaded
        path = Path(name)
        if not path.exists():
            from ditto_fast.hub import fetch_export

            path = fetch_export(
                str(name),
                pooling,
                precision,
                backend=options.get("pooling_backend", "auto"),
                providers=options.get("providers", "cpu"),
                revision=revision,
                token=token,
                cache_dir=cache_dir,
                local_files_only=local_files_only,
                whole=options.get("verify", False),
            )
        return cls(path, pooling=pooling, precision=precision, **options)

    @property
    def manifest(self) -> Manifest:
        """What the export says of itself."""
        return self._selection.manifest

    @property
    def path(self) -> Path:
        """The graph file that runs."""
        return self._selection.path

    @property
    def pooling(self) -> str:
        """The pooling, a name of `ditto_fast.pooling.POOLINGS`."""
        return self._selection.pooling

    @property
    def precision(self) -> str:
        """Precision of the graph that runs."""
        return self._selection.info.precision

    @property
    def prompts(self) -> dict[str, str]:
        """What `encode_query` ("query") and `encode_document` ("document") put before each text."""
        return dict(self._prompts)

    @property
    def provider(self) -> str:
        """ONNX Runtime's name of the provider that runs."""
        return self._open().runner.provider

    @property
    def num_workers(self) -> int:
        """Worker processes of a call, 0 for none."""
        return self._open().num_workers

    @property
    def max_batch_tokens(self) -> int:
        """Tokens of a batch, padding included."""
        return self._batches.max_tokens

    @property
    def max_seq_length(self) -> int:
        """Length in tokens, special tokens included, that texts are cut to; may be set."""
        return self._max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        self._cut_to(value, asked=True)

    def _cut_to(self, value: int, asked: bool) -> None:
        embedder, directory = self._open(), self._selection.directory
        self._selection.check_unchanged()
        length = resolve_max_seq_length(directory, self.manifest.max_positions, value)
        tokenizer = Tokenizer(directory, length, asked)
        if tokenizer.vocab_size > self.manifest.vocab_size:
            raise ExportDirectoryError(
                f"The tokenizer of {directory} has {tokenizer.vocab_size} tokens but the model embeds "
                f"{self.manifest.vocab_size}: they do not belong together. Export again."
            )
        self._arguments["max_seq_length"] = self._max_seq_length = length
        embedder.tokenizer = tokenizer
        embedder.close()  # workers have the length that they were started with

    def get_sentence_embedding_dimension(self) -> int:
        """Width H of an embedding."""
        return self.manifest.hidden_size

    def encode(
        self,
        sentences: Sentences,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        normalize_embeddings: bool = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        precision: str = "float32",
        truncate_dim: int | None = None,
        *,
        deduplicate: bool = True,
        uniform_length: bool | None = None,
    ) -> Any:
        """Embeds sentences.

        Args:
            sentences: One string, or strings in any sequence or iterable with an order.
            batch_size: Sentences that one run of the graph takes at most; by default batches are cut by
                `max_batch_tokens`, which is faster.
            show_progress_bar: Show progress on stderr; None and False do not.
            normalize_embeddings: Divide each embedding by its L2 norm, after truncation.
            convert_to_numpy: Return one array; a list of arrays if off.
            convert_to_tensor: Return a torch tensor.
            precision: "float32", "float16", "int8", "uint8", "binary" or "ubinary"; see
                `ditto_fast.quantization.quantize_embeddings`.
            truncate_dim: Keep the first dimensions only.
            deduplicate: Compute each distinct text once; the result is the same.
            uniform_length: Only texts of one length share a batch, so that nothing is padded; the default in int8,
                where padding could tip the rounding of a value.

        Returns:
            Embeddings (n, H), rows in the order of the input; (H,) for one string.

        Raises:
            NonFiniteError: An embedding has NaN or infinity; the message names the rows.
            OptionError: An argument is outside its valid values.
            TextTypeError: An item is no string; the message gives its position.
            TextValueError: A string that has no UTF-8 form.
            WorkerError: A worker process died.

        Example:
            >>> encoder = FastEncoder("minilm-ditto")
            >>> encoder.encode("One sentence.", normalize_embeddings=True).shape
            (384,)
        """
        texts, single = as_texts(sentences)
        # what would be refused at the end is refused before anything is computed
        check_options(self.manifest.hidden_size, len(texts), batch_size, truncate_dim, convert_to_tensor, precision)
        embeddings = self._embed(texts, self._rule(batch_size, uniform_length), deduplicate, bool(show_progress_bar))
        embeddings = check_finite(embeddings, self._nonfinite)
        embeddings = np.ascontiguousarray(embeddings[:, :truncate_dim])  # no view of all dimensions
        if normalize_embeddings or self.manifest.normalize:
            embeddings = normalize(embeddings)
        result = quantize_embeddings(embeddings, precision)
        if precision == "float16":  # a value past its range
            result = check_finite(result, self._nonfinite)
        return as_asked(result, single, convert_to_numpy, convert_to_tensor)

    def _embed(self, texts: list[str], rule: BatchRule, deduplicate: bool, show_progress_bar: bool) -> FloatArray:
        if not show_progress_bar:  # tqdm has locks and a thread of its own, which a fork would meet
            return self._open().embed(texts, rule, deduplicate, lambda *_: None, self._arguments)
        with tqdm(total=len(texts), unit="sentence") as progress:
            embeddings = self._open().embed(
                texts, rule, deduplicate, lambda count, _: progress.update(count), self._arguments
            )
            progress.update(len(texts) - progress.n)  # those that had been computed already
        return embeddings

    def embed_texts(self, texts: list[str], rule: BatchRule, done: Done) -> FloatArray:
        """Embeds checked texts in this process: (n, H), neither normalised nor checked for NaN."""
        return self._open().embed_here(texts, rule, done)

    def embed_block(self, texts: list[str], done: Done) -> FloatArray:
        """Embeds checked texts as `encode` does, neither normalised nor checked for NaN.

        The same texts give the same bits, whatever the number of threads and workers.

        Args:
            texts: n texts.
            done: Called with the number of texts and of tokens after each batch.

        Returns:
            Embeddings (n, H).
        """
        return self._open().embed(texts, replace(self._rule(), spread=False), True, done, self._arguments)

    def _rule(self, batch_size: int | None = None, uniform_length: bool | None = None) -> BatchRule:
        uniform = self._batches.uniform_length if uniform_length is None else uniform_length
        size = None if batch_size is None else int(batch_size)  # numpy's small integers overflow
        return replace(self._batches, batch_size=size, uniform_length=uniform)

    def encode_query(self, sentences: Sentences, *, prompt: str | None = None, **options: Any) -> Any:
        """Embeds queries: `encode` with the "query" prompt, or another, before each text.

        Args:
            sentences: See `encode`.
            prompt: What to put before each text; `prompts["query"]` by default.
            **options: The other arguments of `encode`; any else is a TypeError.
        """
        return self.encode(self._prompted(sentences, prompt, "query"), **options)

    def encode_document(self, sentences: Sentences, *, prompt: str | None = None, **options: Any) -> Any:
        """Embeds documents: `encode` with the "document" prompt, or another, before each text.

        Args:
            sentences: See `encode`.
            prompt: What to put before each text; `prompts["document"]` by default.
            **options: The other arguments of `encode`; any else is a TypeError.
        """
        return self.encode(self._prompted(sentences, prompt, "document"), **options)

    def _prompted(self, sentences: Sentences, prompt: str | None, role: str) -> Sentences:
        return prompted(sentences, self._prompts.get(role, "") if prompt is None else prompt)

    def encode_stream(
        self, sentences: Iterable[str], chunk_size: int = 8192, *, prompt: str | None = None, **options: Any
    ) -> Iterator[Any]:
        """Embeds more texts than memory holds: takes a chunk, yields its embeddings, takes the next.

        Args:
            sentences: Any iterable of strings; it is read only as far as results are taken.
            chunk_size: Texts of a chunk.
            prompt: What to put before each text, such as `prompts["document"]`; nothing by default.
            **options: The other arguments of `encode`; any else is a TypeError.

        Yields:
            Embeddings (chunk_size, H) of one chunk after another, in order; the last may have fewer rows.

        Raises:
            OptionError: An argument is outside its valid values, or precision is one whose ranges follow the chunk.
            TextTypeError: What is given is no stream; where an item is no string, once its chunk is reached.

        Example:
            >>> encoder = FastEncoder("minilm-ditto")
            >>> [len(rows) for rows in encoder.encode_stream((f"text {i}" for i in range(5)), chunk_size=2)]
            [2, 2, 1]
        """
        # whatever is wrong with an option is told before a text is taken
        integer("chunk_size", chunk_size)
        self._open()
        prefix = "" if prompt is None else check_prompt(prompt)
        bound = signature(self.encode).bind([], **options)
        bound.apply_defaults()
        checked = ("batch_size", "truncate_dim", "convert_to_tensor", "precision")
        check_options(self.manifest.hidden_size, None, **{name: bound.arguments[name] for name in checked})
        check_streamable(bound.arguments["precision"])
        show = bool(options.pop("show_progress_bar", None))

        def encode(texts: list[str]) -> Any:
            return self.encode(prompted(texts, prefix), **options)

        return encoded_chunks(encode, sentences, chunk_size, show)

    def tokenize(self, sentences: Sentences) -> dict[str, NDArray[np.int64]]:
        """Token ids and attention mask of a padded batch: input_ids and attention_mask (n, T)."""
        texts, _ = as_texts(sentences)
        input_ids, mask = pad(self._open().tokenizer(texts), self.manifest.pad_token_id)
        return {"input_ids": input_ids, "attention_mask": mask}

    def token_weights(self, sentence: str) -> list[tuple[str, float]]:
        """The tokens of a sentence and the weight A_ii that the head gives each.

        Example:
            >>> [token for token, _ in FastEncoder("minilm-ditto").token_weights("Rain fell.")]
            ['[CLS]', 'rain', 'fell', '.', '[SEP]']
        """
        tokenizer = self._open().tokenizer
        if self._tokens_runner is None:
            self._selection.check_unchanged()
            tokens = select(self._selection.directory, DEFAULT_POOLING, self.precision, kind="tokens")
            self._tokens_runner = GraphRunner(tokens, self._arguments["providers"], self._arguments["session_options"])
        (text,), _ = as_texts([sentence])
        outputs, _ = self._tokens_runner.run(tokenizer([text]))
        names = tokenizer.tokens(text)  # none of an empty text, where the tokenizer adds none
        return list(zip(names, outputs["attention_diagonal"][0, : len(names)].tolist(), strict=True))

    similarity = staticmethod(similarity)
    similarity_pairwise = staticmethod(similarity_pairwise)

    def _open(self) -> Embedder:
        if self._embedder is None:
            raise EncoderClosedError("This encoder is closed; make a new FastEncoder.")
        return self._embedder

    def close(self) -> None:
        """Ends worker processes and frees the graph; the encoder cannot be used afterwards."""
        embedder, self._embedder = self._embedder, None
        if embedder is not None:
            embedder.close()
        self._tokens_runner = None

    def stop_workers(self) -> None:
        """Ends worker processes at once, whatever they do; the next call starts others."""
        self._open().close()

    def __enter__(self) -> FastEncoder:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments

    def __setstate__(self, arguments: dict[str, Any]) -> None:
        self.__init__(**arguments)  # type: ignore[misc]

    def __repr__(self) -> str:
        embedder = self._embedder
        state = f"provider={embedder.runner.provider!r}, num_threads={embedder.num_threads}" if embedder else "closed"
        return (
            f"FastEncoder({str(self.path)!r}, model={self.manifest.source['model_id']!r}, "
            f"head={self.manifest.head!r}, pooling={self.pooling!r}, precision={self.precision!r}, "
            f"{state})"
        )
