"""The parameters of a classifier: which values make sense, and which classifiers can be merged."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from xlda.calibration.folds import LIKES
from xlda.head.covariance import check_shrinkage
from xlda.identity import BackboneIdentity
from xlda.lifting import Lift
from xlda.search import check_search

MOST_ROWS = 1024  # of a class, for a second look: a query inverts a matrix of eight times as many
MOST_FEATURES = 65_536  # that a lift may have: the covariance of so many takes 32 GiB


class LearningParameters(NamedTuple):
    """Those that cannot change once something was learned."""

    rule: str
    covariance: str
    power: Any
    precision: str
    lift: tuple[int, int, int | None] | None  # features, seed, and what stands for the centre
    second_look: int | None

    def differences(self, other: LearningParameters) -> list[tuple[str, Any, Any]]:
        """Which differ, by name, with both values; these are None where they would tell nobody anything."""
        mine, theirs = self._by_name(), other._by_name()
        if None in (self.lift, other.lift):  # neither seed nor centre mean anything then
            mine, theirs = ({**each, "lift_seed": 0, "lift_centre": None} for each in (mine, theirs))
        names = [name for name in mine if mine[name] != theirs[name]]
        return [
            (name, None, None) if name == "lift_centre" else (name, mine[name], theirs[name])
            for name in names
        ]

    def _by_name(self) -> dict[str, Any]:
        lift, seed, centre = self.lift or (None, 0, None)
        return {**self._asdict(), "lift": lift, "lift_seed": seed, "lift_centre": centre}


def check_parameters(estimator: Any) -> None:
    """Refuse a parameter that is none, by name."""
    _check_choice("model", estimator.model, ("bayes", "lda"))
    check_shrinkage(estimator.shrinkage, estimator.shrinkage_target)
    _check_choice("covariance", estimator.covariance, ("plastic", "fixed"))
    _check_choice("rule", estimator.rule, ("exact", "slda"))
    _check_choice("priors", estimator.priors, ("equal", "empirical"))
    _check_choice("precision", estimator.precision, ("full", "half"))
    check_search(estimator.search)
    power: Any = estimator.power
    renew: Any = estimator.renew
    is_name = isinstance(power, str) and power == "auto"
    if power is not None and not is_name and not (_is_real(power) and 0 < power < np.inf):
        raise ValueError(f"power is 'auto', None or a positive number; got {power!r}.")
    _check_choice("like", estimator.like, LIKES)
    check_lift(estimator)
    check_second_look(estimator)
    most: Any = estimator.check_samples
    if not _is_whole(most) or most < 0:
        raise ValueError(f"check_samples is a whole number of at least 0; got {most!r}.")
    if estimator.background is not True and estimator.background is not False:
        raise ValueError(f"background is True or False; got {estimator.background!r}.")
    if not (_is_real(renew) and 0 <= renew < np.inf):
        raise ValueError(f"renew is a number of at least 0; got {renew!r}.")


def learning_parameters(estimator: Any) -> LearningParameters:
    """Those that cannot change once something was learned; the power as it was chosen, once it is."""
    power, lift = estimator.power, None
    if isinstance(power, str):
        power = getattr(estimator, "power_", power)
    if estimator.lift is not None:
        lift = int(estimator.lift), int(estimator.lift_seed), _centre_number(estimator.lift_centre)
    second = None if estimator.second_look is None else int(estimator.second_look)
    return LearningParameters(estimator.rule, estimator.covariance, power, estimator.precision, lift, second)


def check_unchanged(before: LearningParameters, now: LearningParameters) -> None:
    """Refuse to go on with other parameters than learning began with, by name."""
    if before == now:
        return
    changes = [
        f"{name} changed after learning began"
        + ("" if was == value else f": it was {was!r} and is {value!r}")
        for name, was, value in before.differences(now)
    ]
    raise ValueError(f"{'; '.join(changes)}. Call fit to start anew.")


def _centre_number(centre: Any) -> int | None:
    """A number that two centres have in common if they are the same."""
    return None if centre is None else crc32(np.asarray(centre, "<f4").tobytes())


def check_lift(estimator: Any) -> None:
    """Refuse a lift that is none."""
    lift, seed, centre = estimator.lift, estimator.lift_seed, estimator.lift_centre
    check_features(lift)
    if not (_is_whole(seed) and 0 <= seed < 2**63):
        raise ValueError(f"lift_seed is a whole number of at least 0, below 2**63; got {seed!r}.")
    if centre is not None:
        array = np.asarray(centre)
        if array.ndim != 1 or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
            raise ValueError("lift_centre is None, or finite numbers of shape (n_features,).")
        if lift is None:
            raise ValueError("lift_centre needs a lift, which is None.")


def check_second_look(estimator: Any) -> None:
    """Refuse a second look that is none, or that cannot be had with the others."""
    n_rows = estimator.second_look
    if n_rows is None:
        return
    check_rows(n_rows)
    for name, needed in (("model", "bayes"), ("rule", "exact"), ("lift", None)):
        if getattr(estimator, name) != needed:
            raise ValueError(f"second_look needs {name}={needed!r}; got {getattr(estimator, name)!r}.")


def check_features(n_features: Any, name: str = "lift") -> None:
    """Refuse what is no number of random features; `name` is that of the parameter."""
    _check_number(name, n_features, MOST_FEATURES)


def check_rows(n_rows: Any, name: str = "second_look") -> None:
    """Refuse what is no number of rows for a second look; `name` is that of the parameter."""
    _check_number(name, n_rows, MOST_ROWS)


def lift_for(estimator: Any, n_inputs: int) -> Lift | None:
    """The lift that the parameters of an estimator stand for, of embeddings with so many numbers."""
    if estimator.lift is None:
        return None
    centre = estimator.lift_centre
    if centre is not None and len(centre) != n_inputs:
        raise ValueError(f"lift_centre has {len(centre)} numbers; embeddings have {n_inputs}.")
    return Lift(n_inputs, int(estimator.lift), int(estimator.lift_seed), centre)


def check_mergeable(mine: Any, theirs: Any) -> None:
    """Refuse a fitted estimator, `theirs`, that `mine`, fitted or not, cannot learn from."""
    own, other = learning_parameters(mine), learning_parameters(theirs)
    if "auto" in (own.power, other.power):  # one that has no samples yet takes what the other has chosen
        own, other = (some._replace(power=None) for some in (own, other))
    if own != other:
        differences = [
            f"{name} is " + ("another one" if one == two else f"{one!r} here and {two!r} in the other")
            for name, one, two in own.differences(other)
        ]
        raise ValueError(
            "merge needs the same rule, covariance, power, precision, lift and second_look; "
            f"{', '.join(differences)}."
        )
    if not mine.__sklearn_is_fitted__():
        return
    if theirs.n_features_in_ != mine.n_features_in_:
        raise ValueError(
            f"merge got a classifier of {theirs.n_features_in_} features; this one has "
            f"{mine.n_features_in_}. Only classifiers over the same backbone can be merged."
        )
    backbone, their_backbone = (BackboneIdentity.from_json(clf.backbone_) for clf in (mine, theirs))
    if backbone is not None:
        backbone.check_same(their_backbone, "This classifier")
    names, their_names = (getattr(clf, "feature_names_in_", None) for clf in (mine, theirs))
    if names is not None and their_names is not None and names.tolist() != their_names.tolist():
        raise ValueError("merge got a classifier whose features have other names or another order.")
    if mine.rule == "slda":
        raise ValueError("rule='slda' depends on the order, so it cannot be merged. Use rule='exact'.")
    if theirs._model.layer_rows is not None:
        raise ValueError(
            "merge got a classifier converted from a layer: nothing can be learned from its rows. "
            "Merge this one into that one instead."
        )


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is one of {choices}; got {value!r}.")


def _check_number(name: str, value: Any, most: int) -> None:
    if value is not None and not (_is_whole(value) and 1 <= value <= most):
        raise ValueError(f"{name} is None or a whole number from 1 to {most:,}; got {value!r}.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return type(value) is float or isinstance(value, Real)  # the second takes ten times as long
