"""Layers of torch, and XLDA as a module. Needs the extra `torch`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Self

from xlda._internal.extras import needs

try:
    import torch
except ImportError:
    raise needs("xlda.extras.torch", "torch", "torch") from None

import numpy as np

from xlda.classifier import XLDA, load
from xlda.extras._exported import refuse_more_than_a_layer
from xlda.head.head import Head
from xlda.head.linear import scoring_arrays
from xlda.layers.layer import Layer, checked_layer
from xlda.lifting.random_features import SLOPE


def read_layer(module: torch.nn.Module, labels: Any = None) -> Layer:
    """Layer of a `Linear`, or of the last one in a module, in the order in which they were added to it."""
    linears = [part for part in module.modules() if isinstance(part, torch.nn.Linear)]
    if not linears:
        raise ValueError(f"{type(module).__name__} has no torch.nn.Linear.")
    linear = linears[-1]
    bias = None if linear.bias is None else linear.bias.detach().float().cpu().numpy()
    return checked_layer(linear.weight.detach().float().cpu().numpy(), bias, labels)


def to_linear(clf: XLDA) -> torch.nn.Linear:
    """The equal `Linear`, float32: to deploy, or to start training end to end from."""
    refuse_more_than_a_layer(clf)
    weight, bias = clf.to_linear()
    linear = torch.nn.Linear(weight.shape[1], len(weight))
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(weight))
        linear.bias.copy_(torch.from_numpy(bias))
    return linear


class XLDAHead(torch.nn.Module):
    """A head that learns by `learn` and not by gradients, in the place of a linear layer in a network.

    `forward` gives logits (n, n_classes), with one column more for each new class, where its input is;
    gradients flow through to the backbone. `state_dict` holds all that was learned.

    >>> head = XLDAHead()
    >>> head.learn(torch.eye(3), ["apple", "kiwi", "pear"]).labels.tolist()
    ['apple', 'kiwi', 'pear']
    >>> head(torch.eye(3)).argmax(dim=1)
    tensor([0, 1, 2])
    """

    def __init__(self, clf: XLDA | None = None, **params: Any) -> None:
        if clf is not None and params:
            raise ValueError("Parameters are for a new classifier; this one has its own: use set_params.")
        super().__init__()
        self.clf = XLDA(**params) if clf is None else clf
        self._arrays_of: Head | None = None
        self._arrays: dict[str, torch.Tensor] = {}
        self._kind: tuple[torch.device, torch.dtype] | None = None

    @classmethod
    def from_linear(cls, module: torch.nn.Module, labels: Any = None, **how: Any) -> Self:
        """The head that takes over from the last `Linear` of a module; for `how` see `XLDA.from_linear`."""
        layer = read_layer(module, labels)
        return cls(XLDA.from_linear(layer.weight, layer.bias, labels=layer.labels, **how))

    @property
    def labels(self) -> np.ndarray[Any, Any]:
        """Label of each column of the logits."""
        return self.clf.classes_

    def learn(self, x: torch.Tensor, y: Any) -> Self:
        """Learn embeddings (n, n_features) and their labels, known or new."""
        labels = y.detach().cpu().numpy() if isinstance(y, torch.Tensor) else y
        x = x.detach().cpu()
        self.clf.partial_fit((x if x.dtype == torch.float64 else x.float()).numpy(), labels)
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of embeddings (n, n_features)."""
        arrays = self._current_arrays(x)
        if self.clf.power_ is not None:
            magnitude = x.abs().clamp_min(torch.finfo(x.dtype).tiny)  # or the gradient at 0 would be NaN
            x = x.sign() * magnitude**self.clf.power_
        if "lift_directions" in arrays:
            x = x if "lift_centre" not in arrays else x - arrays["lift_centre"]
            along = torch.nn.functional.linear(x, arrays["lift_directions"])
            x = torch.nn.functional.leaky_relu(along, SLOPE)
        x = x - arrays["centre"]
        if "rotation" in arrays:
            x = x @ arrays["rotation"]
        logits = torch.nn.functional.linear(x, arrays["weights"], arrays["bias"])
        if "curvature" in arrays:
            logits = logits + ((x * x) @ arrays["curvature"])[:, arrays["groups"]]
        return logits

    def get_extra_state(self) -> torch.Tensor:
        """The classifier as `XLDA.save` writes it; empty where nothing was learned."""
        if not self.clf.__sklearn_is_fitted__():
            return torch.empty(0, dtype=torch.uint8)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "head.xlda"
            self.clf.save(path)
            return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Become the classifier that `get_extra_state` gave."""
        if not len(state):
            self.clf = XLDA(**self.clf.get_params(deep=False))
        else:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "head.xlda")  # noqa: PTH118
                Path(path).write_bytes(state.cpu().numpy().tobytes())
                self.clf = load(path)

    def _current_arrays(self, like: torch.Tensor) -> dict[str, torch.Tensor]:
        """What gives the scores of all that was learned so far, where `like` is and in its type."""
        head, kind = self.clf.snapshot().head, (like.device, like.dtype)
        if head is not self._arrays_of or kind != self._kind:
            if head.second_look is not None:
                raise ValueError(
                    "XLDAHead has no second look. clf.set_params(second_look=None) drops the rows."
                )
            arrays = scoring_arrays(head).taken(head.table.sorted_rows)._asdict()
            if head.space.lift is not None:
                arrays["lift_directions"] = head.space.lift.directions()
                arrays["lift_centre"] = head.space.lift.centre
            with torch.inference_mode(False):  # so that they can be used with gradients later
                self._arrays = {
                    name: torch.from_numpy(array).to(like.device, None if name == "groups" else like.dtype)
                    for name, array in arrays.items()
                    if array is not None
                }
            self._arrays_of, self._kind = head, kind
        return self._arrays
