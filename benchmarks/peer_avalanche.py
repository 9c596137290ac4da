"""The peer's half of benchmarks/peer.py, and the measuring that both halves share.

    PYTHON-OF-THE-PEER benchmarks/peer_avalanche.py --data FILE --stream groups --way loop --out FILE

`benchmarks/peer.py` calls it with the Python of an environment that has avalanche-lib, in which the project
is not installed. The peer is used as it is published, through its own interface:

- `loop`: embeddings are datasets of avalanche, groups are its experiences, and `strategy.train(experience)`
  runs, with an identity in place of the network and without metrics or loggers. Before it learns a batch,
  its loop predicts it, for the loss, and so inverts the covariance once a batch.
- `bare`: only its `fit(x, y)`, sample after sample, which is all that learning needs.
- `double`: the same with its tensors and the embeddings as float64, to tell the rule from its rounding.
- `shrunk`: as `bare`, with XLDA's default number for the shrinkage, to tell the rule from the peer's default.

A class that has not come yet has the score 0 with the peer, which can be the highest. Accuracy is given with
that, as the peer's own metric would, and among the classes seen.

Two things that avalanche imports and StreamingLDA never uses are stood in for: wandb, by an empty module, so
that nothing can be sent anywhere; and, where torchvision was built for CUDA and torch was not (PyPI's wheel
beside a CPU torch), the two compiled operators without which torchvision cannot be imported, by declarations.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

BATCH = 512  # samples learned a call, and queries asked for a call
MOST_SINGLE = 100  # queries asked for one by one
PASSES = 5  # over all queries, in batches
SHRINKAGE = 1e-4  # the peer's default, towards I
MORE_SHRINKAGE = 0.3  # XLDA's default

Part = tuple[np.ndarray, np.ndarray]  # embeddings and their classes


@dataclass
class Stream:
    """What comes, part after part, and what is asked for."""

    parts: list[Part]
    queries: np.ndarray
    query_labels: np.ndarray


class Learner(Protocol):
    """One way to learn: `experiences` turns parts into what `learn` takes, before the clock runs."""

    def experiences(self, parts: list[Part]) -> Sequence[Any]:
        """Each part as this learner wants it."""

    def learn(self, experience: Any) -> None:
        """Learn one."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class of each."""

    def predict_among(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """The class of each, among those that `seen`, a mask, says have come."""


NewLearner = Callable[[int, int], Learner]  # from the width of embeddings and the number of classes


def read_stream(path: Path, name: str) -> Stream:
    """The stream of that name in the file that benchmarks/peer.py has written."""
    with np.load(path) as file:
        order, ends = file[f"{name}_order"], file[f"{name}_ends"]
        X, y = file["X"][order], file["y"][order]
        parts = list(zip(np.split(X, ends[:-1]), np.split(y, ends[:-1]), strict=True))
        return Stream(parts, file["queries"], file["query_labels"])


def measure(new_learner: NewLearner, stream: Stream) -> dict[str, Any]:
    """Time, memory and accuracy, in a process that does nothing else.

    Where a learner puts work off until it is asked something, `first_answer` has it: for a fair sum, add it
    to `learn`. Accuracy after each part comes from a second learner, so that asking meanwhile costs the first
    one nothing.
    """
    _load_all_code(new_learner)
    n_features, n_classes = stream.queries.shape[1], int(stream.query_labels.max()) + 1
    experiences = new_learner(n_features, n_classes).experiences(stream.parts)
    before = _forget_peak()
    learner = new_learner(n_features, n_classes)
    learn = [_seconds(learner.learn, experience) for experience in experiences]
    peak_learning = _resident("VmHWM") - before
    first_answer = _seconds(learner.predict, stream.queries[:1])
    passes = [_seconds(learner.predict, *_batches(stream.queries)) for _ in range(PASSES)]
    single = [_seconds(learner.predict, query[None]) for query in stream.queries[:MOST_SINGLE]]
    peak = _resident("VmHWM") - before
    answers = _answers(learner.predict, stream.queries)
    del learner
    return {
        "learn": sum(learn),
        "learn_each_part": learn,
        "first_answer": first_answer,
        "predict": float(np.median(passes)),
        "predict_each_pass": passes,
        "predict_ms_a_query": 1e3 * float(np.median(passes)) / len(stream.queries),
        "predict_one_by_one_ms": 1e3 * float(np.median(single)),
        "predict_one_by_one": single,
        "accuracy": float((answers == stream.query_labels).mean()),
        "after_each_part": _after_each_part(new_learner(n_features, n_classes), experiences, stream),
        "memory": {"before": before, "learning": peak_learning, "learning_and_predicting": peak},
        "answers": answers.tolist(),
    }


def _after_each_part(learner: Learner, experiences: Sequence[Any], stream: Stream) -> list[dict[str, Any]]:
    """Accuracy over the classes seen so far, and the share of answers that are a class not seen yet."""
    if len(stream.parts) == 1:
        return []
    seen = np.zeros(int(stream.query_labels.max()) + 1, bool)
    result = []
    for experience, (_, y) in zip(experiences, stream.parts, strict=True):
        learner.learn(experience)
        seen[y] = True
        asked = seen[stream.query_labels]
        queries, labels = stream.queries[asked], stream.query_labels[asked]
        answers = _answers(learner.predict, queries)
        among_seen = _answers(lambda X: learner.predict_among(X, seen), queries)
        result.append(
            {
                "classes": int(seen.sum()),
                "accuracy": float((answers == labels).mean()),
                "never_seen": float((~seen[answers]).mean()),
                "accuracy_among_seen": float((among_seen == labels).mean()),
            }
        )
    return result


def _load_all_code(new_learner: NewLearner) -> None:
    """Learn and predict something narrow, so that no import or first call is measured."""
    X, y = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32), np.arange(8) % 2
    learner = new_learner(4, 2)
    for experience in learner.experiences([(X, y)]):
        learner.learn(experience)
    learner.predict(X)


