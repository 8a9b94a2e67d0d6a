"""BERT-flow (Li et al., 2020): an invertible map f that makes embeddings Gaussian; the embedding is z = f(x).

f is a small Glow without squeezing: 3 levels of 3 steps, each step actnorm -> reversal of the channels -> additive
coupling. After each level but the last, half of the channels leave under N(0, I). Training maximises
log N(f(x); 0, I) + log |det df/dx|; only actnorm changes volumes. Settings are those of the published config
(l3 d3 w32; AdamW at 1e-3, clipped at 1, batches of 32, one epoch). Ours differs in this: the frozen encoder's
embeddings are computed once, so its dropout is off.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ditto_fast.errors import DataError

FloatArray = NDArray[np.float32]

_LEVELS, _STEPS, _WIDTH = 3, 3, 32
_LOG_SCALE = 3.0  # factor on learnt log scales, as in Glow
_BATCH_SIZE = 32


class ActNorm(nn.Module):
    """y = (x + b) exp(3 s) per channel, set on its first batch so that y has mean 0 and variance 1."""

    initialised: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))
        self.logs = nn.Parameter(torch.zeros(channels))
        self.register_buffer("initialised", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C) to (B, C)."""
        if not self.initialised:
            with torch.no_grad():
                self.bias.copy_(-x.mean(dim=0))
                self.logs.copy_(-torch.log(x.std(dim=0, unbiased=False) + 1e-6) / _LOG_SCALE)
                self.initialised.fill_(True)
        return (x + self.bias) * torch.exp(self.logs * _LOG_SCALE)

    def log_det(self) -> Tensor:
        """Log |det dy/dx|, the same for every row."""
        return self.logs.sum() * _LOG_SCALE


class Step(nn.Module):
    """Actnorm, reversal, additive coupling x2 += g(x1); (B, C) to (B, C)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = ActNorm(channels)
        half = channels // 2
        self._half = half
        first, second = nn.Linear(half, _WIDTH, bias=False), nn.Linear(_WIDTH, _WIDTH, bias=False)
        for layer in (first, second):
            nn.init.normal_(layer.weight, std=0.05)
        self.inner = nn.Sequential(first, ActNorm(_WIDTH), nn.ReLU(), second, ActNorm(_WIDTH), nn.ReLU())
        self.out = nn.Linear(_WIDTH, channels - half)
        self.out_logs = nn.Parameter(torch.zeros(channels - half))
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C) to (B, C)."""
        left, right = self.norm(x).flip(-1).split([self._half, x.shape[1] - self._half], dim=1)
        shift = self.out(self.inner(left)) * torch.exp(self.out_logs * _LOG_SCALE)
        return torch.cat([left, right + shift], dim=1)


class Glow(nn.Module):
    """The flow: (B, H) to z (B, H) and log |det dz/dx|.

    Args:
        width: H.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList()
        for level in range(_LEVELS):
            self.levels.append(nn.ModuleList(Step(width) for _ in range(_STEPS)))
            width -= width // 2 if level < _LEVELS - 1 else 0

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps a batch and adds up the log-determinants."""
        left_early: list[Tensor] = []
        log_det = x.new_zeros(())
        for number, level in enumerate(self.levels):
            for step in level:  # type: ignore[attr-defined]  # a ModuleList, which nn.Module does not tell
                x = step(x)
                log_det = log_det + step.norm.log_det()
            if number < _LEVELS - 1:
                half = x.shape[1] // 2
                left_early.append(x[:, x.shape[1] - half :])
                x = x[:, : x.shape[1] - half]
        return torch.cat([*left_early, x], dim=1), log_det


def loss(z: Tensor, log_det: Tensor) -> Tensor:
    """Negative log-likelihood in bits a dimension, mean over the batch."""
    width = z.shape[1]
    gaussian = -0.5 * (z * z).sum(dim=1) - 0.5 * width * math.log(2 * math.pi)
    return -(gaussian + log_det).mean() / (math.log(2) * width)


class Flow:
    """BERT-flow, fit on embeddings.

    Args:
        embeddings: What to fit on (n, H).
        epochs: Passes over them.
        seed: Of the weights' start and of the order.

    Raises:
        DataError: There are fewer embeddings than one batch.
    """

    def __init__(self, embeddings: FloatArray, epochs: int = 1, seed: int = 0) -> None:
        if len(embeddings) < _BATCH_SIZE:
            raise DataError(f"BERT-flow is fit on batches of {_BATCH_SIZE} sentences; got {len(embeddings)} in all.")
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._glow = Glow(embeddings.shape[1])
        rows = torch.from_numpy(np.ascontiguousarray(embeddings, dtype=np.float32))
        self._glow(rows[torch.randperm(len(rows), generator=generator)[:_BATCH_SIZE]])  # sets actnorm
        optimizer = torch.optim.AdamW(self._glow.parameters(), lr=1e-3, weight_decay=0.01, eps=1e-6)
        self.losses: list[float] = []
        for _ in range(epochs):
            for batch in torch.split(torch.randperm(len(rows), generator=generator), _BATCH_SIZE):
                optimizer.zero_grad()
                value = loss(*self._glow(rows[batch]))
                value.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self._glow.parameters(), 1.0)
                optimizer.step()
                self.losses.append(float(value.detach()))

    def __call__(self, embeddings: FloatArray) -> FloatArray:
        """Z (n, H)."""
        with torch.inference_mode():
            z: FloatArray = self._glow(torch.from_numpy(np.ascontiguousarray(embeddings, dtype=np.float32)))[0].numpy()
        return z
