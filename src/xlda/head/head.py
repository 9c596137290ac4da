"""Scores of all classes as of one moment; a head never changes.

A head has a space, which says in which coordinates queries are scored and how rows are made of class means:
`PlainSpace` is linear discriminant analysis, `BayesSpace` the model that knows how much it knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from xlda._internal.arrays import Array, Rows
from xlda.head.bayes_space import MOST_DIRECTIONS, BayesSpace
from xlda.head.changed_rows import ChangedRows, NewRows
from xlda.head.class_spread import class_spread
from xlda.head.covariance import (
    Shrinkage,
    Target,
    Whitening,
    covariance_factor,
    has_variance,
    inverse_covariance,
)
from xlda.head.layer_prior import fitted_prior, with_layer_directions
from xlda.head.layer_rows import FittedLayerRows, LayerRows
from xlda.head.lifted_shrinkage import shrinkage_for
from xlda.head.model_samples import kept_queries, sampled_queries
from xlda.head.plain_space import PlainSpace
from xlda.head.second_look import CANDIDATES, SecondLook
from xlda.labels import LabelTable
from xlda.lifting.lift import AT_ONCE
from xlda.moments import Moments
from xlda.moments.kept_spread import KeptSpread
from xlda.search.class_rows import ClassRows
from xlda.search.dense import Dense, DenseIndex
from xlda.search.protocol import Changed, Classes, Index, Search
from xlda.search.ranking import best_columns, in_order, merged

Priors: TypeAlias = Literal["equal", "empirical"]
ModelKind: TypeAlias = Literal["bayes", "lda"]

ROWS_AT_ONCE = 1024  # classes that are mixed with a layer's at once
QUERIES_AT_ONCE = 64  # whose shortlists are made at once
FEWEST_CHANGED, MOST_CHANGED = 16, 2048  # rows kept beside the others before all are brought together


@dataclass(frozen=True, eq=False)
class Head:
    """Scores for every row of the model.

    Most rows are in `index`. A row that changed since that was made is in `changed`, so that learning one
    sample costs O(d^2) whatever the number of classes. A row without samples has the bias -inf: it never
    wins.
    """

    table: LabelTable  # the label of each row
    space: PlainSpace | BayesSpace
    shrinkage: float
    log_total: float | None  # of what counts are divided by to give priors; None for equal priors
    index: Index
    changed: ChangedRows
    n_seen: int  # rows that can win: those that have samples, and those of `layer_rows`
    layer_rows: FittedLayerRows | None = None  # rows of a layer, on the scale of the others
    second_look: SecondLook | None = None  # what the best rows are compared by once more

    @property
    def centre(self) -> Array:
        """The point that queries are relative to, (n_features,)."""
        return self.space.centre

    @property
    def n_inputs(self) -> int:
        """Numbers in an embedding."""
        return len(self.centre) if self.space.lift is None else self.space.lift.n_inputs

    def of_features(self) -> Head:
        """The same head where it is given what its lift makes of embeddings."""
        return replace(self, space=replace(self.space, lift=None))

    @property
    def n_rows(self) -> int:
        """Rows of the model, the empty ones included."""
        return len(self.table.names)

    @property
    def wants_renewal(self) -> bool:
        """Whether classes lie where it cannot tell them apart."""
        return isinstance(self.space, BayesSpace) and self.space.crowded

    @property
    def nbytes(self) -> dict[str, int]:
        """Memory of each part."""
        return {
            "weights": self.index.rows.nbytes + self.changed.log.weights.nbytes,
            "coordinates": self.space.nbytes,
            "search": self.index.nbytes,
            **({} if self.second_look is None else {"second look": self.second_look.nbytes}),
        }

    def scores(self, embeddings: Array) -> Array:
        """Logit of every row for every embedding less the common term, shape (n, n_rows).

        Where the search says so, rows that it did not look at have -inf, or NaN for a logit of 0.
        """
        scores = np.full((len(embeddings), self.n_rows), -np.inf, self.centre.dtype)
        for some in self._blocks(embeddings):
            queries = self.space.queries(embeddings[some])
            found = self._scores(queries)
            scores[some] = found if self.second_look is None else self.second_look.of_all(queries, found)
        return scores

    def _scores(self, queries: Array) -> Array:
        rows, entries = self.changed.newest
        n_settled = len(self.index.rows)
        scores = np.full((len(queries), self.n_rows), -np.inf, queries.dtype)
        found = self.index.scores(queries, rows[rows < n_settled])
        scores[:, :n_settled] = self.index.rows.scores(queries) if found is None else found
        if len(rows):
            scores[:, rows] = self._changed_rows(entries).scores(queries)
        return scores

    def top(self, embeddings: Array, k: int) -> tuple[Rows, Array]:
        """The `k` best rows and their scores, each (n, k), best first; of equals the lower row first."""
        found = [self._top(self.space.queries(embeddings[some]), k) for some in self._blocks(embeddings)]
        rows, scores, _ = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
        return rows, scores

    def _top(self, queries: Array, k: int, unknown: Array | None = None) -> tuple[Rows, Array, Array]:
        """The `k` best rows, their scores, and what a class without samples scores, after a second look."""
        unknown = np.zeros(len(queries)) if unknown is None else unknown
        if self.second_look is None:
            return *self.top_of_queries(queries, k), unknown
        rows, scores = self.top_of_queries(queries, min(max(k, CANDIDATES), self.n_rows))
        scores, unknown = self.second_look.scores(queries, rows, scores, unknown)
        return *in_order(rows, scores, k), unknown

    def top_and_unknown(self, embeddings: Array, k: int) -> tuple[Rows, Array, Array]:
        """The same, and what a class without samples would score, (n,), float64: 0 where it cannot tell."""
        if not isinstance(self.space, BayesSpace):
            return *self.top(embeddings, k), np.zeros(len(embeddings))
        found = [self._top_and_unknown(self.space, embeddings[some], k) for some in self._blocks(embeddings)]
        rows, scores, unknown = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
        return rows, scores, unknown

    def _top_and_unknown(self, space: BayesSpace, embeddings: Array, k: int) -> tuple[Rows, Array, Array]:
        centred = space.centred(embeddings)
        queries = space.rotated(centred)
        unknown = space.unknown_scores(centred, queries)
        return self._top(queries, k, unknown)

    def top_of_queries(self, queries: Array, k: int) -> tuple[Rows, Array]:
        """The `k` best rows and their scores for embeddings in the coordinates of the space."""
        if not len(self.changed):
            return self.index.top(queries, k, self.changed.rows)
        changed = self.changed.rows[self.changed.rows < len(self.index.rows)]
        settled, settled_scores = self.index.top(queries, k, changed)
        entries, changed_scores = best_columns(self._changed_rows().scores(queries), k)
        return merged(settled, settled_scores, self.changed.rows[entries], changed_scores, k)

    @property
    def knows_the_unknown(self) -> bool:
        """Whether it can tell what a class would score that has no samples."""
        return isinstance(self.space, BayesSpace)

    def among(self, rows: Rows) -> Head:
        """The same head with these rows alone, in order; it looks at all of them. O(len(rows) d)."""
        changed, entries = self.changed.newest
        here = np.isin(changed, rows)
        settled = self._widened(self.index.rows.taken(np.minimum(rows, len(self.index.rows) - 1)))
        places = np.searchsorted(rows, changed[here])
        found = settled.with_rows(self._changed_rows(entries[here]), places, len(rows))
        return replace(
            self,
            table=self.table.taken(rows),
            index=DenseIndex(found),
            changed=ChangedRows.none_of(self.changed.log.weights.shape[1], self.centre.dtype),
            n_seen=int(found.live.sum()),
            second_look=None if self.second_look is None else self.second_look.taken(rows),
        )

    def counts_of(self, rows: Rows) -> Array:
        """How many samples the classes in `rows` have, as the head takes it; of a Bayesian one."""
        assert isinstance(self.space, BayesSpace)
        squares = self.index.rows.squares
        groups = np.zeros(len(rows), np.intp)
        if squares is not None:
            groups = squares.groups.take(rows, mode="clip")  # a row that is not there is among the changed
        if len(self.changed):
            changed, entries = self.changed.newest
            places = changed.searchsorted(rows).clip(max=len(changed) - 1)
            late = changed[places] == rows
            groups[late] = self.changed.groups[entries[places[late]]]
        counts: Array = self.space.table.counts[groups]
        return counts

    def shortlists(self, embeddings: Array, k: int) -> Iterator[Rows]:
        """Rows looked at for the `k` best of each embedding."""
        changed = self.changed.rows[self.changed.rows < len(self.index.rows)]
        for start in range(0, len(embeddings), QUERIES_AT_ONCE):
            queries = self.space.queries(embeddings[start : start + QUERIES_AT_ONCE])
            for shortlist in self.index.shortlists(queries, k, changed):
                yield np.union1d(shortlist, self.changed.rows)

    def with_index(self, index: Index) -> Head:
        """The same head, searched in another way."""
        return replace(self, index=index)

    def common_term(self, embeddings: Array) -> Array:
        """What the logits of all rows have in common, shape (n,), float64."""
        found = [self.space.common_term(embeddings[some]) for some in self._blocks(embeddings)]
        term: Array = found[0] if len(found) == 1 else np.concatenate(found)
        return term - (self.log_total or 0.0)

    def all_rows(self) -> ClassRows:
        """All rows, the changed ones among the others, and in the coordinates of queries: O(C d)."""
        rows, entries = self.changed.newest
        settled = self._widened(self.index.rows)
        return settled.with_rows(self._changed_rows(entries), rows, self.n_rows)

    @property
    def wants_settling(self) -> bool:
        """Whether so many rows have changed that they had better be among the others, as most can be."""
        n_apart = np.count_nonzero(self.changed.apart)
        return bool(len(self.changed) - n_apart > most_changed(self.n_rows))

    def updated(
        self, moments: Moments, table: LabelTable, rows: Rows, layer_rows: LayerRows | None = None
    ) -> Head:
        """The next head: `rows` have changed, the covariance is kept. Costs O(d^2) a row.

        Whoever has the time for it brings changed rows among the others where it `wants_settling`.
        """
        space = self.space
        if isinstance(space, BayesSpace) and space.layer is not None:
            kept = None if layer_rows is None else replace(space.layer, kept=layer_rows)
            space = replace(space, layer=kept)
        space, new = space.with_rows(moments, rows, self.log_total is not None)
        fitted = None
        if self.layer_rows is not None and layer_rows is not None:
            fitted = replace(self.layer_rows, kept=layer_rows)
            new = _with_layer_rows(fitted, rows, moments, self.centre, new)
        return replace(
            self,
            table=table,
            space=space,
            changed=self.changed.extended(rows, new),
            n_seen=_n_seen(moments, layer_rows),
            log_total=None if self.log_total is None else _log_total(moments),
            layer_rows=fitted,
            second_look=None if self.second_look is None else self.second_look.updated(space, moments, rows),
        )

    def settled(self, moments: Moments) -> Head:
        """The same head with its changed rows among the others: O(C d), so only now and then.

        But those that need coordinates which the others do not have stay where they are.
        """
        rows, entries = self.changed.newest
        apart = self.changed.apart[entries]
        kept = ChangedRows.none_of(self.changed.log.weights.shape[1], self.centre.dtype)
        if apart.any():
            kept = kept.extended(rows[apart], self.changed.taken(entries[apart]))
        rows, entries = rows[~apart], entries[~apart]
        new = self._changed_rows(entries)
        width = self.index.rows.width
        new = replace(new, parts=(np.ascontiguousarray(new.weights[:, :width]),))
        space, half_norms = self.space, self.changed.half_norms[entries]

        def means() -> Array:
            if isinstance(space, BayesSpace):
                return space.posterior_means(new.weights, self.changed.groups[entries])
            return _means_of(new.weights, moments, rows, self.centre, self.layer_rows)

        offsets = None
        if isinstance(space, BayesSpace):
            offsets = space.offsets_of(new.weights, self.changed.groups[entries])
        changed = Changed(rows, self.n_rows, new, half_norms, means, offsets)
        second_look = None if self.second_look is None else self.second_look.settled()
        head = replace(self, index=self.index.updated(changed), changed=kept, second_look=second_look)
        if len(kept) > most_changed(self.n_rows) // 2 and isinstance(space, BayesSpace):
            return replace(head, space=replace(space, crowded=True))
        return head

    # -- how it works

    def _blocks(self, embeddings: Array) -> list[slice]:
        """All embeddings at once; where their features are wider than they are, some at a time."""
        if self.space.lift is None or len(embeddings) <= AT_ONCE:
            return [slice(None)]
        return [slice(start, start + AT_ONCE) for start in range(0, len(embeddings), AT_ONCE)]

    def _widened(self, rows: ClassRows) -> ClassRows:
        """Rows in all coordinates of queries; they are 0 along directions that came later."""
        missing = self.space.width - rows.width
        if not missing:
            return rows
        nothing = np.zeros((len(rows), missing), self.centre.dtype)
        return replace(rows, parts=(*rows.parts, nothing))

    def _changed_rows(self, entries: Rows | None = None) -> ClassRows:
        """Entries of what has changed, as they are scored; all of them, those that were replaced included."""
        changed, width = self.changed, self.space.width
        weights = changed.weights[:, :width]
        squares = None
        if entries is None:
            if isinstance(self.space, BayesSpace):
                squares = self.space.squares(changed.groups)
            return ClassRows((weights,), changed.bias, squares)
        if isinstance(self.space, BayesSpace):
            squares = self.space.squares(changed.groups[entries])
        return ClassRows((weights[entries],), changed.bias[entries], squares)


def most_changed(n_rows: int) -> int:
    """Rows to keep beside the others: every query reads each, but bringing them in copies all weights."""
    return min(max(FEWEST_CHANGED, min(round(3 * math.sqrt(n_rows)), n_rows // 4)), MOST_CHANGED)


def new_head(
    moments: Moments,
    table: LabelTable,
    *,
    model: ModelKind,
    shrinkage: Shrinkage,
    target: Target,
    priors: Priors,
    search: Search,
    previous: Head | None = None,
    layer_rows: LayerRows | None = None,
) -> Head:
    """Head of all that `moments` has learned so far, and of the rows of a layer where there are some.

    Costs O(d^3 + C d^2), and what the search needs. With one class, and where no class has a second sample,
    nothing is known of how means and samples vary: the nearest mean wins. Beside a layer whose classes have
    hardly any samples, it is plain LDA.
    """
    covariance, with_priors = moments.covariance(), priors == "empirical"
    shrinkage = shrinkage_for(shrinkage, moments, covariance)
    last = None if previous is None else previous.index
    wanted = _Wanted(
        moments, covariance, len(table.names), shrinkage, target, with_priors, search, last, layer_rows
    )
    space: PlainSpace | BayesSpace
    fitted, outside = None, np.empty(0, np.intp)
    if model == "lda" or not _can_tell(moments, covariance, layer_rows):
        space, used, index, fitted = _plain(wanted)
        n_coordinates = space.width
    else:
        space, used, index = _bayes(wanted)
        n_coordinates, outside = space.n_coordinates + MOST_DIRECTIONS, space.lying_outside(moments)
    head = Head(
        table=table,
        space=space,
        shrinkage=used,
        log_total=_log_total(moments) if with_priors else None,
        index=index,
        changed=ChangedRows.none_of(n_coordinates, moments.dtype),
        n_seen=_n_seen(moments, layer_rows),
        layer_rows=fitted,
        second_look=SecondLook.where_kept(space, moments),
    )
    return head.updated(moments, table, outside, layer_rows) if len(outside) else head


def _can_tell(moments: Moments, covariance: Array, layer_rows: LayerRows | None) -> bool:
    """Whether samples tell how they and class means vary, and where the classes of a layer are."""
    if moments.n_seen < 2 or not has_variance(covariance):
        return False
    return layer_rows is None or layer_rows.covered_by(moments.counts)


def spread_to_keep(moments: Moments, shrinkage: Shrinkage, target: Target) -> KeptSpread | None:
    """How class means differ as of now, to be kept with a frozen covariance; None where nobody can tell."""
    covariance = moments.covariance()
    if not _can_tell(moments, covariance, None):
        return None
    shrinkage = shrinkage_for(shrinkage, moments, covariance)
    factor, _ = covariance_factor(covariance, moments.dof, shrinkage, target)
    assert factor is not None  # there is variance
    whitening = Whitening.by(factor)
    return class_spread(moments, whitening, covariance).kept(whitening)


class _Wanted(NamedTuple):
    """What a head is made from."""

    moments: Moments
    covariance: Array
    n_rows: int
    shrinkage: Shrinkage
    target: Target
    with_priors: bool
    search: Search
    last: Index | None  # of the head before
    layer_rows: LayerRows | None


def _bayes(wanted: _Wanted) -> tuple[BayesSpace, float, Index]:
    moments, covariance = wanted.moments, wanted.covariance
    factor, used = covariance_factor(covariance, moments.dof, wanted.shrinkage, wanted.target)
    assert factor is not None  # there is variance
    whitening = Whitening.by(factor)
    spread, layer = class_spread(moments, whitening, covariance, moments.kept_spread), None
    if wanted.layer_rows is not None:
        spread = with_layer_directions(spread, whitening, wanted.layer_rows)
        layer = fitted_prior(wanted.layer_rows, moments, spread, whitening, wanted.with_priors)
    space = BayesSpace.of(whitening, spread, moments, layer)
    index = wanted.search.index(space.classes(moments, wanted.n_rows, wanted.with_priors), wanted.last)
    return space, used, index


def _plain(wanted: _Wanted) -> tuple[PlainSpace, float, Index, FittedLayerRows | None]:
    moments, n_rows, search, layer_rows = wanted.moments, wanted.n_rows, wanted.search, wanted.layer_rows
    inverse64, used = inverse_covariance(wanted.covariance, moments.dof, wanted.shrinkage, wanted.target)
    dtype = moments.dtype
    centre = moments.centre().astype(dtype)
    space = PlainSpace(centre, inverse64.astype(dtype), inverse64 @ centre, moments.lift)
    new = space.all_rows(moments, n_rows, wanted.with_priors)
    fitted = None
    if layer_rows is not None:
        if moments.n_seen:
            fitted = layer_rows.fitted(moments, centre, inverse64, new.weights, new.bias)
        else:
            fitted = layer_rows.as_they_are()
        searched = not isinstance(search, Dense)
        new = _with_layer_rows(fitted, np.arange(n_rows), moments, centre, new, searched)

    def means(rows: Rows | slice) -> Array:
        return _means_of(new.weights[rows], moments, rows, centre, fitted)

    def draw(n: int, rng: np.random.Generator) -> tuple[Array, Rows]:
        return sampled_queries(moments, centre, n, rng)

    def kept(n: int, rng: np.random.Generator) -> Array:
        return space.of_features(kept_queries(moments, n, rng))

    rows = ClassRows((new.weights,), new.bias)
    classes = Classes(rows, new.half_norms, space.inverse, centre, means, draw, kept, space.queries)
    return space, used, search.index(classes, wanted.last), fitted


def _means_of(
    weights: Array, moments: Moments, rows: Rows | slice, centre: Array, layer_rows: FittedLayerRows | None
) -> Array:
    """Class means less the centre; of a layer's rows those that LDA would have such weights for."""
    if layer_rows is not None:
        implied: Array = weights.astype(layer_rows.covariance.dtype) @ layer_rows.covariance
        return implied
    return moments.means_from(centre, rows)


def _with_layer_rows(
    fitted: FittedLayerRows,
    rows: Rows,
    moments: Moments,
    centre: Array,
    new: NewRows,
    searched: bool = True,
) -> NewRows:
    """Weights, bias and half norms of `rows`, those that a layer has too mixed with its own.

    Half norms cost O(d^2) a row, and only a search needs them.
    """
    weights, bias, half_norms = new.weights.copy(), new.bias.copy(), new.half_norms.copy()
    for start in range(0, len(rows), ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        counts = moments.counts_of(rows[block])
        places, mixed, mixed_bias = fitted.mixed(rows[block], counts, centre, weights[block], bias[block])
        weights[start + places], bias[start + places] = mixed, mixed_bias
        if searched:
            means = mixed @ fitted.covariance
            half_norms[start + places] = 0.5 * np.einsum("ij,ij->i", means, mixed)
    return NewRows(weights, bias, half_norms)


def _n_seen(moments: Moments, layer_rows: LayerRows | None) -> int:
    return moments.n_seen + (0 if layer_rows is None else layer_rows.n_unseen(moments.counts))


def _log_total(moments: Moments) -> float:
    return math.log(moments.total or 1.0)
