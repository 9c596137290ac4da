"""What a sync of two boxes of a fleet costs. Figures go to benchmarks/results/fleet.json.

    python benchmarks/fleet.py [--classes 50000] [--width 1280] [--samples 100] [--services]

By itself it measures messages and a hub that is a folder, in half precision: a box of random classes with one
sample each, which gives some more to the hub, and from there to another box. The model file that it is
compared with has no head in it, which a saved one may have.

With `--services`: two boxes begin from one model of random classes and are synced with
a hub that is a service in another process. Then one is taught, four out of five samples of known classes, and
is synced, and after it the other. A third box, that has nothing, gets all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
from service_client import served

from xlda import XLDA
from xlda.fleet import (
    FleetHub,
    Joined,
    Message,
    Register,
    Registers,
    SignedSamples,
    Space,
    Sums,
    Version,
    model_of,
)
from xlda.fleet.remote import RemoteHub
from xlda.learner.learner import Learner
from xlda.service import plans
from xlda.service.changes import NewSample
from xlda.service.engine import Engine
from xlda.service.fleet_sync import synced
from xlda.service.writer import Wanted

RESULTS = Path(__file__).parent / "results"
AT_ONCE = 10_000


def model(path: Path, n_classes: int, width: int, precision: Any) -> None:
    """Write a model of random classes with two samples each."""
    rng = np.random.default_rng(0)
    clf = XLDA(power=None, precision=precision)
    for start in range(0, n_classes, AT_ONCE):
        labels = [f"product {row:05}" for row in range(start, min(start + AT_ONCE, n_classes))]
        centres = rng.normal(size=(len(labels), width)).astype(np.float32)
        for _ in range(2):
            noise = rng.normal(size=centres.shape).astype(np.float32)
            clf.partial_fit(centres + noise / 2, labels)
    clf.save(path)


def sync(engine: Engine, url: str, box: str) -> dict[str, Any]:
    """Sync a box; gives bytes both ways, and seconds."""
    hub, began = RemoteHub(url), time.perf_counter()
    synced(engine, hub, box)
    found = {"box": box, "bytes": hub.n_bytes, "seconds": time.perf_counter() - began}
    print(found, flush=True)
    return found


def teach(engine: Engine, n: int, n_classes: int, width: int, seed: int) -> None:
    """Teach a box some samples, a fifth of them of new classes."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(n_classes, n, replace=False)
    labels = [f"new {row}" if place % 5 == 0 else f"product {row:05}" for place, row in enumerate(rows)]
    samples = [
        NewSample(one.astype(np.float32), label)
        for one, label in zip(rng.normal(size=(n, width)), labels, strict=True)
    ]
    engine.writer.change_now(Wanted("learn", plans.teach_batch(samples), "benchmark"))


def measured(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All figures."""
    start = folder / "start.xlda"
    model(start, arguments.classes, arguments.width, arguments.precision)
    engines = {}
    for box in ("bern", "basel", "new"):
        if box != "new":
            shutil.copy(start, folder / f"{box}.xlda")
        engines[box] = Engine.open(folder / f"{box}.xlda")
        engines[box].start()
    with served(folder / "hub.xlda", "--backbone", "none") as hub:
        first = [sync(engines[box], f"http://127.0.0.1:{hub.port}", box) for box in ("bern", "basel", "bern")]
        deltas = []
        for seed in range(arguments.rounds):
            teach(engines["bern"], arguments.samples, arguments.classes, arguments.width, seed)
            deltas.append(
                [sync(engines[box], f"http://127.0.0.1:{hub.port}", box) for box in ("bern", "basel")]
            )
        whole = sync(engines["new"], f"http://127.0.0.1:{hub.port}", "new")
    for engine in engines.values():
        engine.close()
    sizes = {"start": start.stat().st_size, "new": (folder / "new.xlda").stat().st_size}
    return {"first": first, "deltas": deltas, "whole": whole, "model_bytes": sizes}


def sums_of_classes(n_classes: int, width: int) -> Sums:
    """Random classes with a sample each, in half precision."""
    rng, taught = np.random.default_rng(0), Sums(Space(width, half=True))
    for start in range(0, n_classes, AT_ONCE):
        rows = range(start, min(start + AT_ONCE, n_classes))
        names = {f"{row:032x}": f"product {row:05}" for row in rows}
        embeddings = rng.standard_normal((len(rows), width), np.float32)
        taught.add(SignedSamples.of(embeddings, list(names), names))
    return taught


def some_more(n: int, width: int) -> Message:
    """Samples that a box was taught since, a fifth of them of new classes."""
    rng, space = np.random.default_rng(1), Space(width, half=True)
    ids = [f"{row + (row % 5 == 0) * 10**9:032x}" for row in range(n)]
    names = {name: f"new {row}" if row % 5 == 0 else f"product {row:05}" for row, name in enumerate(ids)}
    said = Registers(Register(name, "label", names[name], 1, "bern") for name in ids[::5])
    samples = SignedSamples.of(rng.standard_normal((n, width), np.float32), ids, names)
    return Message(space, {"bern": Version(1, 1)}, {"bern": Version(1, 2)}, samples=samples, registers=said)


def messages(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Sizes of messages, and how long some samples take to the hub and on to another box."""
    taught = sums_of_classes(arguments.classes, arguments.width)
    box, hub = Joined(taught.space), FleetHub(folder / "hub")
    box.taught, box.versions = taught, {"bern": Version(1, 1)}
    box.whole().write(folder / "whole")
    model_of([taught], Registers(), Learner).view_to_save(renew=False).write(folder / "model")
    hub.put(box.whole())
    other, message = Joined(taught.space), some_more(arguments.samples, arguments.width)
    other.apply(Message.read(folder / "whole"))
    began = time.perf_counter()
    message.write(folder / "sent")
    hub.put(Message.read(folder / "sent"))
    answer = hub.answer("basel", other.versions)
    assert answer is not None
    answer.write(folder / "got")
    other.apply(Message.read(folder / "got"))
    seconds = time.perf_counter() - began
    sizes = {name: (folder / name).stat().st_size for name in ("whole", "model", "sent", "got")}
    assert other.taught.n_samples == arguments.classes + arguments.samples
    return {"bytes": sizes, "seconds": seconds}


def main() -> None:
    """Measure, and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--classes", type=int, default=50_000)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", choices=("full", "half"), default="half")
    parser.add_argument("--services", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet.json")
    arguments, load = parser.parse_args(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        found = (measured if arguments.services else messages)(arguments, Path(folder))
    settings = {name: value for name, value in vars(arguments).items() if name not in ("out", "services")}
    stored = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    stored["services" if arguments.services else "folder"] = {
        "machine": machine.describe(), "load": load, **settings, **found
    }  # fmt: skip
    arguments.out.write_text(json.dumps(stored, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
