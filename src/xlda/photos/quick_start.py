"""A recognizer for whoever asks once and goes: it starts without scikit-learn."""

from __future__ import annotations

from typing import Any

from xlda.learner.learner import Learner
from xlda.photos.recognizer import Recognizer


class QuickRecognizer(Recognizer):
    """The same, but its classifier is a `Learner`: all of `XLDA` but what scikit-learn adds to it."""

    @classmethod
    def _kind(cls) -> type[Any]:
        return Learner
