"""XLDA against a peer's own code: StreamingLDA of avalanche-lib, which learns one sample after another.

    python benchmarks/peer.py --npz glyphs.npz [--classes 1000] [--out FILE] [--env FOLDER]

The file is one of benchmarks/characters.py. Both learn the same embeddings in the same order, once in ten
groups of classes, one group after the other, and once with everything shuffled; both are then asked for the
same samples. Each run is a process of its own, with as many threads as the machine gives. The peer lives in
an environment of its own (`--env`, about 1.3 GB, made the first time, which needs a network);
benchmarks/peer_avalanche.py runs there and says how the peer is used. Every figure goes to
benchmarks/results/peer.json.

XLDA's `rule="slda"` with a shrinkage of 1e-4 towards I is the same rule, but not all answers are the same.
The peer computes in float32, and its shrunk covariance has a condition number of some 2e6, too much for a
float32 inverse; given float64 tensors, its own code answers as XLDA does. Its covariance starts with ones,
which does not matter: the first sample multiplies them by zero. While classes are still to come, its answers
can be one of these; benchmarks/peer_avalanche.py says why, and what is done about it.

With three samples a class, most of what plain LDA gains in accuracy is more shrinkage, not another rule: so
the peer is also asked with a shrinkage of 0.3.

PyPI's torch may bring CUDA; PyTorch's own index of CPU builds, in `PIP_EXTRA_INDEX_URL`, spares that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
import peer_avalanche
import peer_page
from learners import PLAIN
from peer_avalanche import BATCH, MORE_SHRINKAGE, SHRINKAGE, Part

from xlda import XLDA
from xlda.backbones.cache import cache_folder

RESULTS = Path(__file__).parent / "results"
GROUPS = 10
STREAMS = ("groups", "shuffled")
PEERS = {
    "loop": "avalanche, its training loop",
    "bare": "avalanche, bare `fit`",
    "double": "avalanche, bare `fit`, float64",
    "shrunk": f"avalanche, bare `fit`, shrinkage {MORE_SHRINKAGE}",
}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "published": (
        "XLDA, the published rule",
        {
            "rule": "slda",
            "shrinkage": SHRINKAGE,
            "shrinkage_target": "identity",
            "power": None,
            "search": "dense",
        },
    ),
    "default": ("XLDA", {}),
    "plain": ("plain LDA", PLAIN),
    "power": ("plain LDA, power=0.5", {**PLAIN, "power": 0.5}),
}
NAMES = PEERS | {way: name for way, (name, _) in OURS.items()}

PEER = "avalanche-lib==0.6.0"  # without its dependencies: these are the ones that importing it needs
NEEDED = (
    "torch==2.13.0",
    "torchvision==0.28.0",
    "numpy==2.4.6",
    "dill==0.4.1",
    "gdown==6.5.1",
    "gputil==1.4.0",
    "matplotlib==3.11.2",
    "packaging==26.3",
    "psutil==7.2.2",
    "pytorchcv==0.0.74",
    "qpsolvers==4.13.0",
    "setuptools==84.2.1",
    "tensorboard==2.21.0",
    "torchmetrics==1.9.0",
    "tqdm==4.70.1",
)


# -- the peer's environment


def environment(folder: Path) -> Path:
    """The Python of the peer's environment, which is made where it is not there yet."""
    python = folder / "bin" / "python"
    ready, wanted = folder / "ready.txt", "\n".join((PEER, *NEEDED)) + "\n"
    if ready.exists() and ready.read_text() == wanted:
        return python
    print(f"Making the peer's environment in {folder}", flush=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--retries", "1"]
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [*install, *NEEDED],
        [*install, "--no-deps", PEER],
    ):
        _make(command, folder)
    ready.write_text(wanted)
    return python


