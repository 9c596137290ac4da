"""The parameters of a classifier: which values make sense, and which classifiers can be merged."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from xlda.calibration.folds import LIKES
from xlda.head.covariance import check_shrinkage
from xlda.identity import BackboneIdentity
from xlda.search import check_search


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
    most: Any = estimator.check_samples
    if isinstance(most, bool) or not isinstance(most, Integral) or most < 0:
        raise ValueError(f"check_samples is a whole number of at least 0; got {most!r}.")
    if estimator.background is not True and estimator.background is not False:
        raise ValueError(f"background is True or False; got {estimator.background!r}.")
    if not (_is_real(renew) and 0 <= renew < np.inf):
        raise ValueError(f"renew is a number of at least 0; got {renew!r}.")


def learning_parameters(estimator: Any) -> tuple[Any, ...]:
    """Those that cannot change once something was learned; the power as it was chosen, once it is."""
    power = estimator.power
    if isinstance(power, str):
        power = getattr(estimator, "power_", power)
    return estimator.rule, estimator.covariance, power, estimator.precision


def check_mergeable(mine: Any, theirs: Any) -> None:
    """Refuse a fitted estimator, `theirs`, that `mine`, fitted or not, cannot learn from."""
    own, other = learning_parameters(mine), learning_parameters(theirs)
    if "auto" in (own[2], other[2]):  # one that has no samples yet takes what the other has chosen
        own, other = ((*some[:2], None, *some[3:]) for some in (own, other))
    if own != other:
        raise ValueError(
            f"merge needs the same rule, covariance, power and precision; here {own}, in the other {other}."
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


def _is_real(value: Any) -> bool:
    return type(value) is float or isinstance(value, Real)  # the second takes ten times as long
