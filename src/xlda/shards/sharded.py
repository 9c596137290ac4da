"""A classifier whose classes are in shards: one model all the same.

Moments are partitioned by label. Three sums over the shards, each of a size that does not depend on the
number of classes, give what a head needs to know of all of them; then every shard makes the weights of its
own. Where a whole takes near counts for the same, shards may take them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from xlda._internal.arrays import Array
from xlda._internal.not_fitted import not_fitted
from xlda.classifier import XLDA
from xlda.head.bayes_space import MOST_OUTSIDE, BayesSpace
from xlda.head.class_spread import ClassSpread, GroupedMeans, lengths_along, spread_of
from xlda.head.count_table import MOST_EXACT, rounded_counts
from xlda.head.covariance import Whitening, covariance_factor, inverse_covariance
from xlda.head.plain_space import PlainSpace
from xlda.inputs import checked_embeddings, chosen_power, plain_array
from xlda.labels import Label, label_hash, label_list
from xlda.search import chosen_search
from xlda.shards.shard import ClassShard, Within


def shard_of(label: Label, n_shards: int) -> int:
    """Which shard a label belongs to, on every machine the same.

    >>> [shard_of(label, 4) for label in ("apple", "pear", "kiwi")]
    [1, 2, 1]
    """
    return label_hash(label) % n_shards


class ShardedXLDA:
    """What `XLDA` predicts, with the classes in shards.

    Parameters are those of `XLDA`. Learning goes to the shard of each label; the first prediction after it
    makes the head anew. With model="bayes" there are more classes than features: fewer need no shards.

    >>> clf = ShardedXLDA(n_shards=2, model="lda")
    >>> clf.partial_fit([[0.0, 0.1], [0.2, 0.0], [3.0, 3.1], [9.0, 0.0]], ["apple", "apple", "pear", "kiwi"])
    ShardedXLDA of 2 shards
    >>> clf.predict([[8.0, 1.0], [0.0, 0.0]]).tolist()
    ['kiwi', 'apple']
    """

    def __init__(self, n_shards: int, **params: Any) -> None:
        self._params = params
        self._wanted = XLDA(**params)
        if self._wanted.lift is not None:
            raise ValueError("ShardedXLDA has no lift. Use lift=None, or one XLDA for all classes.")
        if self._wanted.second_look is not None:
            raise ValueError("ShardedXLDA looks once. Use second_look=None, or one XLDA for all classes.")
        self._shards: list[ClassShard | None] = [None] * n_shards
        self._current = False

    @classmethod
    def of(cls, classifiers: Sequence[XLDA]) -> Self:
        """One of classifiers that have learned different classes, with the same parameters and power."""
        first = classifiers[0]
        sharded = cls(len(classifiers), **{**first.get_params(), "power": first.power_})
        sharded._shards = [ClassShard(clf) for clf in classifiers]
        return sharded

    def __repr__(self) -> str:
        return f"ShardedXLDA of {len(self._shards)} shards"

    @property
    def shards(self) -> list[ClassShard]:
        """Those that have classes."""
        return [shard for shard in self._shards if shard is not None]

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn samples, each in the shard of its label."""
        labels, embeddings = label_list(y), np.asarray(X)
        if self._params.get("power", "auto") == "auto":
            self._params["power"] = chosen_power("auto", plain_array(XLDA(), embeddings))
            self._wanted = XLDA(**self._params)
        homes = np.array([shard_of(label, len(self._shards)) for label in labels], np.intp)
        for home in np.unique(homes).tolist():
            here = np.flatnonzero(homes == home)
            shard = self._shards[home] or ClassShard(XLDA(**self._params))
            shard.clf.partial_fit(embeddings[here], [labels[place] for place in here.tolist()])
            self._shards[home] = shard
        self._current = False
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Label of the best class for each sample, (n_samples,)."""
        return self.predict_topk(X, 1)[0][:, 0]

    def predict_topk(self, X: ArrayLike, k: int = 5) -> tuple[Array, Array]:
        """Labels and logits of the `k` best classes of all shards, each (n_samples, k)."""
        self._make_heads()
        first = self.shards[0].clf
        embeddings = checked_embeddings(first, X, first.power_)
        labels, scores = zip(*self._ask(lambda shard: shard.best(embeddings, k)), strict=True)
        every = np.concatenate(scores, axis=1)
        best = np.argsort(-every, axis=1, kind="stable")[:, :k]
        named = np.concatenate([some.astype(object) for some in labels], axis=1)
        found: Array = np.array(np.take_along_axis(named, best, axis=1).tolist()).reshape(best.shape)
        return found, np.take_along_axis(every, best, axis=1)

    # -- how it works

    def _ask(self, work: Callable[[ClassShard], Any]) -> list[Any]:
        """What every shard answers."""
        return [work(shard) for shard in self.shards]

    def _make_heads(self) -> None:
        if self._current:
            return
        if not self.shards:
            raise not_fitted("ShardedXLDA has learned no class yet. Call partial_fit first.")
        wanted = self._wanted
        within = self._ask(ClassShard.within)
        weight = sum(one.weight for one in within)
        dof = max(sum(one.dof for one in within), min(weight, 1.0))
        covariance = sum(one.scatter for one in within) / (dof or 1.0)
        base = sum(one.sum for one in within) / (weight or 1.0)
        space, used = self._space(within, covariance, dof, base)
        log_total = float(np.log(weight)) if wanted.priors == "empirical" else None
        least = 1.0
        if isinstance(space, BayesSpace):
            excess = np.sort(np.concatenate(self._ask(lambda shard: shard.outside(space))))[::-1]
            if len(excess) >= MOST_OUTSIDE:
                least = max(float(excess[MOST_OUTSIDE - 1]), least)
        largest = max(one.n_seen for one in within)
        search = chosen_search(wanted.search, largest, len(base), wanted.precision == "half")
        self._ask(lambda shard: shard.make_head(space, search, used, log_total, least))
        self._current = True

    def _space(
        self, within: list[Within], covariance: Array, dof: float, base: Array
    ) -> tuple[BayesSpace | PlainSpace, float]:
        wanted, dtype = self._wanted, np.result_type(*(shard._moments.dtype for shard in self.shards))
        if wanted.model == "lda":
            inverse, used = inverse_covariance(covariance, dof, wanted.shrinkage, wanted.shrinkage_target)
            centre = base.astype(dtype)
            return PlainSpace(centre, inverse.astype(dtype), inverse @ centre), used
        n_classes = sum(one.n_seen for one in within)
        factor, used = covariance_factor(covariance, dof, wanted.shrinkage, wanted.shrinkage_target)
        if n_classes <= len(base) or factor is None:
            raise ValueError(
                f"Shards are for more classes than features; here are {n_classes} classes of {len(base)} "
                "features. Merge the shards into one XLDA, or use model='lda'."
            )
        whitening = Whitening.by(factor)
        means = _ShardedMeans(self, within, whitening, covariance, base, dtype == np.float32)
        spread: ClassSpread = spread_of(means, whitening, covariance)
        return BayesSpace.by(whitening, spread, means.counts, dtype), used


class _ShardedMeans(GroupedMeans):
    """Class means that are in shards: the second step when it is made, the third when they scatter."""

    def __init__(
        self,
        sharded: ShardedXLDA,
        within: list[Within],
        whitening: Whitening,
        covariance: Array,
        base: Array,
        single: bool,
    ) -> None:
        super().__init__(base, whitening, covariance, single)
        self._sharded = sharded
        counts = np.unique(np.concatenate([one.counts for one in within]))
        self._rounded = len(counts) > MOST_EXACT or any(one.rounded for one in within)
        self.counts = np.unique(rounded_counts(counts)) if self._rounded else counts
        n_classes = sum(one.n_seen for one in within)
        towards = lengths_along(whitening, n_classes).astype(self._whitening.dtype)
        sums = sharded._ask(lambda shard: shard.group_sums(base, towards, self.counts, self._rounded))
        self.classes, self._squares = sum(one.classes for one in sums), sum(one.squares for one in sums)
        self._sums = sum(one.sums for one in sums) @ whitening.matrix

    def scattered(self, centre: Array, weights: Array) -> Array:
        """Added up by each shard, then here."""
        scale = np.sqrt(weights).astype(self._whitening.dtype)
        products = self._sharded._ask(lambda one: one.products(centre, scale, self.counts, self._rounded))
        total: Array = sum(products, np.zeros_like(products[0]))
        return total
