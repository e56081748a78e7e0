r"""Estimates of the moments of clean images from noisy ones, without a bias.

Where elements are corrupted independently, an estimate :math:`\hat x(z)` with
:math:`E[\hat x\mid x]=x` gives the mean of the statistics :math:`\varphi_i(x_i)` without a bias and
without a label: an edge :math:`|x_i-x_j|` by :math:`\hat x_i+\hat x_j-2\hat x_i\hat x_j`, x by
:math:`\hat x`, and :math:`l(z)^\top x` by the channel's `agreement`.

With entries missing at random, means of pixels, edges and pairs of pixels over the examples that
show them are estimated as if nothing were: the mean over examples of a product has no bias where
each factor was observed, for any pattern of missing pixels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from logsuper._base import FloatArray, IntArray, entry, first_index
from logsuper.bounds import NotApplicable
from logsuper.functions import Cut
from logsuper.learning._examples import Examples, Group, Moments, check_observed, in_pieces
from logsuper.learning._features import Context, Dense, Judged
from logsuper.learning._objective import Penalty, refuse_certainty
from logsuper.structures import Structure

# Estimates of that many pixels are kept; beyond, they are made anew for each batch.
_KEPT = 1 << 22


@dataclasses.dataclass(frozen=True, eq=False)
class EstimatedMoments:
    """Unbiased estimates of the moments of the clean images behind noisy ones.

    Called with a group and rows of it: the targets of an `Objective`. Each attribute has one array
    a group.

    Attributes
    ----------
    examples : Examples
    stats : list of ndarray of shape (N, K)
        Estimates of the functions.
    agreement : list of ndarray of shape (N,)
        Estimates of the agreement of the log-odds with x.
    pixels : list of ndarray of shape (n,)
        Mean estimate of each pixel, over the examples where it was observed.
    weights : list of ndarray of shape (n,)
        Factors on observed entries that make up for missing ones, with features; 0 if none can.
    kept : list of ndarray of shape (N, n) or None
        Estimates of x, where they are few enough to keep.
    shifts : list of ndarray of shape (P,)
        What the means of missing pixels leave out of the statistics of context.
    """

    examples: Examples
    stats: list[FloatArray]
    agreement: list[FloatArray]
    pixels: list[FloatArray]
    weights: list[FloatArray]
    kept: list[FloatArray | None]
    shifts: list[FloatArray]

    def __call__(self, group: Group, rows: IntArray) -> Moments:
        """Return the estimates for some examples of a group."""
        g = self._number(group)
        kept = self.kept[g]
        mean = self.clean(g, rows) if kept is None else kept[rows]
        return Moments(self.stats[g][rows], mean, self.agreement[g][rows])

    def shift(self, group: Group) -> FloatArray:
        """Return what to add to the statistics of each example, (P,)."""
        return self.shifts[self._number(group)]

    def statistics(self, group: Group, rows: IntArray) -> FloatArray:
        """Return the estimated statistics of some examples, (B, P)."""
        return self.examples.statistics(group, rows, self(group, rows)) + self.shift(group)

    def _number(self, group: Group) -> int:
        return next(i for i, other in enumerate(self.examples.groups) if other is group)

    def clean(self, g: int, rows: IntArray) -> FloatArray:
        """Return estimates of x whose mean over examples has no bias, also times given features.

        Where nothing was observed it is the mean over other examples, so that such an entry has no
        weight. With features it is 0, and observed entries make up for it if they can; for context,
        which is missing where the pixel is, they cannot, and `shift` does. A judge says itself what
        is to be expected there, unless it says nothing.
        """
        group = self.examples.groups[g]
        x = estimate(self.examples, group, rows)
        if isinstance(group.features, Judged) and np.isnan(x).any():
            inputs = group.inputs(rows, self.examples.log_odds(group, rows))
            said = group.features.said(inputs)
            guess = np.where(said == 0.0, self.pixels[g], expit(said))
            return np.where(np.isnan(x), guess, x)
        if not isinstance(group.features, Dense):
            return np.where(np.isnan(x), self.pixels[g], x)
        weights = self.weights[g]
        return np.where(np.isnan(x), np.where(weights > 0, 0.0, self.pixels[g]), x * weights)

    @property
    def inside(self) -> bool:
        r"""Whether the loss provably has a minimum without a regulariser.

        It is proved for cuts with at most a modular term that all pixels share: along a direction
        :math:`(d_\alpha\ge0,d_t)` the model's side of the loss grows like :math:`\max(0,n\,d_t)`,
        for constant images cut nothing. The moments' side grows less, whatever the direction, if
        every cut is positive on average and the number of ones between 0 and n.
        """
        groups, layout = self.examples.groups, self.examples.layout
        tilts = [t for group in groups for t in group.prepared.structure.tilts.values()]
        if layout.modular > 1 or layout.features or layout.scale:
            return False
        if any(t.any() for t in tilts):
            return False
        cuts = np.sum([stats.sum(axis=0) for stats in self.stats], axis=0)
        ones = sum(g.count * float(p.sum()) for g, p in zip(groups, self.pixels, strict=True))
        return bool(np.all(cuts > 0)) and (layout.modular == 0 or 0 < ones < self.examples.pixels)


def moment_targets(examples: Examples) -> EstimatedMoments:
    r"""Estimate the moments of clean images from noisy ones, without a bias.

    Parameters
    ----------
    examples : Examples
        With observations through a channel that says something about every pixel but leaves doubt,
        and functions that are sums of cuts and modular terms. Labels are not looked at. Features,
        and factors on edges, must not depend on the noise of the pixels they act on, else there is
        a bias: leave the pixel, or both ends of the edge, out of what they are made from, as
        ``context`` does. Nor may they tell whether those pixels were observed.

    Returns
    -------
    targets : EstimatedMoments
        The ``targets`` of an `Objective`.

    Notes
    -----
    Entries must be missing at random, whatever lies behind them, be it here and there or in blocks.
    A pixel takes its mean over the examples of its shape where it was observed, an edge likewise

    .. math:: \hat a_e=\frac{\sum_iw_{ie}o_{ie}\hat a_{ie}}{\sum_iw_{ie}o_{ie}},\qquad
        \hat a_{ie}=\hat x_{ic}+\hat x_{id}-2\hat x_{ic}\hat x_{id}

    over those i where both ends c and d were (:math:`o_{ie}=1`), by its weight in each; if factors
    on edges tell of x, the bias of a ratio remains, of order 1/N. What was never observed takes the
    mean over its shape, or over all shapes if nothing was. That one is right if entries are missing
    as often in one place as in another, which images with a shape of their own therefore need. The
    same goes for the products of a pixel with those of its context.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples, moment_targets
    >>> x = ls.make_silhouettes(40, shape=(20, 20), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> f = ls.grid_cuts((20, 20))
    >>> targets = moment_targets(make_examples(f, observed=z, channel=ls.Flips(0.1)))
    >>> clean = f[0](x.reshape(40, -1)).mean()
    >>> bool(abs(targets.stats[0][:, 0].mean() / clean - 1) < 0.1)
    True
    """
    check_observed(examples, "moments learns from")
    assert examples.channel is not None
    refuse_certainty(examples)
    for group in examples.groups:
        certain = ~np.isfinite(examples.channel.divergence(group.shape))
        if certain.any():
            pixel = entry("pixel", first_index(certain))
            raise ValueError(
                f"{examples.channel!r} can leave no doubt about {pixel}; moments needs noise: give "
                "the channel rates above 0"
            )
    pixels, weights, whole = mean_pixels(examples)
    stats, agreement, sums = zip(
        *(_mean_stats(examples, g, p, whole) for g, p in zip(examples.groups, pixels, strict=True)),
        strict=True,
    )
    if not whole:
        _fill_functions(stats, sums)
    kept: list[FloatArray | None] = [None] * len(pixels)
    shifts = [np.zeros(examples.layout.size) for _ in pixels]
    targets = EstimatedMoments(
        examples, list(stats), list(agreement), pixels, weights, kept, shifts
    )
    for g, group in enumerate(examples.groups):
        if group.count * group.prepared.n <= _KEPT:
            kept[g] = targets.clean(g, np.arange(group.count))
    if not whole:
        _fill_context(targets)
    return targets


def check_penalty(targets: EstimatedMoments, penalty: Penalty) -> None:
    """Refuse to learn without a regulariser, unless the moments provably need none."""
    if targets.inside:
        return
    for name, where in targets.examples.layout.blocks.items():
        if not (penalty.weights[where] > 0).all():
            raise ValueError(
                f"moments needs a penalty of {name} above 0: estimated moments can be those of no "
                "distribution, and the loss then has no minimum"
            )


# ------------------------------------------------------------------------------------------ inside


def _mean_stats(
    examples: Examples, group: Group, pixels: FloatArray, whole: bool
) -> tuple[FloatArray, FloatArray, _Sums]:
    """Return the estimates of the functions, (N, K), and of the agreement, (N,).

    Unless the observations are whole, missing entries take the means of pixels and edges.
    """
    structure = cuts_of(group)
    channel = examples.channel
    assert channel is not None
    edges, seen = ([], np.empty(0)) if whole else mean_edges(examples, group)
    cuts, weight, tilts = (np.zeros((group.count, structure.count)) for _ in range(3))
    agreement = np.zeros(group.count)
    for rows in group.pieces():
        x = estimate(examples, group, rows)
        agreement[rows] = channel.agreement(group.images(rows)).reshape(len(rows), -1).sum(axis=1)
        for k, at, cut, weights in weighted_cuts(structure, group.factors(rows)):
            apart = apart_of(cut, x)
            if not whole:
                apart = np.where(np.isnan(apart), edges[k][at], apart)
            weight[rows, k] += weights.sum(axis=1)
            cuts[rows, k] += np.einsum("be,be->b", np.broadcast_to(weights, apart.shape), apart)
        for k, tilt in structure.tilts.items():
            tilts[rows, k] = np.where(np.isnan(x), pixels, x) @ tilt
    # by way of the mean over the edges, which gives the very bits that older checkpoints have
    stats = weight * (cuts / np.where(weight > 0, weight, 1.0)) + tilts
    return stats, agreement, _Sums(weight, seen)


class _Sums(NamedTuple):
    """The weights of the edges of examples, (N, K), and what `mean_edges` has summed, (K, 2)."""

    weight: FloatArray
    seen: FloatArray


def _fill_functions(stats: Sequence[FloatArray], sums: Sequence[_Sums]) -> None:
    """Give a function without an observed edge in a shape the mean of its edges in others."""
    total, seen = np.sum([part.seen for part in sums], axis=0).T
    blind = (seen <= 0) & (np.sum([part.weight.sum(axis=0) for part in sums], axis=0) > 0)
    if blind.any():
        raise ValueError(
            f"functions[{int(blind.argmax())}] has no edge with both ends observed in any image; "
            "leave it out, or give images with fewer missing entries"
        )
    for stat, part in zip(stats, sums, strict=True):
        none = (part.seen[:, 1] <= 0) & (seen > 0)
        stat[:, none] += part.weight[:, none] * (total[none] / seen[none])


def _fill_context(targets: EstimatedMoments) -> None:
    """Shift the statistics of context to where missing pixels have their means in each pair."""
    examples, at = targets.examples, targets.examples.layout.blocks["beta"]
    found = {
        g: mean_context(examples, group, group.features)
        for g, group in enumerate(examples.groups)
        if isinstance(group.features, Context)
    }
    if not found:
        return
    total, both, _ = np.sum([sums for _, sums in found.values()], axis=0).T
    for g, (mean, sums) in found.items():
        group = examples.groups[g]
        none = (sums[:, 1] <= 0) & (both > 0)  # in this shape, but not in all
        mean[none] = sums[none, 2] * total[none] / both[none] / group.count
        filled = np.zeros(examples.layout.size)
        for rows in group.pieces():
            filled += len(rows) * examples.mean_statistics(group, rows, targets(group, rows))
        targets.shifts[g][at] = mean - filled[at] / group.count


# Number of neighbours whose sums are kept at a time, for a piece of pixels.
_NEIGHBOURS = 4


def estimate(examples: Examples, group: Group, rows: IntArray) -> FloatArray:
    """Return unbiased estimates of x, (B, n), NaN where nothing was observed."""
    assert examples.channel is not None
    return examples.channel.unbiased(group.images(rows)).reshape(len(rows), -1)


def mean_pixels(examples: Examples) -> tuple[list[FloatArray], list[FloatArray], bool]:
    """Return the means of the pixels, what to multiply observed ones with, and if all were."""
    groups, sums = examples.groups, []
    for group in groups:
        total, seen = np.zeros(group.prepared.n), np.zeros(group.prepared.n)
        for rows in group.pieces():
            x = estimate(examples, group, rows)
            total += np.nansum(x, axis=0)
            seen += (~np.isnan(x)).sum(axis=0)
        sums.append((total, seen))
    sizes = np.array([group.count * group.prepared.n for group in groups])
    every = np.array([seen.sum() for _, seen in sums])
    if sizes.any() and not every.any():
        raise ValueError("observed has nothing but missing entries; give images with some others")
    overall = sum(float(total.sum()) for total, _ in sums) / max(every.sum(), 1.0)
    pixels = [_means(total, seen, overall) for total, seen in sums]
    weights = [
        group.count / np.maximum(seen, 1.0) for group, (_, seen) in zip(groups, sums, strict=True)
    ]
    if examples.layout.modular > 1:
        weights[0][sums[0][1] == 0] = 0.0  # its own field, which no other pixel informs
    else:
        # the share of pixels and groups that were never observed goes to the others
        share = sizes.sum() / max(sizes[every > 0].sum(), 1)
        for factor, (_, seen) in zip(weights, sums, strict=True):
            factor *= share * len(seen) / max(np.count_nonzero(seen), 1)
    return pixels, weights, bool((every == sizes).all())


def mean_edges(examples: Examples, group: Group) -> tuple[list[FloatArray], FloatArray]:
    r"""Return the means :math:`\hat a_e` over the edges of each function.

    Beside them the sums over examples and edges of :math:`wo\hat a` and of :math:`wo`, (K, 2). The
    means are 0 for a function that has none.
    """
    structure = cuts_of(group)
    sizes = [0] * structure.count
    for k, _, cut in structure.cuts:
        sizes[k] += len(cut.weights)
    sums = [np.zeros((2, size)) for size in sizes]
    for rows in group.pieces():
        x = estimate(examples, group, rows)
        for k, at, cut, weights in weighted_cuts(structure, group.factors(rows)):
            apart = apart_of(cut, x)
            known = ~np.isnan(apart)
            weights = np.broadcast_to(weights, apart.shape)
            sums[k][0, at] += np.einsum("be,be->e", weights, np.where(known, apart, 0.0))
            sums[k][1, at] += np.einsum("be,be->e", weights, known)
    return [_means(*part) for part in sums], np.array([part.sum(axis=1) for part in sums])


def mean_context(
    examples: Examples, group: Group, features: Context
) -> tuple[FloatArray, FloatArray]:
    r"""Return the mean statistics of the context of a group, (p,).

    A neighbour's :math:`\tau_{id'}=\tanh(l_{id'}/2)` times :math:`x_{id}` is wanted in all examples
    that show the neighbour, and known in those that show the pixel, too: where neighbours are
    missing together, those show more of its surroundings.

    Beside them the sums over examples and pixels of :math:`oo'\tau\hat x`, :math:`oo'` and
    :math:`o'`, (p, 3). The statistics are 0 for a neighbour that is never seen with the pixel.
    """
    places, found, sums = list(features._places()), [], []
    for piece in in_pieces(np.arange(len(places)), group.prepared.n // _NEIGHBOURS):
        some = [places[k] for k in piece]
        total, both, wanted = _context_sums(examples, group, features, some)
        for of_pixels in zip(total, both, wanted, strict=True):
            mean = _means(of_pixels[0], of_pixels[1])
            found.append(float(np.sum(mean * of_pixels[2])) / group.count)
            sums.append([float(part.sum()) for part in of_pixels])
    return np.array(found), np.array(sums)


def _context_sums(
    examples: Examples, group: Group, features: Context, places: list[tuple[slice, ...]]
) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """Return the sums over examples of o o' tau x, o o' and o' for some neighbours."""
    total, both = np.zeros((2, len(places), *features._size))
    wanted: FloatArray = np.zeros(())
    for rows in group.pieces():
        x = estimate(examples, group, rows).reshape(-1, *features._size)
        known = ~np.isnan(x)
        x, one = np.where(known, x, 0.0), known.astype(np.float64)
        tau = features._padded(examples.log_odds(group, rows))
        seen = features._padded(np.where(known, np.inf, 0.0).reshape(len(rows), -1))
        for k, place in enumerate(places):
            total[k] += np.einsum("izyx,izyx->zyx", tau[place], x)
            both[k] += np.einsum("izyx,izyx->zyx", seen[place], one)
        wanted = wanted + seen.sum(axis=0, keepdims=True)
    return total, both, [wanted[place][0] for place in places]


def _means(total: FloatArray, seen: FloatArray, otherwise: float = 0.0) -> FloatArray:
    """Return total / seen; where nothing was, that of all, or `otherwise` if nothing was at all."""
    every = float(seen.sum())
    overall = float(total.sum()) / every if every > 0 else otherwise
    return np.where(seen > 0, total / np.where(seen > 0, seen, 1.0), overall)


def cuts_of(group: Group) -> Structure:
    """Return the structure of the functions of a group, which must be sums of cuts."""
    structure = group.prepared.structure
    if structure.others:
        f = group.prepared.functions[structure.others[0][0]]
        raise NotApplicable(f"moments needs functions that are sums of cuts, got {f!r}")
    return structure


def apart_of(cut: Cut, x: FloatArray) -> FloatArray:
    """Return estimates of the cut's |x_i - x_j|, (B, E), NaN where an end was not observed."""
    first, second = cut._gather(x)
    return first + second - 2.0 * first * second


def weighted_cuts(
    structure: Structure, factors: FloatArray | None
) -> Iterator[tuple[int, slice, Cut, FloatArray]]:
    """Yield every cut and the weights of its edges, (1 or B, E).

    Before them the number of its function, and where its edges are among those of the function.
    """
    begin = [0] * structure.count
    for (k, factor, cut), place in zip(structure.cuts, structure.cut_places, strict=True):
        weights = (factor * cut.weights)[None]
        if factors is not None:
            weights = weights * (factors[:, k, place] if factors.ndim == 3 else factors[:, place])
        yield k, slice(begin[k], begin[k] + len(place)), cut, weights
        begin[k] += len(place)
