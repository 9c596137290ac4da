"""What work on Ray costs beside the same work without it: writes results/scale.json.

    python benchmarks/scale.py embed --photos shop     two workers against one, and against no Ray
    python benchmarks/scale.py fit                     1,000,000 x 1280 from 20 Parquet files, 50,000 classes
    python benchmarks/scale.py groupby                 the same by a shuffle, on less
    python benchmarks/scale.py costs                   what each step of a sharded model costs
    python benchmarks/scale_page.py                    docs/scale.md, from all of them

Each kind of run has a process of its own, so that its memory is its own too. The start of Ray and of its
workers is not counted, and reported apart.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import machine
import numpy as np
from process_memory import forget_peak, resident

RESULTS = Path(__file__).parent / "results" / "scale.json"
D, CORES = 1280, 2


def write_samples(folder: Path, n: int, classes: int, files: int) -> None:
    """Classes of a Gaussian mixture, in as many Parquet files; samples of different classes share noise."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centres, noise = rng.standard_normal((2, classes, D), dtype=np.float32)
    for number in range(files):
        y = rng.integers(0, classes, n // files)
        X = centres[y]
        X += noise[rng.integers(0, classes, len(y))]
        column = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), D)
        pq.write_table(
            pa.table({"embedding": column, "label": y}), folder / f"{number:02}.parquet", compression=None,
            row_group_size=10_000,
        )  # fmt: skip


