"""Where the time of a photo goes, and how near to the bare network's speed photos are embedded.

    python benchmarks/photos.py [--rounds 7]

Photos are drawn, from 100 pixels to 12 megapixels. For each kind: milliseconds to decode it, to resize its
views, and of the network, one photo at a time; then photos a second from files to embeddings, against the
network alone on pixels that are prepared already, in turns. `before` is version 1 of the preprocessing, which
decodes every photo whole. Then one photo through `Recognizer.predict` against the network alone, and the
memory of a process that embeds many. Numbers go to benchmarks/results/photos.json and docs/backbones.md. Run
it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import machine
import markdown
import numpy as np
from PIL import Image
from process_memory import forget_peak, resident

from xlda import XLDA, Recognizer
from xlda.backbones import Backbone, load
from xlda.photos import Photo, embed_photos, open_photo
from xlda.photos.embedding import prepared

T = TypeVar("T")

RESULTS = Path(__file__).parent / "results" / "photos.json"
PAGE = Path(__file__).parents[1] / "docs" / "backbones.md"
START, END = "<!-- photos -->\n", "<!-- end of photos -->\n"
KINDS = {  # width, height, suffix; all drawn with the grain of a camera
    "100 px JPEG": (100, 100, ".jpg"),
    "350 px JPEG": (350, 350, ".jpg"),
    "1,600 px JPEG": (1600, 1200, ".jpg"),
    "12 megapixel JPEG": (4000, 3000, ".jpg"),
    "1 megapixel PNG": (1000, 1000, ".png"),
}
WAYS: dict[str, dict[str, Any]] = {
    "before": {"version": 1, "interpolation": "bicubic"},
    "1 view": {"views": 1},
    "2 views": {"views": 2},
    "3 views": {"views": 3},
}
DIFFERENT, AT_A_TIME = 6, 96  # photos drawn of each kind, and embedded in a round
CLASSES = 200  # of the model that is asked


def draw(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """Something with large and small forms, and a little noise, as photos have."""
    pixels = np.zeros((height, width, 3), np.float32)
    for cells in (3, 8, 24, 80):
        shape = (cells * height // max(width, height) + 2, cells + 2, 3)
        form = Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8))
        pixels += np.asarray(form.resize((width, height), Image.Resampling.BICUBIC)) / np.sqrt(cells)
    pixels *= 200 / pixels.max()
    pixels += rng.normal(0, 4, (height, width, 1)).astype(np.float32)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def drawn(folder: Path) -> dict[str, list[Photo]]:
    """Photos of every kind, as files."""
    rng = np.random.default_rng(0)
    found = {}
    for kind, (width, height, suffix) in KINDS.items():
        place = folder / kind.replace(" ", "-")
        place.mkdir()
        files = [place / f"{number}{suffix}" for number in range(DIFFERENT)]
        for file in files:
            draw(rng, width, height).save(file, quality=85)
        found[kind] = [Photo(file, None) for file in files]
    return found


def timed(times: list[float], work: Callable[..., T], *given: Any) -> T:
    """What a call gives; its seconds are added to `times`."""
    begun = time.perf_counter()
    result = work(*given)
    times.append(time.perf_counter() - begun)
    return result


def pieces(backbone: Backbone, photos: list[Photo], rounds: int) -> dict[str, float]:
    """Milliseconds of each step, for one photo."""
    decode = partial(open_photo, least_side=backbone.least_side)
    times: dict[str, list[float]] = {"decode": [], "resize": [], "network": []}
    for photo in photos * rounds:
        image = timed(times["decode"], decode, photo.path.read_bytes())
        pixels = timed(times["resize"], backbone.prepare, image)
        timed(times["network"], backbone.embed, pixels[None])
    return {name: 1000 * median(found) for name, found in times.items()}


def rates(backbone: Backbone, photos: list[Photo], rounds: int) -> dict[str, Any]:
    """Photos a second: of the network on prepared pixels, and from files, in turns."""
    many = photos * (AT_A_TIME // len(photos))
    pixels = np.stack([prepared(photo.path, backbone) for photo in many])

    def from_files() -> None:
        with closing(embed_photos(many, backbone)) as batches:
            for _ in batches:
                pass

    times: dict[str, list[float]] = {"network": [], "files": []}
    for _ in range(rounds):
        timed(times["network"], backbone.embed, pixels)
        timed(times["files"], from_files)
    ratios = [network / files for network, files in zip(times["network"], times["files"], strict=True)]
    return {
        "network": len(many) / median(times["network"]),
        "files": len(many) / median(times["files"]),
        "ratio": median(ratios),
    }


def one_photo(folder: Path, photo: Photo, views: int, rounds: int) -> dict[str, float]:
    """Milliseconds of `Recognizer.predict` of a file, and of the network alone on its pixels."""
    backbone = load(views=views)
    rng = np.random.default_rng(0)
    centres = rng.gamma(0.3, 1.0, (CLASSES, backbone.n_features))
    labels = np.repeat(np.arange(CLASSES), 5)
    clf = XLDA().fit((centres[labels] * rng.uniform(0.5, 1.5, (len(labels), 1))).astype(np.float32), labels)
    clf.backbone_ = backbone.identity
    clf.save(folder / "shop.xlda")
    shop = Recognizer.open(folder / "shop.xlda", backbone=backbone)
    pixels = prepared(photo.path, backbone)[None]
    shop.predict(photo.path)
    times: dict[str, list[float]] = {"network": [], "predict": []}
    for _ in range(20 * rounds):
        timed(times["network"], backbone.embed, pixels)
        timed(times["predict"], shop.predict, photo.path)
    return {"views": views, **{name: 1000 * median(found) for name, found in times.items()}}


def memory(folder: str) -> None:
    """In a process of its own: embed the photos in the folder many times over; print what it took."""
    backbone = load()
    files = [Photo(path, None) for path in sorted(Path(folder).rglob("*.*")) if path.suffix != ".xlda"]
    peaks = []
    for _ in range(4):
        forget_peak()
        with closing(embed_photos(files * 8, backbone)) as batches:
            n = sum(len(batch.photos) for batch in batches)
        peaks.append(resident("VmHWM"))
    print(json.dumps({"photos": n, "peaks": peaks}))


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Everything."""
    photos = drawn(folder)
    results: dict[str, Any] = {"machine": machine.describe(), "rows": [], "one": []}
    for way, settings in WAYS.items():
        backbone = load(**settings)
        for kind, files in photos.items():
            kilobytes = sum(photo.path.stat().st_size for photo in files) / len(files) / 1000
            row = {"kind": kind, "kilobytes": kilobytes, "way": way}
            row |= {"pieces": pieces(backbone, files, rounds), **rates(backbone, files, rounds)}
            results["rows"].append(row)
            print(json.dumps(row), flush=True)
    results["one"] = [one_photo(folder, photos["350 px JPEG"][0], views, rounds) for views in (1, 2, 3)]
    print(json.dumps(results["one"]), flush=True)
    command = [sys.executable, __file__, "--memory", str(folder)]
    results["memory"] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return results


