"""Embeddings of characters of the fonts on this machine, for the other benchmarks.

    python benchmarks/characters.py --out glyphs.npz [--classes 83000]

The file holds `X` (n, 1280), float16, and `y` (n,), code points, four samples a class, one class after the
other: three training images and a test image of `xlda.glyphs`, 96 pixels wide, through EfficientNet-Lite0.
More than 80 000 classes need the fonts that docs/glyphs.md names.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from xlda import backbones
from xlda.glyphs import embed_glyphs, find_glyphs
from xlda.progress import Progress

SIZE = 96
TRAIN, TEST = 3, 1


def main() -> None:
    """Draw, embed, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--classes", type=int, default=83_000)
    parser.add_argument("--fonts", default="system", help="or `default`, for those of matplotlib")
    parser.add_argument("--holdout", choices=("rendering", "font"), default="rendering")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    glyphs = find_glyphs(arguments.fonts, n_classes=arguments.classes, seed=arguments.seed)
    how = {"holdout": arguments.holdout, "seed": arguments.seed}
    samples = [*glyphs.samples("train", TRAIN, **how), *glyphs.samples("test", TEST, **how)]
    backbone = backbones.load(size=SIZE, resize=SIZE)
    with Progress(lambda: len(samples)) as bar:
        X = embed_glyphs(glyphs, samples, backbone, size=SIZE, progress=bar.advance)
    y = np.array([sample.code_point for sample in samples])
    order = np.argsort(y, kind="stable")
    np.savez(arguments.out, X=X[order].astype(np.float16), y=y[order])
    print(f"{arguments.out}: {len(X):,} images of {len(glyphs):,} characters")


if __name__ == "__main__":
    main()
