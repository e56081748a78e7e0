r"""Learning from noisy observations alone, by the supervised likelihood of estimated moments.

The loss of labelled examples (section 4.3 of the paper), :math:`A_i(\theta)-\theta^\top
\varphi_i(x_i)`, needs of the labels only the mean of :math:`\varphi_i(x_i)`. Where elements are
corrupted independently, an estimate :math:`\hat x(z)` with :math:`E[\hat x\mid x]=x` gives all of
that mean without a bias and without a label: an edge :math:`|x_i-x_j|` by :math:`\hat x_i+\hat x_j
-2\hat x_i\hat x_j`, x by :math:`\hat x`, and :math:`l(z)^\top x` by the channel's `agreement`. So
the problem stays the convex supervised one.

Estimated moments may be those of no distribution; the loss then has no lower bound, and only a
regulariser keeps the parameters finite.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from logsuper._random import Seed, as_generator, as_keys
from logsuper.bounds._draws import check_choice
from logsuper.bounds._errors import NotApplicable
from logsuper.functions import Cut
from logsuper.functions._checks import FloatArray, IntArray, entry, first_index
from logsuper.learning._checkpoint import check_seed
from logsuper.learning._descent import Path, descend, draws_of
from logsuper.learning._engines import FreshNoise
from logsuper.learning._exact import Exact, fit_exactly
from logsuper.learning._examples import Examples, Group, Moments
from logsuper.learning._learned import Callback, Learned
from logsuper.learning._objective import Objective, refuse_certainty
from logsuper.learning._penalty import Penalty
from logsuper.solvers._graph import Parts, split, union_of_edges
from logsuper.solvers._inputs import check_integer

__all__ = ["EstimatedMoments", "moment_targets", "moments"]

# Estimates of that many pixels are kept; beyond, they are made anew for each batch.
_KEPT = 1 << 22
# Pixels of a block while the moments of all examples are estimated.
_BLOCK = 1 << 20


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
    """

    examples: Examples
    stats: list[FloatArray]
    agreement: list[FloatArray]
    pixels: list[FloatArray]
    weights: list[FloatArray]
    kept: list[FloatArray | None]

    def __call__(self, group: Group, rows: IntArray) -> Moments:
        """Return the estimates for some examples of a group."""
        g = next(i for i, other in enumerate(self.examples.groups) if other is group)
        kept = self.kept[g]
        mean = self.clean(g, rows) if kept is None else kept[rows]
        return Moments(self.stats[g][rows], mean, self.agreement[g][rows])

    def clean(self, g: int, rows: IntArray) -> FloatArray:
        """Return estimates of x whose mean over examples has no bias, also times features.

        Where nothing was observed it is the mean over other examples, so that such an entry has no
        weight. With features it is 0, and observed entries make up for it if they can.
        """
        group = self.examples.groups[g]
        x = _estimate(self.examples, group, rows)
        if group.features is None:
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
        parts = [split(f) for group in groups for f in group.prepared.functions]
        if layout.modular > 1 or layout.features or layout.scale:
            return False
        if any(part.tilt is not None and part.tilt.any() for part in parts):
            return False
        cuts = np.sum([stats.sum(axis=0) for stats in self.stats], axis=0)
        ones = sum(g.count * float(p.sum()) for g, p in zip(groups, self.pixels, strict=True))
        size = sum(g.count * g.prepared.n for g in groups)
        return bool(np.all(cuts > 0)) and (layout.modular == 0 or 0 < ones < size)