def table(results: dict[str, Any]) -> str:
    """All kinds of photos and ways to look at them."""
    header = [
        "photo",
        "looked at",
        "decode, ms",
        "resize, ms",
        "network, ms",
        "photos a second",
        "of the network's",
    ]
    rows = [
        [
            f"{row['kind']}, {row['kilobytes']:,.0f} kB",
            row["way"],
            *(f"{row['pieces'][name]:.1f}" for name in ("decode", "resize", "network")),
            f"{row['files']:.0f}",
            f"{row['ratio']:.2f}",
        ]
        for row in sorted(results["rows"], key=lambda row: list(KINDS).index(row["kind"]))
    ]
    return markdown.table(header, rows)


def words(results: dict[str, Any]) -> str:
    """One photo, memory, and where it was measured."""
    ones = ", ".join(
        f"{one['predict']:.1f} ms with {one['views']} view{'s' * (one['views'] > 1)}, "
        f"{one['predict'] / one['network']:.2f} times the network alone"
        for one in results["one"]
    )
    peaks = [round(peak / 1e6) for peak in results["memory"]["peaks"]]
    return (
        f"One photo of 350 pixels through `Recognizer.predict`: {ones}. A process that embeds "
        f"{results['memory']['photos']} photos of all these kinds, four times over, takes at most "
        f"{', '.join(map(str, peaks))} MB. {machine.in_words(results['machine'])}."
    )


def updated(page: str, results: dict[str, Any]) -> str:
    """The page with these results."""
    return markdown.between(page, START, END, f"{table(results)}\n\n{words(results)}")


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        memory(arguments.memory)
        return
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), arguments.rounds)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(updated(PAGE.read_text(), results))
    print(table(results) + "\n\n" + words(results))


if __name__ == "__main__":
    main()
