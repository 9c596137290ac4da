"""Whether a file from pixels to labels answers as its model does: on pictures that are drawn for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from PIL import Image

from xlda._internal.arrays import Array
from xlda.backbones import Backbone
from xlda.backbones.network import open_session
from xlda.classifier import XLDA
from xlda.predictor.answers import Judged

FEW = 8  # pictures
GRAIN = 8.0  # standard deviation, in grey levels
NEAR = 0.02  # by so much the probability of the best may differ
NEAR_RATIO = 0.2  # and so much the logarithms of all, where they are not below this:
LEAST = 1e-12
NEAR_SCORE = 0.5  # of classes whose scores are no farther apart, either may be the best


def check_answers(
    content: bytes, clf: XLDA, backbone: Backbone, k: int, side: int, n_at_once: int | None
) -> None:
    """Refuse a file whose answers are not those of the model: a ValueError."""
    n_at_once = n_at_once or FEW
    pictures = drawn_pictures(side, n_at_once * max(FEW // n_at_once, 1))
    found = _answers(open_session(content, "The exported file", None), pictures, n_at_once)
    expected = _expected(clf, backbone, pictures, max(k, 2))
    same = found["labels"][:, 0] == expected.labels[:, 0]
    if expected.scores.shape[1] > 1:
        same |= expected.scores[:, 0] - expected.scores[:, 1] < NEAR_SCORE
    own, theirs = expected.probabilities[:, :k], found["probabilities"]
    of_best = np.abs(theirs - own)[:, 0].max()
    # The others share the rest in one of two ways, and a picture may lie just between these.
    ratio = np.median(np.abs(np.log(theirs + LEAST) - np.log(own + LEAST)).max(axis=1))
    if not (of_best < NEAR and ratio < NEAR_RATIO and same.all()):
        raise ValueError(
            f"The exported file answers otherwise than the model: {np.count_nonzero(~same)} of {len(same)} "
            f"drawn pictures have another label, and probabilities differ by up to {of_best:.2g}, or by a "
            f"factor of {np.exp(ratio):.3g}. Nothing was written. Is {backbone.name} the network that the "
            "model was made with, and onnxruntime up to date?"
        )


def drawn_pictures(side: int, n: int) -> Array:
    """Some pictures (n, side, side, 3), uint8: patches of colour, from large to small, with grain.

    Without grain, half of a smooth area could lie just between two grey levels, and be rounded either way.
    """
    rng = np.random.default_rng(0)
    pictures = np.empty((n, side, side, 3), np.uint8)
    for number, picture in enumerate(pictures):
        n_patches = 2 + 3 * (number % FEW)
        patches = Image.fromarray(rng.integers(0, 256, (n_patches, n_patches, 3), dtype=np.uint8))
        smooth = np.asarray(patches.resize((side, side), Image.Resampling.BICUBIC))
        picture[...] = np.clip(smooth + rng.normal(0, GRAIN, smooth.shape), 0, 255)
    return pictures


def _answers(session: Any, pictures: Array, n_at_once: int) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    starts = range(0, len(pictures), n_at_once)
    runs = [session.run(names, {"pixels": pictures[start : start + n_at_once]}) for start in starts]
    return {name: np.concatenate(values) for name, values in zip(names, zip(*runs, strict=True), strict=True)}


def _expected(clf: XLDA, backbone: Backbone, pictures: Array, k: int) -> Judged:
    """What the model says of pictures that are the crop already, whichever classes its search looks at."""
    of_crop = dataclasses.replace(backbone.preprocessing, resize=None)
    batch = np.stack([of_crop.prepare(Image.fromarray(picture)) for picture in pictures])
    model = clf.snapshot()
    model.head = model.head.among(np.arange(model.head.n_rows))
    return model.judge(backbone.embed(batch), k)