def moment_targets(examples: Examples) -> EstimatedMoments:
    r"""Estimate the moments of clean images from noisy ones, without a bias.

    Parameters
    ----------
    examples : Examples
        With observations through a channel that says something about every pixel but leaves doubt,
        and functions that are sums of cuts and modular terms. Labels are not looked at. Features,
        and factors on edges, must not depend on the noise of the pixels they act on, else there is
        a bias: leave the pixel, or both ends of the edge, out of what they are made from, as
        ``context`` does.

    Returns
    -------
    targets : EstimatedMoments
        The ``targets`` of an `Objective`.

    Notes
    -----
    Entries must be missing at random, whatever lies behind them, be it here and there or in blocks.
    A pixel takes its mean over the examples of its shape where it was observed, an edge likewise

    .. math:: \hat a_e=\sum_iw_{ie}o_{ie}\hat a_{ie}\Big/\sum_iw_{ie}o_{ie},\qquad
        \hat a_{ie}=\hat x_{ic}+\hat x_{id}-2\hat x_{ic}\hat x_{id}

    over those i where both ends c and d were (:math:`o_{ie}=1`), by its weight in each; if factors
    on edges tell of x, the bias of a ratio remains, of order 1/N. What was never observed takes the
    mean over its shape, or over all shapes if nothing was. That one is right if entries are missing
    as often in one place as in another, which images with a shape of their own therefore need.

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import make_examples
    >>> from logsuper.learning._moments import moment_targets
    >>> x = ls.make_silhouettes(40, shape=(20, 20), seed=0)
    >>> z = ls.Flips(0.1).sample(x, seed=1)
    >>> f = ls.grid_cuts((20, 20))
    >>> targets = moment_targets(make_examples(f, observed=z, channel=ls.Flips(0.1)))
    >>> clean = f[0](x.reshape(40, -1)).mean()
    >>> bool(abs(targets.stats[0][:, 0].mean() / clean - 1) < 0.1)
    True
    """
    if examples.channel is None or any(group.observed is None for group in examples.groups):
        raise ValueError("moments learns from observations; give observed and its channel")
    refuse_certainty(examples)
    for group in examples.groups:
        certain = ~np.isfinite(examples.channel.divergence(group.shape))
        if certain.any():
            pixel = entry("pixel", first_index(certain))
            raise ValueError(
                f"{examples.channel!r} can leave no doubt about {pixel}; moments needs noise: give "
                "the channel rates above 0"
            )
    pixels, weights, whole = _mean_pixels(examples)
    edges = None if whole else _mean_edges(examples)
    stats, agreement = zip(
        *(
            _mean_stats(examples, group, pixels[g], None if edges is None else edges[g])
            for g, group in enumerate(examples.groups)
        ),
        strict=True,
    )
    kept: list[FloatArray | None] = [None] * len(pixels)
    targets = EstimatedMoments(examples, list(stats), list(agreement), pixels, weights, kept)
    for g, group in enumerate(examples.groups):
        if group.count * group.prepared.n <= _KEPT:
            kept[g] = targets.clean(g, np.arange(group.count))
    return targets


def moments(
    examples: Examples,
    penalty: Penalty,
    *,
    start: FloatArray | None = None,
    seed: Seed = 0,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    tol: float = 1e-3,
    max_steps: int = 10_000,
    method: str = "logistic",
    samples: int | None = None,
    batch: int | None = None,
    checkpoint: Path | None = None,
) -> Learned:
    """Learn from noisy observations alone, by estimated moments.

    Parameters
    ----------
    examples : Examples
        With observations; see `moment_targets` for what they and the functions must be. No
        feature of a pixel may depend on the noise of that pixel, no factor of an edge on that of
        its ends: the moments would be biased.
    penalty : Penalty
        Above 0 for every parameter, because estimated moments can be those of no distribution. It
        may be 0 where they provably are not: for cuts, with at most one modular term for all
        pixels, if the estimates allow it. Estimates are noisier than labels: a penalty of the
        modular term of 30 over the number of images does where 3 would with labels.
    start, callback, tol, max_steps
        As in `descend`; for "exact" as in `exact`, with at most `max_steps` iterations.
    seed : int, Generator or None
    n_jobs : int, optional
        Threads; it never changes the result.
    method : {"logistic", "exact"}
        The log-partition function of the model: its logistic bound, by stochastic descent; or what
        `exact` takes, by L-BFGS.
    samples : int, optional
        Perturbations of each example of a step, for "logistic"; by default five of small images,
        one of large ones.
    batch, checkpoint
        As in `descend`, for "logistic".

    Returns
    -------
    Learned

    Examples
    --------
    >>> import logsuper as ls
    >>> from logsuper.learning import Penalty, make_examples
    >>> from logsuper.learning._moments import moments
    >>> z = ls.Flips(0.1).sample(ls.make_silhouettes(30, shape=(16, 16), seed=0), seed=1)
    >>> data = make_examples(
    ...     ls.grid_cuts((16, 16)), observed=z, channel=ls.Flips(0.1), scale=True
    ... )
    >>> penalty = Penalty.of(data.layout, alpha=1e-4, modular=1.0, scale=1e-4)
    >>> fit = moments(data, penalty, tol=1e-2)
    >>> fit.converged, bool((fit.parameters.alpha > 0.5).all())
    (True, True)
    """
    check_choice(method, "method", ("logistic", "exact"))
    if checkpoint is not None and method == "exact":
        raise ValueError("checkpoint is for method='logistic'; L-BFGS keeps none")
    check_seed(checkpoint, seed)
    count = check_integer(draws_of(examples) if samples is None else samples, "samples", 1, 2**31)
    rng = as_generator(seed)
    keys = as_keys(rng, 2)
    targets = moment_targets(examples)
    check_penalty(targets, penalty)
    if method == "exact":
        return fit_exactly(
            Objective(examples, Exact(n_jobs=n_jobs), targets),
            penalty,
            start=start,
            callback=callback,
            tol=tol,
            max_iterations=max_steps,
        )
    return descend(
        Objective(examples, FreshNoise(count, keys[0], n_jobs), targets),
        penalty,
        start=start,
        seed=rng,
        callback=callback,
        tol=tol,
        max_steps=max_steps,
        batch=batch,
        estimate=FreshNoise(2, keys[1], n_jobs),
        checkpoint=checkpoint,
    )


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


