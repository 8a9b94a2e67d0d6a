"""The GPU path: the graph gives the head's query and key, and one fused kernel makes the embeddings of them.

Inputs go up from pinned memory, the graph's outputs stay on the device, the kernel takes them by DLPack on the
same stream, and only the embeddings (B, H) come back. On the CPU the same code runs with plain torch in the kernel's
place; there the embedding graph is the faster choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.checks import integer
from ditto_fast.errors import MissingDependencyError, ProviderError
from ditto_fast.providers import PROVIDERS, ProviderList, Providers, prefers_cuda, resolve_providers
from ditto_fast.runner import GraphRunner
from ditto_fast.selection import Selection
from ditto_fast.session import import_onnxruntime

if TYPE_CHECKING:
    import onnxruntime
    import torch

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


class KernelRunner(GraphRunner):
    """Runs the head graph of an export and pools with `ditto_fast.kernels.ditto_pool`.

    Args:
        selection: The head graph.
        providers: See `ditto_fast.providers.resolve_providers`.
        configure: Changes the session options last.

    Raises:
        ExportDirectoryError: The file is broken.
        MissingDependencyError: torch is not installed.
        ProviderError: A provider cannot run here.
    """

    def __init__(
        self,
        selection: Selection,
        providers: Providers,
        configure: Callable[[onnxruntime.SessionOptions], None] | None = None,
    ) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingDependencyError(
                f"{selection.path.name} is pooled by a torch kernel: pip install 'ditto-fast[kernels]' ({error})."
            ) from error
        self._torch = torch
        self._turn = Lock()  # one stream: batches take turns on it
        self._stream: torch.cuda.Stream | None = None
        self._device_id = 0
        self._forked = False
        if prefers_cuda(providers):
            providers = self._on_one_stream(
                resolve_providers(providers, import_onnxruntime().get_available_providers())
            )
        super().__init__(selection, providers, configure)

    def _on_one_stream(self, providers: ProviderList) -> ProviderList:
        """Makes the stream of graph and kernel, on the device that the options name, and asks for it."""
        cuda, (name, options) = self._torch.cuda, providers[0]
        if not cuda.is_available():
            raise ProviderError(
                f"{name} needs a torch that sees the GPU for the kernel; torch {self._torch.__version__} "
                "does not. Install a CUDA build of torch, or pass pooling_backend='graph'."
            )
        device = options.get("device_id", 0)  # ONNX Runtime takes "1" for 1
        device = int(device) if str(device).isdigit() else device
        self._device_id = integer(f"device_id of {name}", device, 0, cuda.device_count() - 1, "the GPUs torch sees")
        self._stream = cuda.Stream(self._device_id)
        return [(name, {**options, "user_compute_stream": str(self._stream.cuda_stream)}), *providers[1:]]

    def renew(self) -> None:
        """In a forked child, the lock, too, may be another thread's of the parent; its stream is of no use there."""
        super().renew()
        self._turn = Lock()
        self._forked = self._stream is not None

    @property
    def device(self) -> str:
        """Where the graph's outputs are, as torch names it."""
        return f"cuda:{self._device_id}" if self.provider == PROVIDERS["cuda"] else "cpu"

    def embed(self, token_ids: Sequence[IntArray]) -> FloatArray:
        """Embeddings (B, H) of texts given as token ids, one array (T,) each.

        Raises:
            ProviderError: The process was forked from one that had the encoder: CUDA does not run in it.
        """
        from ditto_fast.kernels import ditto_pool

        if self._forked:
            raise ProviderError(
                "CUDA does not run in a process forked from one that uses it. Start processes by spawn "
                "(multiprocessing_context='spawn' of a DataLoader), or open the encoder in the child."
            )
        feeds, mask = self.feeds(token_ids)
        with self._turn, self._torch.cuda.stream(self._stream):
            outputs = self._run_on_device(feeds)
            lengths = self._upload(mask.sum(axis=1, dtype=np.int32))
            embeddings = ditto_pool(
                outputs["query"],
                outputs["key"],
                outputs["first_hidden_state"],
                outputs["last_hidden_state"],
                lengths=lengths,
                scale=1.0,  # the graph has scaled the query
            )
            result: FloatArray = embeddings.cpu().numpy()
        return result

    def _upload(self, array: NDArray[Any]) -> torch.Tensor:
        tensor = self._torch.from_numpy(array)
        # without a stream in common ("auto"), the graph would not wait for the copy
        return (
            tensor
            if self.device == "cpu"
            else tensor.pin_memory().to(self.device, non_blocking=self._stream is not None)
        )

    def _run_on_device(self, feeds: dict[str, IntArray]) -> dict[str, torch.Tensor]:
        """The graph's outputs by name, left on the device, without waiting for them."""
        binding = self.session.io_binding()
        kind = self.device.partition(":")[0]
        inputs = {name: self._upload(array) for name, array in feeds.items()}
        for name, tensor in inputs.items():
            binding.bind_input(name, kind, self._device_id, np.int64, tuple(tensor.shape), tensor.data_ptr())
        names = self._selection.info.outputs
        for name in names:
            binding.bind_output(name, kind, self._device_id)
        options = self._run_options()
        self.session.run_with_iobinding(binding, options)
        # the vector's own values: those of get_outputs() speak DLPack from ONNX Runtime 1.26 on only
        values = binding.get_outputs_as_ortvaluevector()
        return {name: self._torch.utils.dlpack.from_dlpack(value) for name, value in zip(names, values, strict=True)}

    def _run_options(self) -> onnxruntime.RunOptions:
        options = import_onnxruntime().RunOptions()
        if self._stream is not None:  # the kernel waits on the same stream, the host need not
            options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return options
