"""A calibration as a section of a file, and back, if it can be one."""

from __future__ import annotations

import numpy as np

from xlda._internal.arrays import Array
from xlda._internal.section import Section
from xlda.calibration.calibration import KINDS, Calibration
from xlda.calibration.evidence import Evidence
from xlda.calibration.figures import LEAST, MOST, FittedFigures, Line
from xlda.calibration.folds import BEST, LIKES, Like

NAME, VERSION = "calibration", 2
FIELDS = ("scores", "place", "counts", "weights")
ROWS = ("truth", "best")  # from version 2 on
FIGURES, FIGURES_VERSION = "figures", 1


def calibration_to_section(calibration: Calibration) -> Section:
    """All that was measured, and what was confirmed."""
    tensors: dict[str, Array] = {}
    for kind in KINDS:
        tensors |= getattr(calibration, kind).to_arrays(kind)
    return Section(NAME, VERSION, tensors, {"learned": calibration.learned})


def calibration_from_section(section: Section, n_rows: int) -> Calibration:
    """What was measured; what cannot be that is a ValueError that says why, as a part of a sentence."""
    fields = FIELDS if section.version == 1 else (*FIELDS, *ROWS)
    section.check_tensors(*(f"{kind}_{field}" for kind in KINDS for field in fields))
    learned = section.number("learned")
    if not 0 <= learned < np.inf:
        raise ValueError("it was calibrated on what cannot be")
    same, visit, unknown, confirmed, confirmed_unknown = (_evidence(section, kind, n_rows) for kind in KINDS)
    return Calibration(same, visit, unknown, learned, confirmed, confirmed_unknown)


def figures_to_section(calibration: Calibration, like: Like) -> Section:
    """What is fitted to the evidence, for samples of this kind: so that the first answer need not wait."""
    scale, *lines = calibration.of(like).figures
    told = [[line.at_zero, line.slope, line.most] for line in lines]
    info = {"like": like, "temperature": scale, "correction": told[0], "known_line": told[1]}
    return Section(FIGURES, FIGURES_VERSION, info=info, may_be_ignored=True)


def figures_from_section(section: Section) -> dict[Like, FittedFigures]:
    """The same, by what kind it is for."""
    section.check_tensors()
    like, scale = section.info.get("like"), section.number("temperature")
    if like not in LIKES or not LEAST <= scale <= MOST:
        raise ValueError("its answers are as sure as nothing can be")
    return {like: FittedFigures(scale, _line(section, "correction"), _line(section, "known_line"))}


def _line(section: Section, name: str) -> Line:
    values = section.info.get(name)
    if not isinstance(values, list) or len(values) != 3 or not all(type(one) is float for one in values):
        raise ValueError(f"{name} of {section.name} is no curve")
    if not np.isfinite(values).all() or values[1] < 0 or not 0 < values[2] <= 1:
        raise ValueError(f"{name} of {section.name} is no curve")
    return Line(*values)


def _evidence(section: Section, kind: str, n_rows: int) -> Evidence:
    scores = section.tensor(f"{kind}_scores", (np.float32,), (None, BEST))
    n = len(scores)
    place = section.tensor(f"{kind}_place", (np.int64,), (n,))
    counts = section.tensor(f"{kind}_counts", (np.float32,), (n,))
    weights = section.tensor(f"{kind}_weights", (np.float32,), (n,))
    best_first = (scores[:, 1:] <= scores[:, :-1]).all() and np.isfinite(scores[:, :1]).all()
    if not best_first or ((place < -1) | (place >= BEST)).any():
        raise ValueError("it was calibrated on scores that cannot be")
    if not ((counts >= 0) & (weights > 0)).all():
        raise ValueError("it was calibrated on samples that cannot be")
    if section.version == 1:
        truth = best = np.full(n, -1)
    else:
        truth, best = (section.tensor(f"{kind}_{field}", (np.int64,), (n,)) for field in ROWS)
    if ((np.minimum(truth, best) < -1) | (np.maximum(truth, best) >= n_rows)).any():
        raise ValueError("it was calibrated on classes that it does not have")
    return Evidence(scores, place, counts, weights, truth, best)
