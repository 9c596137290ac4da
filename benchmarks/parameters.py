"""What the parameters of XLDA are worth: writes docs/parameters.md.

python benchmarks/parameters.py                                             digits, on any machine
python benchmarks/parameters.py --npz grocery_lite0.npz --write docs/parameters.md      and shop photos
"""

from __future__ import annotations

import argparse
import platform
import time
from datetime import date
from pathlib import Path

import imbalanced
import numpy as np
from cases import Case
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from xlda import XLDA, __version__

Data = tuple[np.ndarray, ...]  # train X, test X, train y, test y

COMMAND = "python benchmarks/parameters.py --npz grocery_lite0.npz --write docs/parameters.md"
SHRINKAGES = ("auto", 0.0, 0.001, 0.05, 0.2, 0.3, 0.5, 0.7, 0.9, "oas", "ledoit-wolf")
SETTINGS = [imbalanced.Setting(*pair) for pair in (("half poor", 1), ("half poor", 3), ("equal", 3))]
MODELS = ("bayes", "lda")
DRAWS = 20
RENEWALS = (0.0, 0.001, 0.01, 0.03, 0.1, 0.3)
STEP = 10  # samples between two predictions

SHRINKAGE = """\
## `shrinkage` and `power`

Accuracy on the test samples after one pass. Digits are pixels, photos embeddings of EfficientNet-Lite0."""

MODEL = f"""\
## `model`

"bayes" knows how much each class mean is worth, "lda" takes it for the truth. Accuracy where half of the
classes, drawn by chance, have 1 or 3 samples and the others all (in brackets: of those with many / with few),
where every class has 3, mean of {DRAWS} draws, and where all have all. More in
[imbalanced.md](imbalanced.md)."""

TOGETHER = """\
## What goes with `model="bayes"`

| | |
| --- | --- |
| `rule="slda"` | implies `model="lda"`: the published rule is LDA |
| `covariance="fixed"` | how class means differ is frozen with the covariance, and saved with it |
| `precision="half"` | means and the head's weights are float16; the scale matters to means alone |
| `priors="empirical"` | the logarithm of the count is added to the score, as with LDA |
| sample weights | counts are sums of weights, any positive ones |
| `search="dense"` | all classes in all coordinates of the head |
| `search="fisher"` | the same coordinates in stages, look-up tables included |
| `search="fast scan"` | codes of the same coordinates, made for the average count; scored exactly |
| `search="lsh"`, `"faiss"` | candidates by the coordinates and by usual tables, scored exactly |
| `power`, `shrinkage`, `renew` | as with LDA |
| `from_linear` | a layer without embeddings answers as the layer; then see [math.md](math.md) |
| `to_linear` | the equal layer where counts are, else the nearest, with a warning; ONNX and torch: exact |
| `merge`, `forget`, `remove_class` | everything follows from the moments: as if it had always been so |

With `power="auto"` the power is chosen once, by the signs of the first embeddings learned; that any order and
any split give the same classifier then holds for streams of one sign. Embeddings that are nearly never
negative, or centred, may gain from `power=0.5` as well; text embeddings, which have both signs, do not
(`python benchmarks/text_embeddings.py`)."""

RENEWAL = f"""\
## `second_look`

`second_look=16` keeps 16 rows of each class that tell how its own samples vary, and compares the classes
nearest to a query once more by those of the eight nearest and their own. Among many classes that are much
alike it is better than a lift at less cost; among few it may bring nothing. [dozens.md](dozens.md) has
figures, for 8, 16 and 32 rows, what it costs, and [math.md](math.md#a-second-look) what is computed, and
where rows tell less: of samples that are given several times, and of embeddings that float16 cannot tell
apart. It needs `model="bayes"` and `rule="exact"`, and cannot be added once something was learned.
`assess(try_second_look=16)`, or `xlda inspect shop.xlda --try-second-look 16`, tries on kept samples what it
would bring.

Rows take `rows * features * 4` bytes a class, and about half of that again in the head. A query takes about
a millisecond more with 16 rows, which among few classes is many times as long, and two with 32
(`python benchmarks/second_look_cost.py --rows 32`): it inverts a matrix of eight times as many rows. More
rows than there are coordinates tell nothing more, and take no longer than these. In `memory()`, "rows for a
second look" are the former: sums of embeddings, which learning changes and files have. "second look" is what
the head has of them: the rows in its own coordinates, with class means, which are made with the head and in
no file.

Learning in any order, `merge`, `forget`, files, the service and calibration go with it. Rows of a class
that is removed or merged are what `class_rows` gives, and `restore_class` and `split_class` take; the
service does so by itself. A class that comes back without them is compared by those of others, until its
last sample is forgotten.

Not possible with a second look: `to_linear`, ONNX graphs, the torch module, shards, fleets, `from_linear`,
and a lift. After `set_params(second_look=None)` the next call drops the rows, for good, and nothing else of
what was learned: then they take it. `calibrate` measures anew how sure answers are without them.

## `lift`

`lift=4096` learns as many random features of each embedding in its place: slower to learn and to renew, with
`lift**2 * 4` bytes for the covariance and several times that while a head is made. [lift.md](lift.md) has
what it costs and how to find out whether it helps. `lift_seed` says which features, and `lift_centre` what is
taken off embeddings first. All in the table above goes with it, but for `from_linear`, which refuses it.

## `renew`

The covariance is inverted anew once the samples learned since pass the share `renew` of all (with more than
10 samples for each feature, as much more as there are, up to 1/4); means are always current. Agreement is the
share of predictions equal to those with `renew=0`, over a stream in which classes arrive one after the other,
with a prediction after every {STEP} samples. `to_linear` and `save` always use
the covariance of all that was learned."""


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--npz", type=Path, help="file with train_X, train_y, val_X, val_y")
    parser.add_argument("--write", type=Path, help="Markdown file to write")
    arguments = parser.parse_args()
    data = {"digits": tuple(train_test_split(*load_digits(return_X_y=True), random_state=0))}
    if arguments.npz:
        with np.load(arguments.npz) as arrays:
            data["photos"] = tuple(arrays[name] for name in ("train_X", "val_X", "train_y", "val_y"))
    page = "\n\n".join(
        [
            "# What the parameters are worth",
            f"Made by `{COMMAND}`\non {date.today()} with Python {platform.python_version()}, "
            f"NumPy {np.__version__} and xlda {__version__}.",
            table(["data", "to learn", "to test", "classes", "d"], map(describe, data, data.values())),
            SHRINKAGE,
            table(
                ["data", "`power`", *(f"`{shrinkage}`" for shrinkage in SHRINKAGES)],
                (
                    [name, f"`{power}`", *accuracies(data[name], power)]
                    for name in data
                    for power in (None, 0.5)
                ),
            ),
            MODEL,
            table(
                ["data", "`model`", "half with 1", "half with 3", "3 of each", "all"],
                ([name, f'`"{model}"`', *models(data[name], model)] for name in data for model in MODELS),
            ),
            TOGETHER,
            RENEWAL,
            table(
                [
                    "data",
                    "`renew`",
                    "agreement, mean",
                    "least",
                    "accuracy at the end",
                    "renewals",
                    "time to predict",
                ],
                ([name, *row] for name in data for row in renewal(data[name])),
            ),
        ]
    )
    print(page)
    if arguments.write:
        arguments.write.write_text(page + "\n")


