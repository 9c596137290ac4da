"""A mistake, and how it is undone."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlda.classifier import XLDA
from xlda.demo.characters import DrawnCharacters
from xlda.demo.stream import rows_of

SHARE = 10  # one class in so many is learned under a wrong label,
FEWEST = 3  # and no fewer: two that swap their labels would have one mean, and rounding would choose


def learn_and_forget(model: XLDA, data: DrawnCharacters) -> tuple[dict[str, Any], float]:
    """Learn the images of some classes under the label of the next one, and forget them.

    Accuracies before, with the mistake, and after; how many answers are the same after as before; and the
    largest difference of any score, as a share of their standard deviation.
    """
    labels = data.order[-max(FEWEST, len(data.order) // SHARE) :]
    mixed_up, asked, test = data.train.of(labels), data.test.of(labels), data.test.embeddings
    wrong = np.roll(labels, -1)[rows_of(mixed_up.labels, labels)]
    figures: dict[str, Any] = {"n_classes": len(labels), "n_samples": len(wrong)}

    def ask(when: str) -> None:
        figures[when] = float(model.score(test, data.test.labels))
        figures[f"{when}_there"] = float(model.score(asked.embeddings, asked.labels))

    model.set_params(renew=0.0)  # scores of all that was learned, each time
    before, answers = model.decision_function(test), model.predict(test)
    ask("before")
    model.partial_fit(mixed_up.embeddings, wrong)
    ask("mistaken")
    model.forget(mixed_up.embeddings, wrong)
    after = model.decision_function(test)
    ask("after")
    figures["n_same"], figures["n_test"] = int(np.sum(answers == model.predict(test))), len(test)
    return figures, float(np.abs(after - before).max() / before.std())
