"""Memory of the process while it learns from a folder of files larger than that: writes results/memory.json.

    python benchmarks/source_memory.py                          10 GB in each format, in a temporary folder
    python benchmarks/source_memory.py --gigabytes 1 --folder /somewhere/with/room

Each format is learned in a process of its own, which reads its peak from the system (VmHWM).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
from process_memory import resident

D, CLASSES, PER_FILE = 1280, 50_000, 100_000
FORMATS = ("parquet", "safetensors", "npz")


def write_shard(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    """Write one file in the format of its suffix."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        column = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), D)
        pq.write_table(pa.table({"embedding": column, "label": y}), path, row_group_size=len(X))
    elif path.suffix == ".npz":
        np.savez(path, embedding=X, label=y)
    else:
        from safetensors.numpy import save_file

        save_file({"embedding": X, "label": y}, path)


def learn(folder: str) -> None:
    """In a process of its own: learn the folder, print what it took."""
    from xlda import XLDA

    clf = XLDA()
    clf.partial_fit(np.zeros((2, D), np.float32), [0, 0]).predict(
        np.zeros((1, D), np.float32)
    )  # load all code
    clf = XLDA()
    before = resident("VmRSS")
    begun = time.perf_counter()
    clf.fit_source(folder, progress=False)
    seconds = time.perf_counter() - begun
    moments = clf._model.moments
    model = moments._counts.nbytes + moments._offsets.nbytes + moments._scatter.nbytes[0]
    peak = resident("VmHWM")
    result = {"before": before, "peak": peak, "model": model, "seconds": seconds}
    result |= {"samples": clf.n_samples_seen_, "classes": len(clf.classes_)}
    print(json.dumps(result))


def measure(kind: str, folder: Path, n_files: int) -> dict[str, Any]:
    """Write the files, learn them, remove them."""
    rng = np.random.default_rng(0)
    for number in range(n_files):
        X = rng.standard_normal((PER_FILE, D), dtype=np.float32)
        write_shard(folder / f"shard-{number:04}.{kind}", X, rng.integers(0, CLASSES, PER_FILE))
    files = sorted(folder.iterdir())
    size = sum(path.stat().st_size for path in files)
    output = subprocess.run(
        [sys.executable, __file__, "--learn", str(folder)], capture_output=True, text=True, check=True
    ).stdout
    for path in files:
        path.unlink()
    return {"format": kind, "files": n_files, "bytes": size, **json.loads(output)}


def main() -> None:
    """Measure every format and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--folder", help="where to write the files")
    parser.add_argument("--learn", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.learn:
        learn(arguments.learn)
        return
    n_files = max(1, round(arguments.gigabytes * 1e9 / (4 * D * PER_FILE)))
    runs = []
    for kind in FORMATS:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            runs.append(measure(kind, Path(folder), n_files))
        print(json.dumps(runs[-1]), flush=True)
    path = Path(__file__).parent / "results" / "memory.json"
    path.write_text(json.dumps({"machine": machine.describe(), "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
