"""What comes in from outside: checked before anything is learned from it, and never modified."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, Literal

import numpy as np

from xlda._internal.arrays import Array
from xlda.errors import BadSampleError
from xlda.labels import Label, label_hash, label_list
from xlda.lifting.random_features import LONGEST

_MOST = {  # that a value may be, so that many squares can be added
    np.dtype(kind): float(np.finfo(kind).max) ** 0.375 for kind in (np.float16, np.float32, np.float64)
}

ROOT = 0.5  # power of embeddings that are never negative
OTHER_SIGN = (
    "These embeddings have negative values, and those learned first had none: power='auto' has chosen {} for "
    "them, and stays with it. If both are meant, start anew with power=None; else use one backbone for all."
)
MOST_HALF = 30_000.0  # that a value may be, so that a difference of two is a float16
LONGEST_HALF = MOST_HALF / LONGEST  # that an embedding may be, so that no feature is larger than that
FEW_NUMBERS = 2**12  # whose squares are added sooner than the largest and the smallest is found
LEAST_HALF = 2.0**-9  # that the largest of the first values may be: float16 has few digits below it


def checked_samples(
    estimator: Any, X: Any, y: Any, sample_weight: Any, min_samples: int = 0
) -> tuple[Array, list[Label], Array | None]:
    """Checked embeddings, labels and weights, without the samples whose weight is 0."""
    X = plain_array(estimator, X, min_samples)
    is_chosen = hasattr(estimator, "power_")
    power = estimator.power_ if is_chosen else chosen_power(estimator.power, X)
    embeddings = prepared(X, power, lifted=_is_lifted(estimator))
    if power is not None and estimator.power == "auto" and embeddings.size and embeddings.min() < 0:
        warnings.warn(OTHER_SIGN.format(power), stacklevel=4)
    if estimator.precision == "half":
        check_half(embeddings, not hasattr(estimator, "_model"), _is_lifted(estimator))
    refuse_masked(y, "y")
    labels = label_list(y)
    if len(labels) != len(embeddings):
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {len(embeddings)}, y has {len(labels)}."
        )
    weights = checked_weights(sample_weight, len(embeddings))
    if len(X) and not is_chosen:
        estimator.power_ = power
    if weights is None:
        return embeddings, labels, None
    check_magnitude(embeddings, weights.max(initial=0.0), _is_lifted(estimator))
    if (weights > 0).all():
        return embeddings, labels, weights
    kept = np.flatnonzero(weights)
    return embeddings[kept], [labels[i] for i in kept], weights[kept]


def checked_groups(groups: Any, y: Any, sample_weight: Any) -> Array | None:
    """A number for each group of samples that have a weight, (n,); None where there are no groups."""
    if groups is None:
        return None
    refuse_masked(groups, "groups")
    names = label_list(groups, "groups")
    n_samples = len(np.asarray(y))
    if len(names) != n_samples:
        raise ValueError(f"groups has {len(names)} entries; X has {n_samples} samples.")
    number_of = {name: label_hash(name) >> 1 for name in set(names)}
    numbers = np.fromiter(map(number_of.__getitem__, names), np.int64, len(names))
    return numbers if sample_weight is None else numbers[np.asarray(sample_weight, np.float64) != 0]


def checked_embeddings(estimator: Any, X: Any, power: float | None = None, min_samples: int = 0) -> Array:
    """`X` as a finite float32 or float64 array (n_samples, n_features), after the signed power.

    An `estimator` without `n_features_in_` is given it here. A plain array of the right shape
    costs O(n d) and a few microseconds; all else goes scikit-learn's way, with its conversions and messages.
    """
    return prepared(plain_array(estimator, X, min_samples), power, lifted=_is_lifted(estimator))


def _is_lifted(estimator: Any) -> bool:
    """Whether random features are learned, which are float32 whatever embeddings are."""
    return getattr(estimator, "lift", None) is not None


def plain_array(estimator: Any, X: Any, min_samples: int = 0) -> Array:
    """`X` as an array (n_samples, n_features) of floats, whatever they are."""
    n_features = getattr(estimator, "n_features_in_", None)
    plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype in _MOST
    if plain and n_features is None and X.shape[1] and len(X) >= min_samples:
        n_features = estimator.n_features_in_ = X.shape[1]
    if not plain or X.shape[1] != n_features or hasattr(estimator, "feature_names_in_"):
        return _converted(estimator, X, n_features, min_samples)
    array: Array = X
    return array


def chosen_power(power: float | Literal["auto"] | None, X: Array) -> float | None:
    """The power to take of embeddings such as these: with "auto", the square root of what is never negative.

    >>> chosen_power("auto", np.array([[0.0, 4.0]])), chosen_power("auto", np.array([[-1.0, 4.0]]))
    (0.5, None)
    """
    if power != "auto":
        return power
    return ROOT if X.size and X.min() >= 0 else None


def prepared(X: Array, power: float | None, half: bool = False, lifted: bool = False) -> Array:
    """A plain array as it is learned: at least float32, after the power, finite and of bearable magnitude."""
    if X.dtype == np.float16:
        X = X.astype(np.float32)
    if power is not None:
        X = signed_power(X, power)
    check_magnitude(X, lifted=lifted)
    if half:
        check_half(X, is_first=True, lifted=lifted)
    return X


def _converted(estimator: Any, X: Any, n_features: int | None, min_samples: int) -> Array:
    from sklearn.utils.validation import validate_data  # which takes about a second to import

    refuse_masked(X, "X")
    width = X.shape[1] if getattr(X, "ndim", 0) == 2 else n_features
    if n_features is not None and width != n_features and not hasattr(estimator, "feature_names_in_"):
        raise BadSampleError(
            f"X has {width} features, but XLDA is expecting {n_features} features as "
            "input. Use the same backbone, or start a new classifier."
        )
    if getattr(X, "dtype", None) == np.float16:
        X = X.astype(np.float32)
    try:
        array: Array = validate_data(
            estimator,
            X,
            reset=n_features is None,
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
            ensure_min_samples=min_samples,
        )
    except ValueError as error:
        raise BadSampleError(str(error)) from error
    return array


def refuse_masked(values: Any, name: str) -> None:
    """Refuse a masked array some of whose entries are masked: what is under the mask means nothing."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        n = int(np.ma.getmaskarray(values).sum())
        raise BadSampleError(
            f"{name} is a masked array with {n} masked entries. Fill them, or leave out their samples."
        )


