"""Runs the benchmarks and writes the report.

    python benchmarks/run.py                     what docs/results.md shows; some four hours on two cores
    python benchmarks/run.py race edge           only these, anew
    python benchmarks/run.py --preset quick      everything small, in minutes; report in report/quick
    python benchmarks/run.py --preset full       nothing left out; a day or more; report in report/full

`make report`, with PRESET=quick or PRESET=full, does the same. Each benchmark is a program of its own and
stores its raw results as JSON in report/PRESET/raw. What is there already is not measured again, so that a
run can be interrupted and taken up; `make clean` forgets it. Results of the standard preset then go to
benchmarks/results and the pages in docs/ are written from them. Embeddings of characters are drawn once and
kept in the cache (see `xlda.backbones.cache`).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import conversion_page
import dozens_page
import imbalanced_page
import performance_page
import results_page
import unknown_page

from xlda.backbones.cache import cache_folder

HERE = Path(__file__).parent
ROOT = HERE.parent
DATA = Path(os.environ.get("XLDA_DATA", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True)
class Preset:
    """The fonts, the characters to draw, and what each benchmark is told."""

    fonts: str
    characters: dict[str, list[str]]
    benchmarks: dict[str, list[str]]


STANDARD_CHARACTERS = {
    "glyphs": ["--classes", "83000"],
    "fonts": ["--classes", "50000", "--holdout", "font"],
    "many": ["--classes", "1000", "--train", "60", "--test", "4"],
    "five": ["--classes", "10000", "--train", "5", "--test", "1"],
}
DRAWINGS = {  # that docs/dozens.md compares on; its commands are there
    f"dozens{seed}": ["--classes", "1000", "--train", "100", "--test", "4", "--seed", f"{seed}"]
    for seed in range(3)
}
PRESETS = {
    "quick": Preset(
        "default",
        {
            "glyphs": ["--classes", "250"],
            "many": ["--classes", "50", "--train", "20", "--test", "4"],
        },
        {
            "training": [
                *("--rounds", "1", "--shapes", "Birds", "iNaturalist"),
                *("--growth", "classes"),
            ],
            "inference": [
                *("--npz", "{glyphs}", "--sizes", "200", "4000"),
                *("--seconds", "0.15", "--rounds", "50"),
            ],
            "conversion": ["--glyphs", "{glyphs}", "--sizes", "200", "--splits", "1"],
            "accuracy": ["--glyphs", "{glyphs}", "--sizes", "200", "--seeds", "1"],
            "race": [
                *("--glyphs", "{glyphs}", "--many", "{many}", "--sizes", "200"),
                *("--epochs", "20", "--many-epochs", "10"),
            ],
            "on_par": ["--many", "{many}", "--sizes", "50", "--per-class", "2", "20", "--seeds", "1"],
            "dozens": [
                *("--many", "{many}", "--sizes", "50", "--per-class", "3", "20", "--seeds", "1"),
                *("--lifts", "512"),
            ],
            "imbalanced": ["--many", "{many}", "--many-sizes", "50", "--draws", "2"],
            "unknown": ["--many", "{many}", "--many-sizes", "50", "--seeds", "1"],
            "finetune": ["--classes", "20", "--epochs", "1", "--seeds", "1", "--fonts", "default"],
            "edge": ["--npz", "{glyphs}", "--sizes", "200"],
        },
    ),
    "standard": Preset(
        "system",
        STANDARD_CHARACTERS,
        {
            "training": [],
            "inference": ["--npz", "{glyphs}", "--seconds", "1"],
            "conversion": ["--npz", "{photos}", "--glyphs", "{glyphs}", "--sizes", "1000", "10000"],
            "accuracy": ["--npz", "{photos}", "--glyphs", "{glyphs}", "--fonts", "{fonts}"],
            "race": ["--glyphs", "{glyphs}", "--many", "{many}"],
            "on_par": ["--npz", "{photos}", "--many", "{many}"],
            "imbalanced": ["--npz", "{photos}", "--many", "{many}", "--five", "{five}"],
            "unknown": [
                *("--npz", "{photos}", "--many", "{many}", "--five", "{five}", "--glyphs", "{glyphs}"),
            ],
            "finetune": [],
            "edge": ["--npz", "{glyphs}"],
            "peer": ["--npz", "{glyphs}", "--streams", "groups"],
        },
    ),
    "full": Preset(
        "system",
        STANDARD_CHARACTERS | DRAWINGS,
        {
            "training": [],
            "inference": ["--npz", "{glyphs}"],
            "conversion": ["--npz", "{photos}", "--glyphs", "{glyphs}", "--sizes", "1000", "10000", "50000"],
            "accuracy": [
                *("--npz", "{photos}", "--glyphs", "{glyphs}", "--fonts", "{fonts}", "--full"),
                *("--sizes", "1000", "10000", "50000", "83000"),
            ],
            "race": ["--glyphs", "{glyphs}", "--many", "{many}", "--epochs", "40", "15", "15"],
            "on_par": ["--npz", "{photos}", "--many", "{many}", "--seeds", "5", "--most", "60000"],
            "dozens": [
                *("--npz", "{photos}", "--digits", "--most", "100000"),
                *("--many", *(f"{{{name}}}" for name in DRAWINGS)),
            ],
            "imbalanced": ["--npz", "{photos}", "--many", "{many}", "--five", "{five}", "--draws", "80"],
            "unknown": [
                *("--npz", "{photos}", "--many", "{many}", "--five", "{five}", "--glyphs", "{glyphs}"),
            ],
            "finetune": ["--epochs", "10", "--seeds", "5"],
            "edge": ["--npz", "{glyphs}"],
            "peer": ["--npz", "{glyphs}", "--classes", "10000"],
        },
    ),
}
NEED_TORCH = ("conversion", "race", "on_par", "dozens", "finetune", "peer")


def drawn(preset: Preset) -> dict[str, str]:
    """Files of embeddings of characters, drawn where they are not there yet."""
    files = {}
    for name, options in preset.characters.items():
        told = "-".join(option.lstrip("-") for option in options)
        path = cache_folder() / "benchmarks" / f"characters-{preset.fonts}-{told}.npz"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            print(f"drawing characters: {path.name}", flush=True)
            call("characters", ["--out", str(path), "--fonts", preset.fonts, *options])
        files[name] = str(path)
    return files


def call(name: str, options: list[str]) -> float:
    """Run one program; its seconds."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, str(HERE / f"{name}.py"), *options], check=True)
    return time.perf_counter() - begin


