"""Embeddings of characters of the fonts on this machine, for the other benchmarks.

    python benchmarks/characters.py --out glyphs.npz [--classes 83000]

The file holds `X` (n, 1280), float16, and `y` (n,), code points, one class after the other, and `train`: so
many samples of each class come first, to learn from, those after them are to be asked for. They are images of
`xlda.glyphs`, 96 pixels wide, through EfficientNet-Lite0. More than 80 000 classes need the fonts that
docs/glyphs.md names.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from xlda import backbones
from xlda._internal.progress import Progress
from xlda.glyphs import embed_glyphs, find_glyphs

SIZE = 96


def draw(
    out: Path,
    n_classes: int,
    fonts: str = "system",
    holdout: str = "rendering",
    train: int = 3,
    test: int = 1,
    seed: int = 0,
) -> None:
    """Draw, embed, store."""
    glyphs = find_glyphs(fonts, n_classes=n_classes, seed=seed)
    how = {"holdout": holdout, "seed": seed}
    samples = [*glyphs.samples("train", train, **how), *glyphs.samples("test", test, **how)]
    backbone = backbones.load(size=SIZE, resize=SIZE, views=1)
    with Progress(lambda: len(samples)) as bar:
        X = embed_glyphs(glyphs, samples, backbone, size=SIZE, progress=bar.advance)
    y = np.array([sample.code_point for sample in samples])
    order = np.argsort(y, kind="stable")
    unfinished = out.with_suffix(".unfinished.npz")
    np.savez(unfinished, X=X[order].astype(np.float16), y=y[order], train=train)
    unfinished.replace(out)
    print(f"{out}: {len(X):,} images of {len(glyphs):,} characters")


def main() -> None:
    """What to draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--classes", type=int, default=83_000)
    parser.add_argument("--fonts", default="system", help="or `default`, for those of matplotlib")
    parser.add_argument("--holdout", choices=("rendering", "font"), default="rendering")
    parser.add_argument("--train", type=int, default=3, help="samples a class to learn from")
    parser.add_argument("--test", type=int, default=1, help="and to be asked for")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    draw(
        arguments.out,
        arguments.classes,
        arguments.fonts,
        arguments.holdout,
        arguments.train,
        arguments.test,
        arguments.seed,
    )


if __name__ == "__main__":
    main()
