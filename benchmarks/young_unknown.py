"""How well a model of a few photos tells what it was never taught: the rule of `xlda.service.young`.

    python benchmarks/young_unknown.py --photos FOLDER

FOLDER is that of the Grocery Store Dataset, with its train.txt. The rule was chosen on half of its classes;
what is printed is of the other half, and of things that are drawn here.
Each cell is: per cent of photos of the known that are called unknown, and of others that are.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from xlda.backbones import load
from xlda.photos.embedding import embed_contents
from xlda.service.likeness import directions
from xlda.service.young import are_strange, usual_distance

OF_A_CLASS = 16  # photos that are used
N_DRAWN = 20
ASKED, STRANGERS = 3, 8  # photos of each known class, and of how many others
TIMES = 300
SHARE = 0.05


def drawn(thing: int, number: int) -> bytes:
    """A frame of a camera that looks at a thing: moved, turned, nearer or farther, lit otherwise."""
    rng, look = np.random.default_rng(1000 * thing + number), np.random.default_rng(thing)
    one, two, three = (tuple(look.integers(0, 255, 3).tolist()) for _ in range(3))
    image = Image.new("RGBA", (300, 300), (0, 0, 0, 0))
    pen = ImageDraw.Draw(image)
    if thing % 4 == 0:
        pen.ellipse((40, 40, 260, 260), fill=one)
        pen.rectangle((100, 120, 200, 180), fill=two)
    elif thing % 4 == 1:
        pen.rectangle((60, 30, 240, 270), fill=one)
        pen.ellipse((90, 90, 210, 210), fill=two)
        pen.line((60, 60, 240, 60), fill=three, width=12)
    elif thing % 4 == 2:
        pen.polygon([(150, 20), (280, 270), (20, 270)], fill=one)
        pen.ellipse((120, 150, 180, 210), fill=two)
    else:
        pen.rounded_rectangle((100, 20, 200, 280), 30, fill=one)
        pen.rectangle((100, 110, 200, 190), fill=two)
    side = int(300 * rng.uniform(0.85, 1.15))
    image = image.rotate(float(rng.normal(0, 8))).resize((side, side))
    frame = Image.new("RGB", (640, 480), (200, 200, 195))
    frame.paste(image, (170 + int(rng.normal(0, 15)), 90 + int(rng.normal(0, 12))), image)
    pixels = np.asarray(frame) * rng.uniform(0.9, 1.1) + rng.normal(0, 4, (480, 640, 3))
    file = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=88)
    return file.getvalue()


def rates(classes: list[np.ndarray], n_classes: int, n_photos: int) -> tuple[float, float]:
    """Shares of the known and of others that are called unknown, over many draws."""
    rng = np.random.default_rng(10 * n_classes + n_photos)
    of_known, of_others = [], []
    for _ in range(TIMES):
        chosen = rng.permutation(len(classes))[: n_classes + STRANGERS]
        mixed = [rng.permutation(classes[number]) for number in chosen]
        taught = [some[:n_photos] for some in mixed[:n_classes]]
        asked = np.concatenate([some[n_photos : n_photos + ASKED] for some in mixed[:n_classes]])
        others = np.stack([some[0] for some in mixed[n_classes:]])
        usual, known = usual_distance(taught), np.concatenate(taught)
        of_known.append(are_strange(asked, known, usual, SHARE).mean())
        of_others.append(are_strange(others, known, usual, SHARE).mean())
    return float(np.mean(of_known)), float(np.mean(of_others))


def report(name: str, classes: list[np.ndarray]) -> None:
    """A line for each number of classes."""
    for n_classes in (2, 3, 5):
        cells = [rates(classes, n_classes, n_photos) for n_photos in (1, 2, 3, 5)]
        print(f"| {n_classes} {name} |", " | ".join(f"{100 * a:.0f}, {100 * b:.0f}" for a, b in cells), "|")


def main() -> None:
    """Embed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--backbone", default="efficientnet-lite0")
    asked = parser.parse_args()
    backbone = load(asked.backbone)

    def embedded(contents: list[bytes]) -> np.ndarray:
        return directions(embed_contents(contents, backbone))

    files: dict[int, list[Path]] = {}
    for line in (asked.photos / "train.txt").read_text().splitlines():
        path, label, _ = line.split(",")
        files.setdefault(int(label), []).append(asked.photos / path.strip())
    enough = [some for _, some in sorted(files.items()) if len(some) >= 5 + ASKED]
    others = np.random.default_rng(0).permutation(len(enough))[len(enough) // 2 :]
    report(
        "products of a shop",
        [embedded([file.read_bytes() for file in enough[number][:OF_A_CLASS]]) for number in others],
    )
    report("drawn things", [embedded([drawn(thing, n) for n in range(9)]) for thing in range(N_DRAWN)])


if __name__ == "__main__":
    main()