def start_ray() -> float:
    """Ray on this machine; how long that took."""
    import ray

    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (15 unless said, and 0 without Ray)
    begun = time.perf_counter()
    ray.init(num_cpus=CORES, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return time.perf_counter() - begun


def processor_seconds() -> float:
    """Of this process and all that it has started: what others do on the machine changes it less."""
    import ray  # noqa: F401, I001  (which brings psutil)
    import psutil

    here = psutil.Process()
    times = [process.cpu_times() for process in [here, *here.children(recursive=True)]]
    return float(sum(one.user + one.system for one in times))


# -- runs, each in a process of its own


def fit_local(folder: str) -> dict[str, Any]:
    """`fit_source` with as many threads as there are cores."""
    from xlda import XLDA

    XLDA().partial_fit(np.eye(3, D, dtype=np.float32), [0, 1, 1])  # all code is there
    begun, used = time.perf_counter(), processor_seconds()
    clf = XLDA().fit_source(folder, progress=False)
    seconds, used = time.perf_counter() - begun, processor_seconds() - used
    return {
        "seconds": seconds,
        "processor": used,
        "model_bytes": len(clf.to_bytes()),
        **_summary(clf, folder),
    }


def fit_ray(folder: str) -> dict[str, Any]:
    """`xlda.extras.ray.fit` with a worker a core."""
    from xlda.extras.ray import fit

    start = start_ray()
    begun = time.perf_counter()
    few = np.eye(64, D, dtype=np.float32), np.arange(64) % 4
    fit(few, progress=False)  # workers are there, with all code
    workers = time.perf_counter() - begun
    forget_peak()
    before, begun, used = resident(), time.perf_counter(), processor_seconds()
    clf = fit(folder, progress=False)
    seconds, used = time.perf_counter() - begun, processor_seconds() - used
    peak = resident("VmHWM")
    return {
        "seconds": seconds, "processor": used, "start_of_ray": start, "start_of_workers": workers,
        "before": before, "peak": peak,
        **_summary(clf, folder),
    }  # fmt: skip


def _summary(clf: Any, folder: str) -> dict[str, Any]:
    """What two models are compared by."""
    import pyarrow.parquet as pq

    first = next(pq.ParquetFile(Path(folder) / "00.parquet").iter_batches(2000))
    X = first.column("embedding").flatten().to_numpy().reshape(-1, D)
    predicted = clf.predict(X[:500])
    np.savez(
        Path(folder).parent / f"{sys.argv[2]}.npz", counts=clf.class_count_, means=clf.means_[:2000],
        covariance=clf.covariance_, predicted=predicted,
    )  # fmt: skip
    return {"samples": int(clf.n_samples_seen_), "classes": len(clf.classes_)}


def group_ray(folder: str) -> dict[str, Any]:
    """Counts and means alone by a shuffle, and all of a model without one."""
    import ray

    from xlda.extras.ray import fit

    start_ray()
    fit((np.eye(64, D, dtype=np.float32), np.arange(64) % 4), progress=False)
    begun = time.perf_counter()
    fit(folder, progress=False)
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    files = sorted(map(str, Path(folder).glob("*.parquet")))
    rows = ray.data.read_parquet(files[0] if len(files) == 1 else folder)
    n = rows.groupby("label").map_groups(_mean, batch_format="numpy").count()
    return {"fit": seconds, "groupby": time.perf_counter() - begun, "classes": n}


def _mean(group: dict[str, Any]) -> dict[str, Any]:
    X = np.stack(group["embedding"])
    return {"label": group["label"][:1], "count": np.array([len(X)]), "mean": X.mean(axis=0)[None]}


def embed_local(photos: str, threads: str, part: str = "0", parts: str = "1") -> dict[str, Any]:
    """`embed_to_parquet` with so many threads, of one of so many parts of the photos."""
    from xlda import backbones
    from xlda.photos import embed_to_parquet, find_photos

    network = backbones.load(threads=int(threads))
    found = find_photos(photos)[int(part) :: int(parts)]
    embed_to_parquet(found[:8], network, "warm.parquet", backbone=network.identity, decoders=int(threads))
    begun, used = time.perf_counter(), processor_seconds()
    embed_to_parquet(found, network, "all.parquet", backbone=network.identity, decoders=int(threads))
    seconds, used = time.perf_counter() - begun, processor_seconds() - used
    return {"seconds": seconds, "processor": used, "photos": len(found)}


def embed_ray(photos: str, workers: str) -> dict[str, Any]:
    """`xlda.extras.ray.embed` with so many workers of one thread each."""
    from xlda.extras.ray import embed

    start, times = start_ray(), Times()
    logging.getLogger("xlda").addHandler(times)
    logging.getLogger("xlda").setLevel(logging.DEBUG)
    begun = time.time()
    summary = embed(photos, "out", workers=int(workers), progress=False)
    last, firsts = max(times.ended), sorted(times.began)[: int(workers)]
    return {
        "seconds": last - sum(firsts) / len(firsts),  # until a worker has begun, it starts
        "photos": summary.n_embedded,
        "start_of_ray": start,
        "start_of_workers": min(times.began) - begun,
        "end_of_workers": time.time() - last,
    }


class Times(logging.Handler):
    """When parts were begun and ended, as the workers say."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[float] = []
        self.ended: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note a part."""
        if record.msg.startswith("embedded") and isinstance(record.args, tuple):
            self.began.append(float(str(record.args[1])))
            self.ended.append(float(str(record.args[2])))


RUNS = {run.__name__: run for run in (fit_local, fit_ray, group_ray, embed_local, embed_ray)}


# -- what is measured


def run(name: str, *given: str, where: Path) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "run", name, *given]
    done = subprocess.run(command, cwd=where, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(name, *given, found, flush=True)
    return found


def measure_embed(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All ways, one after the other, each in a folder of its own."""
    found: dict[str, Any] = {}
    for name, number in (("embed_local", 1), ("embed_ray", 1), ("embed_ray", 2), ("embed_local", 2)):
        place = folder / f"{name}{number}"
        place.mkdir()
        found[f"{name}_{number}"] = run(name, str(arguments.photos.resolve()), str(number), where=place)
    return {**found, "embed_apart_2": embed_apart(arguments.photos, folder)}


def embed_apart(photos: Path, folder: Path) -> dict[str, Any]:
    """Two processes of one thread at once, each with half of the photos; the slower one counts."""
    places = [folder / f"apart{part}" for part in range(2)]
    for place in places:
        place.mkdir()
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(run, "embed_local", str(photos.resolve()), "1", str(part), "2", where=place)
            for part, place in enumerate(places)
        ]
    each = [one.result() for one in runs]
    return {
        "photos": sum(one["photos"] for one in each),
        "seconds": max(one["seconds"] for one in each),
    }


def measure_fit(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Local and by Ray in turn, and how far the models differ."""
    samples = (arguments.folder or folder) / "samples"
    if not samples.exists():
        samples.mkdir(parents=True)
        write_samples(samples, arguments.samples, arguments.classes, 20)
    if not arguments.rounds:
        return {}
    runs: dict[str, Any] = {"fit_local": [], "fit_ray": []}
    for _ in range(arguments.rounds):
        for name in runs:
            runs[name].append(run(name, str(samples), where=folder))
    local, ray = (np.load(samples.parent / f"{name}.npz") for name in runs)
    return {
        **runs,
        "same_counts": bool((local["counts"] == ray["counts"]).all()),
        "means_differ": float(np.abs(local["means"] - ray["means"]).max()),
        "covariance_differs": float(np.abs(local["covariance"] - ray["covariance"]).max()),
        "same_predictions": float((local["predicted"] == ray["predicted"]).mean()),
    }


def measure_groupby(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A tenth of the samples."""
    samples = folder / "samples"
    samples.mkdir()
    write_samples(samples, arguments.samples // 10, arguments.classes // 10, 4)
    return run("group_ray", str(samples), where=folder) | {"samples": arguments.samples // 10}


def measure_costs(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Steps of a sharded model, by classes."""
    import scale_costs

    return scale_costs.measure()


MEASURES = {"embed": measure_embed, "fit": measure_fit, "groupby": measure_groupby, "costs": measure_costs}


def main() -> None:
    """Measure what was asked for, and store it beside what is there."""
    if sys.argv[1:2] == ["run"]:
        name, *given = sys.argv[2:]
        print(json.dumps(RUNS[name](*given)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("--photos", type=Path, help="a folder of photos, 2,000 or more")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=1, help="0: only write the samples")
    parser.add_argument("--folder", type=Path, help="where samples are, or are written and kept")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        found = MEASURES[arguments.what](arguments, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not found:
        return
    stored = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    stored[arguments.what] = {**found, "load": os.getloadavg()[1], "machine": machine.describe()}
    arguments.out.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
