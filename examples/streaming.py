"""Handwritten digits arrive one class after the other; XLDA learns each in one pass and forgets none.

Run it with `make demo`. The 64 pixels of each image stand in for the embedding of a frozen backbone.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import xlda


def main() -> None:
    """Stream ten classes, then show that order does not matter, and undo, remove, save and load."""
    X, digits = load_digits(return_X_y=True)
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    X_train, X_test, y_train, y_test = train_test_split(X, names[digits], random_state=0, stratify=digits)

    print("Classes arrive one after the other, samples one by one:\n")
    print("  new class   classes   samples   microseconds a sample   accuracy on all classes so far")
    clf = xlda.XLDA()
    for name in names:
        new = X_train[y_train == name]
        start = time.perf_counter()
        for embedding in new:
            clf.partial_fit(embedding[None], [name])
        cost = (time.perf_counter() - start) / len(new) * 1e6
        seen = np.isin(y_test, clf.classes_)
        accuracy = clf.score(X_test[seen], y_test[seen])
        print(
            f"  {name:9}   {len(clf.classes_):7}   {clf.n_samples_seen_:7}   {cost:21.0f}   {accuracy:30.1%}"
        )

    at_once = xlda.XLDA().fit(X_train, y_train)
    same = (clf.predict(X_test) == at_once.predict(X_test)).mean()
    print(f"\nLearned in one batch instead, shuffled: {same:.1%} of the predictions are the same.")

    half_a = xlda.XLDA().fit(X_train[::2], y_train[::2])
    half_b = xlda.XLDA().fit(X_train[1::2], y_train[1::2])
    same = (clf.predict(X_test) == half_a.merge(half_b).predict(X_test)).mean()
    print(f"Learned as two halves on two machines, then merged: {same:.1%}.")

    before = clf.predict(X_test)
    clf.partial_fit(X_test, np.roll(y_test, 1))
    wrong = clf.score(X_test, y_test)
    clf.forget(X_test, np.roll(y_test, 1))
    same = (clf.predict(X_test) == before).mean()
    print(f"Wrong labels learned by mistake: accuracy {wrong:.1%}. Forgotten again: {same:.1%} as before.")

    clf.remove_class("seven")
    print(f"'seven' removed: predicted {np.sum(clf.predict(X_test) == 'seven')} times from now on.")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.xlda"
        clf.save(path)
        labels, _ = xlda.load(path).predict_topk(X_test[:1], k=3)
        size = path.stat().st_size / 1024
    print(f"Saved, loaded ({size:.0f} KiB): the best three for a '{y_test[0]}' are {', '.join(labels[0])}.")


if __name__ == "__main__":
    main()
