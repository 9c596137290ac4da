"""What a sync of two boxes of a fleet costs, with a hub that is a service in another process.

    python benchmarks/fleet.py [--classes 50000] [--width 1280] [--samples 100] [--precision half]

Two boxes begin from one model of drawn classes and are synced. Then one is taught, four out of five samples
of known classes, and is synced, and after it the other: bytes are those of what is sent and got, seconds
those of both syncs. A third box, that has nothing, gets all. Figures go to benchmarks/results/fleet.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
from service_client import served

from xlda import XLDA
from xlda.fleet.remote import RemoteHub
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
    return {"box": box, "bytes": hub.n_bytes, "seconds": time.perf_counter() - began}


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


def main() -> None:
    """Measure, and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--classes", type=int, default=50_000)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", choices=("full", "half"), default="half")
    parser.add_argument("--out", type=Path, default=RESULTS / "fleet.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(arguments, Path(folder))
    settings = {name: value for name, value in vars(arguments).items() if name != "out"}
    arguments.out.write_text(
        json.dumps({"machine": machine.describe(), **settings, **found}, indent=1) + "\n"
    )
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