def signed_power(embeddings: Array, power: float) -> Array:
    """Keep the sign, raise the magnitude to `power`: a new array.

    >>> signed_power(np.array([4.0, -9.0]), 0.5)
    array([ 2., -3.])
    """
    magnitudes = np.abs(embeddings)
    with np.errstate(over="ignore"):  # infinity is refused afterwards, with a message
        raised = np.sqrt(magnitudes, out=magnitudes) if power == 0.5 else magnitudes**power
    return np.copysign(raised, embeddings, out=raised)


def check_half(X: Array, is_first: bool = False, lifted: bool = False) -> None:
    """Refuse values of which a float16 cannot hold every difference, or the first ones but a few digits.

    Where they are `lifted`, features may be longer than they are.
    """
    if lifted and X.size and not np.sqrt(np.square(X, dtype=np.float64).sum(axis=1).max()) <= LONGEST_HALF:
        raise BadSampleError(
            f"With a lift, precision='half' holds embeddings up to a length of {LONGEST_HALF:g}; X has "
            "longer ones. Scale them down, or use precision='full'."
        )
    if X.size and not (X.max() <= MOST_HALF and X.min() >= -MOST_HALF):
        raise BadSampleError(
            f"X has values up to {np.abs(X).max():.3g}; precision='half' holds up to {MOST_HALF:g}. "
            "Scale them down, or use precision='full'."
        )
    if is_first and X.size and 0 < np.abs(X).max() < LEAST_HALF:
        raise BadSampleError(
            f"X has values up to {np.abs(X).max():.3g}; precision='half' keeps too few digits of numbers as "
            f"small as that. Scale them up, so that some are above {LEAST_HALF:g}, or use precision='full'."
        )


def check_magnitude(X: Array, weight: float = 1.0, lifted: bool = False) -> None:
    """Refuse NaN, infinity, and values whose squares, weighted and added, the type cannot hold.

    Where they are `lifted`, that is the type of features, float32.
    """
    dtype = np.dtype(np.float32) if lifted else X.dtype
    most = _MOST[dtype] / max(weight, 1.0) ** 0.5
    if X.size <= FEW_NUMBERS and np.vdot(X, X) <= most * most:  # NaN is not: no value is larger than the root
        return
    if X.size and not (X.max() <= most and X.min() >= -most):  # NaN is neither
        from sklearn.utils import assert_all_finite

        try:
            assert_all_finite(X, input_name="X", estimator_name="XLDA")
        except ValueError as error:
            raise BadSampleError(str(error)) from None
        with_weights = f" with weights up to {weight:.3g}" if weight > 1 else ""
        raise BadSampleError(
            f"X has values up to {np.abs(X).max():.3g}{with_weights}: their squares add up to more than "
            f"{dtype} can hold. Scale them down."
        )


def checked_block(
    count: Any, mean: Any, n_features: int, dtype: np.dtype[np.floating]
) -> tuple[float, Array]:
    """Count and mean of some samples, as a float and as float64 (n_features,); zeros where there are none.

    The mean is to be kept as `dtype`.
    """
    if isinstance(count, bool) or not isinstance(count, Real) or not 0 <= float(count) < np.inf:
        raise ValueError(f"count is a finite number of at least 0; got {count!r}.")
    if not count:
        return 0.0, np.zeros(n_features)
    array: Array = np.asarray(mean, np.float64)
    if array.shape != (n_features,):
        raise ValueError(f"mean has the shape {array.shape}, expected ({n_features},).")
    if not np.isfinite(array).all():
        raise ValueError("mean contains NaN or infinity.")
    if dtype == np.float16:
        check_half(array[None])
    else:
        with np.errstate(over="ignore"):  # infinity is refused
            check_magnitude(array[None].astype(dtype), float(count))
    return float(count), array


def checked_weights(weights: Any, n_samples: int) -> Array | None:
    """Sample weights as float64, shape (n_samples,), finite and not negative; None stays None."""
    if weights is None:
        return None
    refuse_masked(weights, "sample_weight")
    array: Array = np.asarray(weights, np.float64)
    if array.ndim == 0:
        array = np.full(n_samples, array)
    if array.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got shape {array.shape}.")
    if len(array) != n_samples:
        raise ValueError(f"sample_weight.shape == {array.shape}, expected ({n_samples},): one per sample.")
    if not np.isfinite(array).all():
        raise ValueError("sample_weight contains NaN or infinity.")
    if (array < 0).any():
        raise ValueError("sample_weight contains negative values. To take samples away, use forget.")
    return array