def _answers(predict: Callable[[np.ndarray], np.ndarray], queries: np.ndarray) -> np.ndarray:
    return np.concatenate([predict(batch) for batch in _batches(queries)])


def _batches(X: np.ndarray) -> Iterable[np.ndarray]:
    return (X[start : start + BATCH] for start in range(0, len(X), BATCH))


def _seconds(function: Callable[[Any], Any], *arguments: Any) -> float:
    """Seconds of one call after the other, with each of the arguments."""
    begun = time.perf_counter()
    for argument in arguments:
        function(argument)
    return time.perf_counter() - begun


def _forget_peak() -> int:
    """Make the peak of the process what it uses now, and say what that is."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _resident(name: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{name}:")[1].split()[0])


def import_avalanche() -> None:
    """Import it with the two stand-ins that the top of this file speaks of."""
    import torch

    sys.modules["wandb"] = ModuleType("wandb")
    try:
        import torchvision  # noqa: F401
    except RuntimeError:  # its compiled operators do not fit this torch
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        for operator in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{operator}", signature)
    import avalanche.training.supervised  # noqa: F401


class Loop:
    """The peer with its own training loop."""

    shrinkage = SHRINKAGE

    def __init__(self, n_features: int, n_classes: int) -> None:
        import torch
        from avalanche.training.supervised import StreamingLDA

        self.strategy = StreamingLDA(
            slda_model=torch.nn.Identity(),
            criterion=torch.nn.CrossEntropyLoss(),
            input_size=n_features,
            num_classes=n_classes,
            output_layer_name=None,
            shrinkage_param=self.shrinkage,
            streaming_update_sigma=True,
            train_mb_size=BATCH,
            evaluator=None,
        )

    def experiences(self, parts: list[Part]) -> Sequence[Any]:
        """A stream of avalanche's, with an experience for each part."""
        from avalanche.benchmarks import benchmark_from_datasets
        from avalanche.benchmarks.utils import as_classification_dataset

        datasets = [as_classification_dataset(_tensor_dataset(part)) for part in parts]
        return list(benchmark_from_datasets(train=datasets).train_stream)

    def learn(self, experience: Any) -> None:
        """Train on it, in the order it has."""
        self.strategy.train(experience, shuffle=False)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class of the highest score, seen or not."""
        return self._scores(X).argmax(dim=1).numpy()

    def predict_among(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """The class of the highest score among those seen."""
        rows = np.flatnonzero(seen)
        return rows[self._scores(X)[:, rows].argmax(dim=1).numpy()]

    def _scores(self, X: np.ndarray) -> Any:
        import torch

        return self.strategy.predict(torch.from_numpy(X).to(self.strategy.muK.dtype))


class Bare(Loop):
    """The peer without its training loop."""

    def experiences(self, parts: list[Part]) -> Sequence[Any]:
        """Tensors."""
        return [_tensor_dataset(part).tensors for part in parts]

    def learn(self, experience: Any) -> None:
        """Call its `fit` for each sample."""
        X, y = experience
        for row in range(len(X)):
            self.strategy.fit(X[row : row + 1], y[row : row + 1])


class Shrunk(Bare):
    """The peer without its training loop, with more shrinkage."""

    shrinkage = MORE_SHRINKAGE


class Double(Bare):
    """The peer without its training loop, with its state as float64."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__(n_features, n_classes)
        for name in ("muK", "cK", "Sigma", "Lambda"):
            setattr(self.strategy, name, getattr(self.strategy, name).double())

    def experiences(self, parts: list[Part]) -> Sequence[Any]:
        """Tensors, the embeddings as float64."""
        return [(X.double(), y) for X, y in super().experiences(parts)]


def _tensor_dataset(part: Part) -> Any:
    """Torch's dataset of these arrays, sharing their memory; avalanche wants `targets`."""
    import torch

    X, y = (torch.from_numpy(array) for array in part)
    dataset = torch.utils.data.TensorDataset(X, y)
    dataset.targets = y
    return dataset


WAYS: dict[str, NewLearner] = {"loop": Loop, "bare": Bare, "double": Double, "shrunk": Shrunk}


def main() -> None:
    """Measure one way on one stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--way", choices=WAYS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    import_avalanche()
    import torch

    result = measure(WAYS[arguments.way], read_stream(arguments.data, arguments.stream))
    arguments.out.write_text(json.dumps({**result, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
