"""The edge profile: tens of thousands of classes, one core, 1.5 GiB: what takes how long, and what memory.

    python benchmarks/edge.py --npz glyphs.npz [--sizes 10000 25000 50000] [--out edge.json]

Models are learned and saved here; each is then used in a process of its own, which is bound to one core and
whose address space is limited. Beside the memory measured there stands what `formula` predicts, and how many
classes fit a board by it. The file is that of benchmarks/characters.py. Takes two minutes.

NumPy and xlda are imported by the functions that use them: the limited process measures how long that takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import edge_page
import machine
from process_memory import forget_peak, resident

SEED, MIB = 0, 2**20
LIMIT = 1536 * MIB  # of the address space of the limited process
BOARD = 3 * 10**9  # of the 4 GB of a board, what is left to the process
WIDTHS = (256, 512, 1280, 2048)
N_QUERIES, N_NEW, N_CALLS = 600, 16, 300
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
GIVE_BACK = {  # memory that was freed; left to itself, glibc keeps blocks of up to 32 MiB for later
    "MALLOC_MMAP_THRESHOLD_": str(4 * MIB),
    "MALLOC_TRIM_THRESHOLD_": str(4 * MIB),
}

LIBRARIES = 112 * MIB  # Python, NumPy, SciPy, scikit-learn, without pandas: measured after the import
BUFFERS = 20 * MIB  # of the BLAS, code loaded when first used, gaps between small blocks: measured
LABEL = 370  # bytes of a label: entries of dictionaries, two Python numbers, places in arrays
CHECKED = 2048  # samples kept to check it with
FIRST = 64  # coordinates that are looked at for every class, about
CHANGED = 2048  # rows that have changed, kept beside the others
STATES = {"predicting": "predict one", "learning": "renewal"}  # and the step after which they are measured
PEAKS = ("load", "first predict", "renewal", "save")


def formula(classes: int, d: int, precision: str, p: int) -> dict[str, int]:
    """Bytes that a process takes with so many classes of width d: by part, in use, and at its peaks.

    A number takes b = 2 bytes in half precision, 4 in full. The head has p of d coordinates, as many as there
    are in which classes differ.

    - libraries, buffers: the same whatever the model
    - labels: 370 a class
    - means, with counts (`Moments`): b d + 8 a class
    - covariance: 8 d^2
    - samples kept to check it with: 2048 of 2 d + 40, and 24 a class
    - head: 2 p + 168 a class, short numbers but for the first 64 coordinates; where there are at most 2^22
      of them, they are not searched, and take b p + 24
    - maps from embeddings to coordinates: 4 d^2 + 8 d p
    - rows waiting, where it learns: up to 40 MiB or 8192 rows of 4 d, their product 4 d^2,
      768 rows of 4 d to work in and for samples that come one by one, 2048 changed rows of 4 (p + 64),
      and as much as the buffers again

    `predicting` is without the last, `learning` with it. At the peaks:

    - load: what is in the file, and no head
    - first predict: how class means differ is measured in seven matrices of d^2 before there are rows; or the
      rows are there, and most of them once more
    - renewal: on top of `learning`, these matrices, the next rows, and some of them once more
    - save: on top of `learning`, the covariance with both triangles, 8 d^2
    """
    b, square = 2 if precision == "half" else 4, 8 * d * d
    head = classes * (2 * p + 168 if classes * p > 2**22 else b * p + 24)
    waiting = min(max(40 * MIB // (4 * d), 2048), 8192)
    in_use = {
        "libraries": LIBRARIES,
        "buffers": BUFFERS,
        "labels": LABEL * classes,
        "means": classes * (b * d + 8),
        "covariance": square,
        "samples kept": CHECKED * (2 * d + 40) + 24 * classes,
        "head": head,
        "maps": square // 2 + 8 * d * p,
    }
    predicting = sum(in_use.values())
    rows_waiting = 4 * d * (waiting + 768) + square // 2 + CHANGED * 4 * (p + FIRST) + BUFFERS
    learning, spread = predicting + rows_waiting, 13 * square // 2
    peaks = {
        "load": predicting - head - in_use["maps"] - BUFFERS * 4 // 5,
        "first predict": predicting + max(spread - head, head * 9 // 10),
        "renewal": learning + spread + head * 6 // 5,
        "save": learning + square,
    }
    totals = {"rows waiting": rows_waiting, "predicting": predicting, "learning": learning}
    return {**in_use, **totals, **peaks, "peak": max(peaks.values())}


def largest(budget: int, d: int, precision: str) -> int:
    """Classes that fit this many bytes of resident memory at the highest peak, by the formula.

    It takes p to be half of d, more than for any of the sizes that are measured here.
    """
    fits, too_many = 0, budget // d
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if formula(middle, d, precision, d // 2)["peak"] <= budget:
            fits = middle
        else:
            too_many = middle
    return fits


def prepare(npz: Path, n_classes: int, precision: str, folder: Path) -> None:
    """Learn the first classes of a permutation; store the model, queries, and samples of other classes."""
    import numpy as np

    from xlda import XLDA

    with np.load(npz) as file:
        X, y, train = file["X"], file["y"], int(file["train"]) if "train" in file else 3
    by_class = np.argsort(y, kind="stable").reshape(len(np.unique(y)), -1)
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(by_class))
    if n_classes >= len(order):
        raise ValueError(f"{npz} has {len(order):,} classes: {n_classes:,} leave none that are new.")
    learned, others = by_class[order[:n_classes]], by_class[order[n_classes:][:N_NEW]]
    samples = rng.permutation(learned[:, :train].ravel())
    clf = XLDA(precision=precision)
    for start in range(0, len(samples), 4096):
        some = samples[start : start + 4096]
        clf.partial_fit(X[some], y[some])
    clf.predict(X[samples[:1]])  # so that the search is tuned here, and the file says to what
    clf.save(folder / "model.xlda")
    asked = {"queries": learned[:N_QUERIES, train], "new": others[:, 0], "new again": others[:, train]}
    for name, rows in asked.items():
        np.savez(folder / f"{name}.npz", X=X[rows].astype(np.float32), y=y[rows])


class Steps:
    """What is done, one step after the other: the seconds of each call, and memory."""

    def __init__(self) -> None:
        self.taken: dict[str, dict[str, Any]] = {}

    def take(self, name: str, work: Callable[[int], Any], calls: int = 1) -> list[Any]:
        """Call `work(0)`, `work(1)` and so on, and note what it took."""
        with suppress(OSError):
            forget_peak()
        results, seconds = [], []
        for number in range(calls):
            begun = time.perf_counter()
            try:
                results.append(work(number))
            except MemoryError as error:
                raise MemoryError(f"{name}: {error}") from error
            seconds.append(time.perf_counter() - begun)
        self.taken[name] = {"seconds": seconds, **memory()}
        return results


def memory() -> dict[str, int]:
    """Bytes resident now and at the peak, and the most address space; nothing where there is no /proc."""
    names = {"resident": "VmRSS", "peak": "VmHWM", "most address space": "VmPeak"}
    try:
        return {name: resident(key) for name, key in names.items()}
    except OSError:
        return {}


def limit_process(core: int, nbytes: int) -> dict[str, str]:
    """Bind this process to one core and limit its address space; says so, or why not."""
    limited = {"cores": f"core {core}", "memory": "address space (RLIMIT_AS)"}
    try:
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError) as error:
        limited["cores"] = f"not limited: {error}"
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))
    except (ImportError, AttributeError, ValueError, OSError) as error:
        limited["memory"] = f"not limited: {error}"
    return limited


def import_all(_: int) -> tuple[Any, Any]:
    """NumPy, and what loads a model, with all that it needs."""
    import numpy as np

    from xlda import load

    return np, load


def profile(folder: Path, core: int) -> dict[str, Any]:
    """In a process of its own: use the model in the folder in every way."""
    limited, steps = limit_process(core, LIMIT), Steps()
    sys.modules["pandas"] = None  # type: ignore[assignment]  # or scikit-learn imports it where it is installed
    np, load = steps.take("import", import_all)[0]

    def samples(name: str) -> tuple[Any, Any]:
        with np.load(folder / f"{name}.npz") as file:
            return file["X"], file["y"]

    (X, y), (new, new_labels), again = samples("queries"), samples("new"), samples("new again")[0]
    clf = steps.take("load", lambda _: load(folder / "model.xlda"))[0]

    def learn(number: int) -> Any:
        row = number % len(X)
        return clf.partial_fit(X[row : row + 1], y[row : row + 1])

    def predict(number: int) -> Any:
        row = number % len(X)
        return clf.predict(X[row : row + 1])

    def learn_and_predict(number: int) -> Any:
        learn(N_CALLS + number)
        return predict(N_CALLS + number)

    def meet(number: int) -> Any:
        one = slice(number, number + 1)
        return clf.partial_fit(new[one], new_labels[one]).predict(new[one])[0]

    def learn_many(number: int) -> None:
        some = np.arange(512 * number, 512 * (number + 1)) % len(X)
        clf.partial_fit(X[some], y[some])

    def renew(_: int) -> None:
        usual = clf.renew
        learn(0).set_params(renew=0.0).predict(X[:1])
        clf.set_params(renew=usual)

    steps.take("first predict", predict)
    steps.take("predict one", predict, N_CALLS)
    head = clf._current_head()
    parts, picked, coordinates = clf.memory(), head.index.describe(), head.space.n_coordinates
    del head
    steps.take("predict 64", lambda _: clf.predict(X[:64]), 10)
    accuracy = float((clf.predict(X) == y).mean())
    steps.take("learn one", learn, N_CALLS)
    steps.take("learn one, predict one", learn_and_predict, N_CALLS)
    found = np.array(steps.take("new class, predict it", meet, len(new)))
    found_again = clf.predict(again)
    steps.take("learn 512", learn_many, 16)  # after which all memory to learn in is in use
    steps.take("renewal", renew)
    steps.take("save", lambda _: clf.save(folder / "saved.xlda"))
    learn(1).save(folder / "saved.xlda")
    steps.take("predict after learning and saving", predict)
    return {
        "d": clf.n_features_in_,
        "precision": clf.precision,
        "limited": limited,
        "file": (folder / "model.xlda").stat().st_size,
        "accuracy": accuracy,
        "queries": len(X),
        "new classes": {
            "met": len(new),
            "found": int((found == new_labels).sum()),
            "found by another sample": int((found_again == new_labels).sum()),
        },
        "parts after predict": parts,
        "picked": picked,
        "coordinates": coordinates,
        "steps": steps.taken,
    }


def profiled(n_classes: int, folder: Path, core: int, environment: dict[str, str]) -> dict[str, Any]:
    """What the limited process found, and the formula beside it; if it died, what it said last."""
    command = [sys.executable, __file__, "--child", str(folder), "--core", str(core)]
    child = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if child.returncode:
        said = (child.stderr.strip() or "it said nothing").splitlines()[-1]
        return {"classes": n_classes, "failed": f"exit status {child.returncode}: {said}"}
    result = json.loads(child.stdout)
    predicted = formula(n_classes, result["d"], result["precision"], result["coordinates"])
    steps = result["steps"]
    measured = {name: steps[step].get("resident") for name, step in STATES.items()}
    measured |= {f"peak: {name}": steps[name].get("peak") for name in PEAKS}
    compared = {
        name: {"predicted": expected, "measured": found, "error %": round(100 * (expected / found - 1), 1)}
        for name, found in measured.items()
        if found and (expected := predicted[name.removeprefix("peak: ")])
    }
    return {"classes": n_classes, **result, "formula": predicted, "memory": compared}


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, help="see benchmarks/characters.py")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 25_000, 50_000])
    parser.add_argument("--precision", choices=("half", "full"), default="half")
    parser.add_argument("--core", type=int, default=0, help="that the limited process is bound to")
    parser.add_argument("--plain-malloc", action="store_true", help="leave it to glibc what it gives back")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "edge.json")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(profile(arguments.child, arguments.core)))
        return
    if not arguments.npz:
        parser.error("--npz is needed.")
    begun = time.perf_counter()
    environment = ONE_THREAD | ({} if arguments.plain_malloc else GIVE_BACK)
    sizes = []
    for n_classes in arguments.sizes:
        with tempfile.TemporaryDirectory() as folder:
            try:
                prepare(arguments.npz, n_classes, arguments.precision, Path(folder))
                sizes.append(profiled(n_classes, Path(folder), arguments.core, environment))
            except ValueError as error:
                sizes.append({"classes": n_classes, "failed": str(error)})
        print(f"{n_classes:,} classes: {sizes[-1].get('failed', 'done')}", flush=True)
    results = {
        "machine": machine.describe(),
        "seed": SEED,
        "limit": {"cores": 1, "bytes": LIMIT, "environment": environment},
        "sizes": sizes,
        "board": [
            {"bytes": budget, "precision": precision, "d": d, "classes": largest(budget, d, precision)}
            for budget in (LIMIT, BOARD)
            for precision in ("half", "full")
            for d in WIDTHS
        ],
        "seconds": time.perf_counter() - begun,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results) + "\n")
    print("\n" + edge_page.section(results))


if __name__ == "__main__":
    main()