def options_of(told: list[str], files: dict[str, str]) -> list[str]:
    """Options with the files in them; those whose file is not there are left out."""
    found: list[str] = []
    for option in told:
        if option.startswith("{") and option[1:-1] not in files:
            found.pop()
        else:
            found.append(option.format(**files))
    return found


def measure(name: str, told: list[str], files: dict[str, str], out: Path) -> None:
    """Run one benchmark; its result counts once it is whole."""
    if name in NEED_TORCH and importlib.util.find_spec("torch") is None:
        print(f"{name} needs torch: left out. pip install torch")
        return
    options = options_of(told, files)
    print(f"== {name} {' '.join(options)}", flush=True)
    unfinished = out.with_suffix(".unfinished.json")
    seconds = call(name, [*options, "--out", str(unfinished)])
    unfinished.replace(out)
    print(f"== {name}: {seconds / 60:.1f} min", flush=True)


def publish(raw: Path) -> list[Path]:
    """Store the standard results with the project, and write the pages that show them."""
    for name in PRESETS["standard"].benchmarks:
        if (raw / f"{name}.json").exists():
            shutil.copy(raw / f"{name}.json", HERE / "results")
    performance_page.main()
    conversion_page.write()
    if dozens_page.RESULTS.exists():
        dozens_page.write()
    imbalanced_page.write()
    unknown_page.write()
    return results_page.write(HERE / "results", ROOT / "docs", "standard")


def main() -> None:
    """Run what was asked for, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run anew, and no others")
    parser.add_argument("--preset", choices=PRESETS, default="standard")
    parser.add_argument("--photos", type=Path, default=DATA / "grocery_lite0.npz", help="left out if absent")
    arguments = parser.parse_args()
    preset, folder = PRESETS[arguments.preset], ROOT / "report" / arguments.preset
    unknown = set(arguments.names) - set(preset.benchmarks)
    if unknown:
        there = ", ".join(preset.benchmarks)
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {there}")
    files = drawn(preset)
    if arguments.photos.exists():
        files["photos"] = str(arguments.photos)
    else:
        print(f"{arguments.photos.name} is not there: no photos. See docs/datasets.md.")
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        (raw / f"{name}.unfinished.json").unlink(missing_ok=True)
    for name, told in preset.benchmarks.items():
        out = raw / f"{name}.json"
        if name in arguments.names or not (arguments.names or out.exists()):
            measure(name, told, files, out)
    standard = arguments.preset == "standard"
    for path in publish(raw) if standard else results_page.write(raw, folder, arguments.preset):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
