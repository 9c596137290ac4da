"""What XLDA is compared with: a fully connected (FC) layer in torch.

Adam over embeddings as they are is better here than SGD with momentum over standardised ones (500
characters, 3 samples each: by 6 points), at rates from 0.001 to 0.01; weight decay changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

BLOCK = 1024  # queries at a time


@dataclass(frozen=True)
class Training:
    """Cross-entropy, batches, epochs, and Adam whose rate falls to 0 along a line.

    `decay` is a weight decay beside it: in each step, weights shrink by so much of themselves times the rate.
    """

    rate: float
    epochs: int
    batch: int
    decay: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For the results."""
        return asdict(self)


def to_convergence(n_samples: int, rate: float = 0.003, steps: int = 1_500) -> Training:
    """So many epochs: 20, and so many steps.

    Ten times as many steps bring one to three points more, as docs/dozens.md shows for 1,000 characters.
    """
    batch = 64 if n_samples <= 20_000 else 512
    return Training(rate, max(20, -(-steps * batch // n_samples)), batch)


class FCLayer:
    """Trains from random weights, or from a given layer."""

    def __init__(
        self,
        n_classes: int,
        n_features: int,
        seed: int,
        start: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        torch.manual_seed(seed)
        self.layer = torch.nn.Linear(n_features, n_classes)
        if start is not None:
            weight, bias = (torch.from_numpy(array.astype(np.float32)) for array in start)
            self.layer.weight.data, self.layer.bias.data = weight, bias

    def train(
        self,
        X: np.ndarray,
        rows: np.ndarray,
        how: Training,
        after_step: Callable[[int, float, float], object] | None = None,
    ) -> float:
        """Seconds it took. `after_step` gets steps, seconds so far, and the loss; its time does not count."""
        inputs, targets = torch.from_numpy(X), torch.from_numpy(rows)
        total = how.epochs * -(-len(rows) // how.batch)
        optimiser = torch.optim.AdamW(
            self.layer.parameters(), lr=how.rate, weight_decay=how.decay, fused=True
        )
        step, seconds = 0, 0.0
        for _ in range(how.epochs):
            for some in torch.randperm(len(inputs)).split(how.batch):
                begin = time.perf_counter()
                optimiser.param_groups[0]["lr"] = how.rate * (1 - step / total)
                optimiser.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.layer(inputs[some]), targets[some])
                loss.backward()
                optimiser.step()
                seconds += time.perf_counter() - begin
                step += 1
                if after_step is not None:
                    after_step(step, seconds, loss.item())
        return seconds

    def predict(self, X: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
        """The best class of each embedding, among those `allowed` (True or False for each)."""
        answers = []
        barred = None if allowed is None else torch.from_numpy(~allowed)
        with torch.no_grad():
            for some in torch.from_numpy(X).split(BLOCK):
                logits = self.layer(some)
                if barred is not None:
                    logits[:, barred] = -torch.inf
                answers.append(logits.argmax(dim=1).numpy())
        return np.concatenate(answers)

    @property
    def nbytes(self) -> int:
        """Weights, and the two averages that Adam needs to go on."""
        return 3 * 4 * sum(parameter.numel() for parameter in self.layer.parameters())