def describe(name: str, data: Data) -> list[str]:
    """Name and size of a data set."""
    X, X_test, y, _ = data
    return [name, str(len(X)), str(len(X_test)), str(len(np.unique(y))), str(X.shape[1])]


def accuracies(data: Data, power: float | None) -> list[str]:
    """Accuracy for each shrinkage. What was learned is the same; only the scoring differs."""
    X, X_test, y, y_test = data
    clf = XLDA(power=power).fit(X, y)
    return [f"{clf.set_params(shrinkage=each).score(X_test, y_test):.1%}" for each in SHRINKAGES]


def models(data: Data, model: str) -> list[str]:
    """Accuracy in each setting, and with all samples."""
    found = []
    for setting in SETTINGS:
        shares = np.array([drawn(data, model, setting, seed) for seed in range(DRAWS)])
        whole, rich, poor = (f"{share:.1%}" for share in shares.mean(axis=0))
        found.append(whole if setting.scheme == imbalanced.SAME else f"{whole} ({rich} / {poor})")
    X, X_test, y, y_test = data
    return [*found, f"{XLDA(model=model).fit(X, y).score(X_test, y_test):.1%}"]


def drawn(data: Data, model: str, setting: imbalanced.Setting, seed: int) -> tuple[float, ...]:
    """Accuracy of one draw: all, classes with many samples, classes with few."""
    X, X_test, y, y_test = data
    n_classes = int(y.max()) + 1
    number = np.random.default_rng(seed).permutation(n_classes)
    counts = setting.counts(int(np.bincount(y).max()), n_classes)
    case = imbalanced.thinned(Case(X, number[y], X_test, number[y_test], n_classes), counts, seed)
    right = XLDA(model=model).fit(case.X, case.rows).predict(case.queries) == case.query_rows
    poor = setting.poor(counts)[case.query_rows]
    return right.mean(), right[~poor].mean(), right[poor].mean() if poor.any() else 0.0


def renewal(data: Data) -> list[list[str]]:
    """A row for each share: agreement with renew=0 over the whole stream, accuracy, and work."""
    X, X_test, y, y_test = data
    order = np.argsort(y, kind="stable")
    learners = {share: XLDA(renew=share) for share in RENEWALS}
    predictions: dict[float, list[np.ndarray]] = {share: [] for share in RENEWALS}
    seconds = dict.fromkeys(RENEWALS, 0.0)
    centres: dict[float, list[int]] = {share: [] for share in RENEWALS}
    for start in range(0, len(order), STEP):
        chosen = order[start : start + STEP]
        for share, clf in learners.items():
            clf.partial_fit(X[chosen], y[chosen])
            begun = time.perf_counter()
            predictions[share].append(clf.predict(X_test))
            seconds[share] += time.perf_counter() - begun
            centres[share].append(hash(clf._current_head().centre.tobytes()))  # new with each renewal
    rows = []
    for share in RENEWALS:
        agreed = np.mean(np.array(predictions[share]) == np.array(predictions[0.0]), axis=1)
        accuracy = np.mean(predictions[share][-1] == y_test)
        n_renewals = len(set(centres[share]))
        rows.append(
            [
                f"{share:g}",
                f"{agreed.mean():.2%}",
                f"{agreed.min():.2%}",
                f"{accuracy:.1%}",
                f"{n_renewals}",
                f"{seconds[share]:.2f} s",
            ]
        )
    return rows


def table(header: list[str], rows: object) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


if __name__ == "__main__":
    main()