def _make(command: list[str], folder: Path) -> None:
    """One step; where it fails, the end."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        reason = [line for line in lines if line.startswith("ERROR")] or lines
        sys.exit(
            f"The peer's environment could not be made in {folder}, which needs a network; nothing was "
            f"measured. {reason[-1]}"
        )


def versions(python: Path) -> dict[str, str]:
    """What is installed there of what was asked for, and the Python."""
    command = [str(python), "-m", "pip", "list", "--format", "json"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    asked = {requirement.split("==")[0] for requirement in (PEER, *NEEDED)}
    found = {package["name"].lower(): package["version"] for package in listed}
    return {name: version for name, version in sorted(found.items()) if name.replace("_", "-") in asked}


# -- the data


def write_data(npz: Path, n_classes: int, seed: int, out: Path) -> dict[str, int]:
    """Some of the file's classes, with rows 0, 1, ... for labels, and both orders to learn them in."""
    with np.load(npz) as file:
        X, y, train = file["X"], file["y"], int(file["train"]) if "train" in file else 3
    labels, counts = np.unique(y, return_counts=True)
    if counts.min() != counts.max() or counts[0] <= train:
        sys.exit(f"{npz} should have equally many samples of each class, and more than {train}.")
    if not GROUPS <= n_classes <= len(labels):
        sys.exit(f"--classes is from {GROUPS} to the {len(labels)} of {npz}; got {n_classes}.")
    rng = np.random.default_rng(seed)
    samples = np.argsort(y, kind="stable").reshape(len(labels), -1)
    chosen = samples[rng.permutation(len(labels))[:n_classes]]
    learned, asked = chosen[:, :train], chosen[:, train:]
    groups = np.array_split(np.arange(learned.size).reshape(learned.shape), GROUPS)
    np.savez(
        out,
        X=X[learned.ravel()].astype(np.float32),
        y=np.repeat(np.arange(n_classes), train),
        queries=X[asked.ravel()].astype(np.float32),
        query_labels=np.repeat(np.arange(n_classes), asked.shape[1]),
        groups_order=np.concatenate([rng.permutation(group.ravel()) for group in groups]),
        groups_ends=np.cumsum([group.size for group in groups]),
        shuffled_order=rng.permutation(learned.size),
        shuffled_ends=np.array([learned.size]),
    )
    return {"classes": n_classes, "learned": learned.size, "asked": asked.size, "width": X.shape[1]}


# -- the runs


@dataclass
class Ours:
    """XLDA as a learner, in batches."""

    clf: XLDA

    def experiences(self, parts: list[Part]) -> Sequence[Part]:
        """Arrays, as they are."""
        return parts

    def learn(self, experience: Part) -> None:
        """Learn one part."""
        X, y = experience
        for start in range(0, len(X), BATCH):
            self.clf.partial_fit(X[start : start + BATCH], y[start : start + BATCH])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class of each."""
        return self.clf.predict(X)

    def predict_among(self, X: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """The same: a class that has not come never wins."""
        return self.clf.predict(X)


def measure_ours(data: Path, stream: str, way: str, out: Path) -> None:
    """In a process of its own: one way of XLDA's."""
    params = OURS[way][1]
    result = peer_avalanche.measure(
        lambda n_features, n_classes: Ours(XLDA(**params)), peer_avalanche.read_stream(data, stream)
    )
    out.write_text(json.dumps({**result, "params": params}))


def run(python: Path, data: Path, stream: str, way: str) -> dict[str, Any]:
    """One way on one stream, in a process of its own."""
    out = data.with_name("result.json")
    command = (
        [str(python), "-I", "-W", "ignore", peer_avalanche.__file__]
        if way in PEERS
        else [sys.executable, __file__]
    )
    options = ["--data", str(data), "--stream", stream, "--way", way, "--out", str(out)]
    subprocess.run([*command, *options], check=True)
    result = {"stream": stream, "way": way, "name": NAMES[way], **json.loads(out.read_text())}
    out.unlink()
    print(f"{stream:<10}{NAMES[way]:<38}{result['learn']:9.2f} s  {result['accuracy']:.2%}", flush=True)
    return result


def measure_all(python: Path, npz: Path, n_classes: int, seed: int, streams: Sequence[str]) -> dict[str, Any]:
    """Every way on each stream."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        sizes = write_data(npz, n_classes, seed, data)
        runs = [run(python, data, stream, way) for stream in streams for way in NAMES]
    answers = {(one["stream"], one["way"]): np.array(one.pop("answers")) for one in runs}
    for one in runs:
        own = answers[one["stream"], one["way"]]
        for peer in PEERS:
            one[f"equal_to_{peer}"] = float((own == answers[one["stream"], peer]).mean())
    return {
        "machine": machine.describe(),
        "peer": versions(python),
        "data": {"file": npz.name, **sizes},
        "seed": seed,
        "batch": BATCH,
        "runs": runs,
        "seconds": time.perf_counter() - begun,
    }


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, help="embeddings, see benchmarks/characters.py")
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=STREAMS)
    parser.add_argument("--out", type=Path, default=RESULTS / "peer.json")
    default = cache_folder() / "benchmarks" / "avalanche-env"
    parser.add_argument("--env", type=Path, default=default, help="folder of the peer's environment")
    for hidden in ("--data", "--stream", "--way"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        measure_ours(Path(arguments.data), arguments.stream, arguments.way, arguments.out)
        return
    if not arguments.npz:
        parser.error("--npz is needed")
    python = environment(arguments.env.resolve())
    results = measure_all(python, arguments.npz, arguments.classes, arguments.seed, arguments.streams)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results) + "\n")
    print("\n" + peer_page.section(results))


if __name__ == "__main__":
    main()
