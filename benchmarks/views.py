"""What more views of a photo bring, and larger networks: accuracy on shop photos, on characters and on emoji.

    python benchmarks/views.py --photos grocery [--emoji node_modules]

`--photos` is the folder of the Grocery Store data set: learned from train.txt, asked for val.txt; all photos,
and with half of the classes cut down to 3 photos or 1, mean of ten drawings. Characters are drawn: 200 with
8 pictures each to learn from and 4 to ask for. `--emoji` is where `npm install` has put the packages
emoji-datasource-apple, -facebook, -google and -twitter: 400 emoji, learned from three of the four designs and
asked for the fourth, and learned from one. Every network embeds all pictures once for each view; the rest is
averaging. A time is that of one photo, network alone, all cores; MB are those of a process that embeds with
two views. Numbers go to benchmarks/results/views.json and docs/backbones.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import markdown
import numpy as np
from PIL import Image
from process_memory import resident

from xlda import XLDA
from xlda._internal.progress import Progress
from xlda.backbones import load
from xlda.glyphs import find_glyphs

RESULTS = Path(__file__).parent / "results" / "views.json"
PAGE = Path(__file__).parents[1] / "docs" / "backbones.md"
START, END = "<!-- views -->\n", "<!-- end of views -->\n"
NETWORKS = (
    "efficientnet-lite0",
    "efficientnet-lite0-int8",
    "efficientnet-lite1",
    "efficientnet-lite2",
)
SHARES = (1.0, 0.7, 0.5)
DESIGNS = ("apple", "facebook", "google", "twitter")
TONES = ("1f3fb", "1f3fc", "1f3fd", "1f3fe", "1f3ff")  # of skin: emoji with them are left out
N_EMOJI, N_CHARACTERS, TO_LEARN, TO_ASK = 400, 200, 8, 4
ROUNDS = 30  # of timings
DRAWINGS = 10  # of the classes that have few photos


@dataclass
class Pictures:
    """What is shown, and in which part of the set it is: 0 is learned from, or a design of four."""

    images: list[Image.Image]
    labels: np.ndarray
    parts: np.ndarray


def shop_photos(folder: Path) -> Pictures:
    """The photos of the Grocery Store data set."""
    rows = [
        (part, *line.split(",")[:2])
        for part, name in enumerate(("train.txt", "val.txt"))
        for line in (folder / name).read_text().splitlines()
    ]
    images = [Image.open(folder / path).convert("RGB") for _, path, _ in rows]
    labels, parts = np.array([int(label) for _, _, label in rows]), np.array([part for part, _, _ in rows])
    return Pictures(images, labels, parts)


def characters(seed: int) -> Pictures:
    """Characters of the fonts on this machine."""
    glyphs = find_glyphs("system", n_classes=N_CHARACTERS, seed=seed)
    samples = [glyphs.samples(split, n, seed=seed) for split, n in (("train", TO_LEARN), ("test", TO_ASK))]
    images = [glyphs.render(sample, 160).convert("RGB") for part in samples for sample in part]
    labels = np.array([sample.code_point for part in samples for sample in part])
    return Pictures(images, labels, np.repeat([0, 1], [len(part) for part in samples]))


def emoji(folder: Path, seed: int) -> Pictures:
    """The same emoji in four designs, on white."""
    places = [folder / f"emoji-datasource-{design}" / "img" / design / "64" for design in DESIGNS]
    common = set.intersection(*({path.name for path in place.glob("*.png")} for place in places))
    plain = sorted(name for name in common if not any(tone in name for tone in TONES))
    chosen = np.random.default_rng(seed).permutation(plain)[:N_EMOJI]
    images = []
    for place in places:
        for name in chosen:
            drawn = Image.open(place / name).convert("RGBA")
            white = Image.new("RGBA", drawn.size, "white")
            images.append(Image.alpha_composite(white, drawn).convert("RGB"))
    return Pictures(images, np.tile(chosen, len(places)), np.repeat(np.arange(len(places)), len(chosen)))


def embedded(pictures: Pictures, network: str, share: float) -> np.ndarray:
    """One view of every picture, embedded."""
    backbone = load(network, views=[share])
    rows = []
    with Progress(lambda: len(pictures.images)) as bar:
        for start in range(0, len(pictures.images), 32):
            batch = [backbone.prepare(image) for image in pictures.images[start : start + 32]]
            rows.append(backbone.embed(np.stack(batch)))
            bar.advance(len(batch))
    return np.concatenate(rows)


def right(X: np.ndarray, pictures: Pictures, learned: np.ndarray, asked: np.ndarray) -> float:
    """Share of right answers, defaults throughout."""
    clf = XLDA().fit(X[learned], pictures.labels[learned])
    return float(np.mean(clf.predict(X[asked]) == pictures.labels[asked]))


def few(pictures: Pictures, n: int, seed: int) -> np.ndarray:
    """Which are learned where half of the classes have at most `n` pictures."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.flatnonzero(pictures.parts == 0))
    classes = rng.permutation(np.unique(pictures.labels))
    rare = set(classes[: len(classes) // 2].tolist())
    seen: dict[Any, int] = {}
    kept = []
    for row in order:
        label = pictures.labels[row].item()
        seen[label] = seen.get(label, 0) + 1
        if label not in rare or seen[label] <= n:
            kept.append(row)
    return np.array(kept)


def questions(name: str, pictures: Pictures) -> Iterator[tuple[str, list[tuple[np.ndarray, np.ndarray]]]]:
    """What is learned and what is asked for, under a name; several times over where it is drawn."""
    parts = pictures.parts
    if name == "emoji":
        yield "emoji, 3 designs", [(parts != one, parts == one) for one in range(len(DESIGNS))]
        yield "emoji, 1 design", [(parts == one, parts != one) for one in range(len(DESIGNS))]
        return
    yield name, [(parts == 0, parts == 1)]
    if name == "shop photos":
        for n in (3, 1):
            drawings = [(few(pictures, n, seed), parts == 1) for seed in range(DRAWINGS)]
            yield f"half with {n}", drawings


def milliseconds(networks: list[str]) -> dict[tuple[str, int], float]:
    """Of one photo, for each network and number of views, network alone; all in turns."""
    loaded = {(network, n): load(network, views=n) for network in networks for n in (1, 2, 3)}
    times: dict[tuple[str, int], list[float]] = {key: [] for key in loaded}
    for _ in range(ROUNDS):
        for key, backbone in loaded.items():
            pixels = np.zeros((1, *backbone.preprocessing.shape), np.uint8)
            begun = time.perf_counter()
            backbone.embed(pixels)
            times[key].append(time.perf_counter() - begun)
    return {key: 1000 * float(np.median(found)) for key, found in times.items()}


def megabytes(network: str) -> float:
    """Memory of a process at its most that embeds photos with two views, in batches of 32."""
    command = [sys.executable, __file__, "--memory", network]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def say_memory(network: str) -> None:
    """In a process of its own."""
    backbone = load(network)
    backbone.embed(np.zeros((32, *backbone.preprocessing.shape), np.uint8))
    print(resident("VmHWM") / 1e6)


def measure(sets: dict[str, Pictures], networks: list[str]) -> Iterator[dict[str, Any]]:
    """Accuracies of every network with one view, two and three."""
    for network in networks:
        rows = [{"network": network, "views": n, "right": {}} for n in (1, 2, 3)]
        for name, pictures in sets.items():
            views = [embedded(pictures, network, share) for share in SHARES]
            for row in rows:
                X = np.mean(views[: row["views"]], axis=0)
                for question, tries in questions(name, pictures):
                    row["right"][question] = float(np.mean([right(X, pictures, *one) for one in tries]))
        for row in rows:
            print(json.dumps(row), flush=True)
            yield row


def table(results: dict[str, Any]) -> str:
    """Percentages, and the time of a photo."""
    asked = list(results["rows"][0]["right"])
    rows = [
        [
            row["network"],
            str(row["views"]),
            f"{row['ms']:.0f}",
            f"{row['mb']:.0f}",
            *(f"{100 * row['right'][question]:.1f}" for question in asked),
        ]
        for row in results["rows"]
    ]
    return markdown.table(["network", "views", "ms a photo", "MB", *asked], rows)


def updated(page: str, results: dict[str, Any]) -> str:
    """The page with these results."""
    foot = machine.in_words(results["machine"])
    return markdown.between(page, START, END, f"{table(results)}\n\n{foot}.")


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--photos", type=Path, help="folder of the Grocery Store data set")
    parser.add_argument("--only-times", action="store_true", help="and the stored accuracies as they are")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--emoji", type=Path, help="node_modules with the emoji")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.memory:
        say_memory(arguments.memory)
        return
    if arguments.only_times:
        rows = json.loads(RESULTS.read_text())["rows"]
    elif arguments.photos is None:
        parser.error("--photos is needed, or --only-times.")
    else:
        sets = {"shop photos": shop_photos(arguments.photos), "characters": characters(arguments.seed)}
        if arguments.emoji is not None:
            sets["emoji"] = emoji(arguments.emoji, arguments.seed)
        rows = list(measure(sets, arguments.networks))
    networks = list(dict.fromkeys(row["network"] for row in rows))
    times, memory = milliseconds(networks), {network: megabytes(network) for network in networks}
    rows = [{**row, "ms": times[row["network"], row["views"]], "mb": memory[row["network"]]} for row in rows]
    results = {"machine": machine.describe(), "rows": rows}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(updated(PAGE.read_text(), results))
    print(table(results))


if __name__ == "__main__":
    main()
