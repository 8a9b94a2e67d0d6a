"""One open graph: token ids in, embeddings out, from any thread and in any process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ditto_fast.batches import INPUTS, graph_inputs, pad
from ditto_fast.errors import ExportDirectoryError
from ditto_fast.forks import leave_to_parent, renew_after_fork
from ditto_fast.pooling import pool
from ditto_fast.providers import CPU, ON_GPU, Providers
from ditto_fast.selection import Selection
from ditto_fast.session import import_onnxruntime, open_session

if TYPE_CHECKING:
    import onnxruntime

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]

# The arena keeps what it once took, which pays for batches of the usual size. A larger one, padding included, gives its
# memory back after the run: only batch_size= or a budget of the user's own makes such batches.
KEPT_TOKENS = 2048


class GraphRunner:
    """Runs one graph of an export; a fork gets a session of its own at its first run.

    Args:
        selection: The graph and what to pool.
        providers: See `ditto_fast.providers.resolve_providers`.
        configure: Changes the session options last.
        num_threads: Threads that one run uses inside an operator; several runs at once, on one thread each, are
            faster than several threads inside one.

    Raises:
        ExportDirectoryError: The file is broken.
        ProviderError: A provider cannot run here.
    """

    def __init__(
        self,
        selection: Selection,
        providers: Providers,
        configure: Callable[[onnxruntime.SessionOptions], None] | None = None,
        num_threads: int = 1,
    ) -> None:
        self._num_threads = num_threads
        self._selection = selection
        self._providers = providers
        self._configure = configure
        self._lock = Lock()
        self._session: onnxruntime.InferenceSession | None = None
        self._inputs = self._checked_inputs()
        renew_after_fork(self)
        if selection.info.precision == "fp16" and self.provider == CPU:
            warnings.warn(
                f"{selection.path} is an fp16 graph on the CPU: slower than fp32. Use an fp32 or int8 graph there.",
                RuntimeWarning,
                stacklevel=3,
            )

    def _checked_inputs(self) -> list[str]:
        """The names of what the graph is fed, if it is the graph that the manifest tells of."""
        inputs = [node.name for node in self.session.get_inputs()]
        outputs = [node.name for node in self.session.get_outputs()]
        if not (set(inputs) <= set(INPUTS) and set(outputs) >= set(self._selection.info.outputs)):
            raise ExportDirectoryError(
                f"{self._selection.path} takes {', '.join(inputs)} and gives {', '.join(outputs)}; wanted are inputs "
                f"among {', '.join(INPUTS)} and {', '.join(self._selection.info.outputs)}: it is not the graph that "
                "the manifest tells of. Export again."
            )
        return inputs

    def renew(self) -> None:
        """In a forked child, the parent's session is none to use; the first run opens another."""
        leave_to_parent(self._session)
        self._lock = Lock()
        self._session = None

    @property
    def session(self) -> onnxruntime.InferenceSession:
        """The session of this process."""
        if self._session is None:
            with self._lock:
                if self._session is None:
                    self._selection.check_unchanged()  # in a fork, or where it is opened once more, time has passed
                    path, configure = self._selection.path, self._configure
                    self._session = open_session(path, self._providers, self._num_threads, configure)
        return self._session

    @property
    def files(self) -> Mapping[str, str]:
        """SHA-256 of the export's files, by name."""
        return self._selection.manifest.files

    @property
    def provider(self) -> str:
        """ONNX Runtime's name of the provider that runs."""
        return str(self.session.get_providers()[0])

    @property
    def on_gpu(self) -> bool:
        """Whether it runs on a GPU, which wants larger batches than a CPU's cores."""
        return self.provider in ON_GPU

    def embed(self, token_ids: Sequence[IntArray]) -> FloatArray:
        """Embeddings (B, H) of texts given as token ids, one array (T,) each."""
        outputs, mask = self.run(token_ids)
        if "sentence_embedding" in outputs:
            return outputs["sentence_embedding"]
        return pool(
            self._selection.pooling,
            outputs["attention_diagonal"],
            outputs["first_hidden_state"],
            outputs["last_hidden_state"],
            mask,
        )

    def run(self, token_ids: Sequence[IntArray]) -> tuple[dict[str, FloatArray], IntArray]:
        """The graph's outputs by name for one padded batch, and its attention mask (B, T)."""
        feeds, mask = self.feeds(token_ids)
        names = self._selection.info.outputs
        if self.provider == CPU:
            values = self.session.run(names, feeds, self._options(mask.size))
        else:
            values = self.run_bound(names, feeds)
        return dict(zip(names, values, strict=True)), mask

    def _options(self, tokens: int) -> onnxruntime.RunOptions | None:
        if tokens <= KEPT_TOKENS or not self.session.get_session_options().enable_cpu_mem_arena:
            return None
        options = import_onnxruntime().RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        return options

    def feeds(self, token_ids: Sequence[IntArray]) -> tuple[dict[str, IntArray], IntArray]:
        """The graph's inputs for one padded batch, (B, T) each, and its attention mask.

        Raises:
            ExportDirectoryError: An id is past the model's embedding table.
        """
        input_ids, mask = pad(token_ids, self._selection.manifest.pad_token_id)
        vocab_size = self._selection.manifest.vocab_size
        if int(input_ids.max()) >= vocab_size:
            raise ExportDirectoryError(
                f"The tokenizer of {self._selection.directory} gave the id {int(input_ids.max())}, but the model "
                f"embeds ids below {vocab_size}: they do not belong together. Export again."
            )
        return graph_inputs(input_ids, mask, self._inputs), mask

    def run_bound(self, names: Sequence[str], feeds: dict[str, IntArray]) -> list[FloatArray]:
        """The same through IOBinding: inputs are copied to the device once, and only outputs come back."""
        binding = self.session.io_binding()
        for name, value in feeds.items():
            binding.bind_cpu_input(name, value)
        for name in names:
            binding.bind_output(name)
        binding.synchronize_inputs()  # binding only queues the copy, on a stream that the graph's does not wait for
        self.session.run_with_iobinding(binding)
        outputs: list[FloatArray] = binding.copy_outputs_to_cpu()
        return outputs
