"""How long the command takes for one photo: `xlda predict` and `xlda learn`, each in a process of its own.

    python benchmarks/start.py --model shop.xlda --photo photo.jpg --label kiwi [--times 15]

The model is one of photos (`xlda fit`), and stays as it is: what is learned goes into a copy. The first run
of each is not counted, so that the disk is warm and the cache filled. Beside the whole, parts of predicting,
one after the other in the same kind of process: imports by package, the file, the session, the first photo,
the first answer, and the end of the interpreter. Processor time is told too: on a machine that does other
work meanwhile it says more. All runs go to benchmarks/results/start.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine

RESULTS = Path(__file__).parent / "results"
COMMAND = "from xlda.cli import main; main()"
PARTS = """
import json, sys, time
begun, model, photo = float(sys.argv[1]), sys.argv[2], sys.argv[3]
told, last = {"interpreter": (time.time() - begun, time.process_time())}, (time.time(), time.process_time())
def part(name):
    global last
    now = time.time(), time.process_time()
    told[name], last = (now[0] - last[0], now[1] - last[1]), now
import numpy; part("import numpy")
import onnxruntime; part("import onnxruntime")
import PIL.Image; part("import PIL")
import typer; part("import typer")
from xlda.cli.app import app; command = typer.main.get_command(app("predict")).commands["predict"]
part("import xlda.cli")
command.make_context("predict", [model, photo]); part("read the command line")
from xlda.photos.quick_start import QuickRecognizer; import xlda.backbones; part("import the rest of xlda")
recognizer = QuickRecognizer.open(model); part("read the model")
recognizer.backbone; part("session")
embeddings = recognizer.embed(photo); part("decode and embed")
recognizer.classifier.judge(embeddings); part("answer")
print(json.dumps([told, time.time()]))
"""


def ran(arguments: list[str]) -> tuple[dict[str, float], str]:
    """Seconds and processor time of a new process, and what it printed."""
    before, begin = os.times(), time.perf_counter()
    printed = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout
    seconds, after = time.perf_counter() - begin, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": seconds, "processor": used}, printed


def parts(model: Path, photo: Path) -> dict[str, dict[str, float]]:
    """Seconds and processor time of each part."""
    whole, printed = ran(["-c", PARTS, str(time.time()), str(model), str(photo)])
    end = time.time()
    told, last = json.loads(printed)
    found = {name: {"seconds": wall, "processor": used} for name, (wall, used) in told.items()}
    used = whole["processor"] - sum(one["processor"] for one in found.values())
    return {**found, "end": {"seconds": end - last, "processor": used}}


def median(runs: list[dict[str, float]], what: str) -> float:
    """In milliseconds."""
    return 1e3 * statistics.median(run[what] for run in runs)


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--photo", type=Path, required=True)
    parser.add_argument("--label", required=True, help="what the photo shows, to learn it")
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS / "start.json")
    arguments = parser.parse_args()
    model, photo = arguments.model, arguments.photo
    found: dict[str, list[Any]] = {"predict": [], "learn": [], "parts": []}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.xlda"
        for _ in range(arguments.times + 1):
            shutil.copy(model, copy)
            found["predict"].append(ran(["-c", COMMAND, "predict", str(model), str(photo)])[0])
            learn = ["learn", str(copy), str(photo), "--label", arguments.label]
            found["learn"].append(ran(["-c", COMMAND, *learn])[0])
            found["parts"].append(parts(model, photo))
    found = {name: runs[1:] for name, runs in found.items()}
    rows = {name: found[name] for name in ("predict", "learn")}
    rows |= {f"  {name}": [run[name] for run in found["parts"]] for name in found["parts"][0]}
    print(f"{'median of ' + str(arguments.times):28}  {'ms':>7}  {'of a processor':>14}")
    for name, runs in rows.items():
        print(f"{name:28}  {median(runs, 'seconds'):7.0f}  {median(runs, 'processor'):14.0f}")
    arguments.out.write_text(json.dumps({"machine": machine.describe(), **found}) + "\n")


if __name__ == "__main__":
    main()