def _blocks(group: Group) -> Iterator[IntArray]:
    """Split the examples of a group so that the estimates of a block need little memory."""
    size = max(1, _BLOCK // max(group.prepared.n, 1))
    for start in range(0, group.count, size):
        yield np.arange(start, min(start + size, group.count))


def _estimate(examples: Examples, group: Group, rows: IntArray) -> FloatArray:
    """Return unbiased estimates of x, (B, n), NaN where nothing was observed."""
    assert examples.channel is not None
    return examples.channel.unbiased(_images(group, rows)).reshape(len(rows), -1)


def _images(group: Group, rows: IntArray) -> FloatArray:
    return group.read_observed(rows).reshape(-1, *group.shape)


def _mean_pixels(examples: Examples) -> tuple[list[FloatArray], list[FloatArray], bool]:
    """Return the means of the pixels, what to multiply observed ones with, and if all were."""
    groups, sums = examples.groups, []
    for group in groups:
        total, seen = np.zeros(group.prepared.n), np.zeros(group.prepared.n)
        for rows in _blocks(group):
            x = _estimate(examples, group, rows)
            total += np.nansum(x, axis=0)
            seen += (~np.isnan(x)).sum(axis=0)
        sums.append((total, seen))
    sizes = np.array([group.count * group.prepared.n for group in groups])
    every = np.array([seen.sum() for _, seen in sums])
    if sizes.any() and not every.any():
        raise ValueError("observed has nothing but missing entries; give images with some others")
    pixels = _means(sums)
    weights = [
        group.count / np.maximum(seen, 1.0) for group, (_, seen) in zip(groups, sums, strict=True)
    ]
    if examples.layout.modular > 1:
        weights[0][sums[0][1] == 0] = 0.0  # a field of its own, which no other pixel makes up for
    else:
        # pixels and whole groups that were never seen leave their share to the others
        share = sizes.sum() / max(sizes[every > 0].sum(), 1)
        for factor, (_, seen) in zip(weights, sums, strict=True):
            factor *= share * len(seen) / max(np.count_nonzero(seen), 1)
    return pixels, weights, bool((every == sizes).all())


def _mean_edges(examples: Examples) -> list[list[FloatArray]]:
    r"""Return the means :math:`\hat a_e` over the edges of each function of each group."""
    sums = [_edge_sums(examples, group) for group in examples.groups]
    means = []
    for k, of_groups in enumerate(zip(*sums, strict=True)):
        _, seen, whole = (
            sum(float(part.sum()) for part in parts) for parts in zip(*of_groups, strict=True)
        )
        if whole > 0 and not seen > 0:
            raise ValueError(
                f"functions[{k}] has no edge with both ends observed in any image; leave it out, "
                "or give images with fewer missing entries"
            )
        means.append(_means([(total, part) for total, part, _ in of_groups]))
    return [list(of_group) for of_group in zip(*means, strict=True)]


def _edge_sums(examples: Examples, group: Group) -> list[FloatArray]:
    """Return the sums over examples of w o a, w o and w for each function, (3, E)."""
    parts, places = _split(group)
    sums = [np.zeros((3, sum(len(cut.weights) for _, cut in part.cuts))) for part in parts]
    for rows in _blocks(group):
        x = _estimate(examples, group, rows)
        for k, at, cut, weights in _weighted_cuts(parts, places, group.factors(rows)):
            apart = _apart(cut, x)
            known = ~np.isnan(apart)
            weights = np.broadcast_to(weights, apart.shape)
            sums[k][0, at] += np.einsum("be,be->e", weights, np.where(known, apart, 0.0))
            sums[k][1, at] += np.einsum("be,be->e", weights, known)
            sums[k][2, at] += weights.sum(axis=0)
    return sums


def _means(sums: list[tuple[FloatArray, FloatArray]]) -> list[FloatArray]:
    """Return total / seen of each group; where nothing was, of all of it, or of all groups."""

    def ratio(total: FloatArray, seen: FloatArray, otherwise: FloatArray) -> FloatArray:
        return np.where(seen > 0, total / np.where(seen > 0, seen, 1.0), otherwise)

    of_groups = [(total.sum(), seen.sum()) for total, seen in sums]
    total, seen = np.sum(of_groups, axis=0)
    overall = ratio(total, seen, np.zeros(()))
    return [
        ratio(total, seen, ratio(*of_group, overall))
        for (total, seen), of_group in zip(sums, of_groups, strict=True)
    ]


def _mean_stats(
    examples: Examples, group: Group, pixels: FloatArray, edges: list[FloatArray] | None
) -> tuple[FloatArray, FloatArray]:
    """Return the estimates of the functions, (N, K), and of the agreement, (N,).

    Missing entries take the means `pixels` and `edges`; the latter are None if there are none.
    """
    parts, places = _split(group)
    channel = examples.channel
    assert channel is not None
    cuts, whole, tilts = (np.zeros((group.count, len(parts))) for _ in range(3))
    agreement = np.zeros(group.count)
    for rows in _blocks(group):
        x = _estimate(examples, group, rows)
        agreement[rows] = channel.agreement(_images(group, rows)).reshape(len(rows), -1).sum(axis=1)
        for k, at, cut, weights in _weighted_cuts(parts, places, group.factors(rows)):
            apart = _apart(cut, x)
            if edges is not None:
                apart = np.where(np.isnan(apart), edges[k][at], apart)
            whole[rows, k] += weights.sum(axis=1)
            cuts[rows, k] += np.einsum("be,be->b", np.broadcast_to(weights, apart.shape), apart)
        for k, part in enumerate(parts):
            if part.tilt is not None:
                tilts[rows, k] = np.where(np.isnan(x), pixels, x) @ part.tilt
    # by way of the mean over the edges, which gives the very bits that older checkpoints have
    return whole * (cuts / np.where(whole > 0, whole, 1.0)) + tilts, agreement


def _split(group: Group) -> tuple[list[Parts], IntArray | None]:
    """Return the cuts and modular terms of the functions, and the places of the cuts' factors."""
    parts = [split(f) for f in group.prepared.functions]
    for f, part in zip(group.prepared.functions, parts, strict=True):
        if part.other is not None:
            raise NotApplicable(f"moments needs functions that are sums of cuts, got {f!r}")
    if group.edge_weights is None:
        return parts, None
    return parts, union_of_edges(group.prepared.n, parts)[1]


def _apart(cut: Cut, x: FloatArray) -> FloatArray:
    """Return estimates of the cut's |x_i - x_j|, (B, E), NaN where an end was not observed."""
    first, second = cut._gather(x)
    return first + second - 2.0 * first * second


def _weighted_cuts(
    parts: list[Parts], places: IntArray | None, factors: FloatArray | None
) -> Iterator[tuple[int, slice, Cut, FloatArray]]:
    """Yield every cut and the weights of its edges, (1 or B, E).

    Before them the number of its function, and where its edges are among those of the function.
    """
    at = 0
    for k, part in enumerate(parts):
        begin = 0
        for weight, cut in part.cuts:
            size = len(cut.weights)
            weights = (weight * cut.weights)[None]
            if places is not None and factors is not None:
                place = places[at : at + size]
                weights = weights * (
                    factors[:, k, place] if factors.ndim == 3 else factors[:, place]
                )
            yield k, slice(begin, begin + size), cut, weights
            at += size
            begin += size
