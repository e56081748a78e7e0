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
from logsuper.functions._checks import FloatArray, IntArray
from logsuper.learning._checkpoint import check_seed
from logsuper.learning._descent import Path, descend, draws_of
from logsuper.learning._engines import FreshNoise
from logsuper.learning._exact import Exact, fit_exactly
from logsuper.learning._examples import Examples, Group, Moments
from logsuper.learning._learned import Callback, Learned
from logsuper.learning._objective import Objective
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
        What stands for missing entries in sums over observed ones, with features.
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
        weight. With features it is 0, and observed entries make up for it.
        """
        group = self.examples.groups[g]
        x = _estimate(self.examples, group, rows)
        if group.features is None:
            return np.where(np.isnan(x), self.pixels[g], x)
        return np.where(np.isnan(x), 0.0, x * self.weights[g])

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
        and functions that are sums of cuts and modular terms. Labels are not looked at.

    Returns
    -------
    targets : EstimatedMoments
        The ``targets`` of an `Objective`.

    Notes
    -----
    Entries must be missing at random. An edge counts where both of its ends were observed; the sum
    over those of an example is divided by their share of the weight of all of its edges.

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
    pixels, weights = zip(*(_mean_pixels(examples, g) for g in examples.groups), strict=True)
    stats, agreement = zip(
        *(_mean_stats(examples, g, p) for g, p in zip(examples.groups, pixels, strict=True)),
        strict=True,
    )
    kept: list[FloatArray | None] = [None] * len(pixels)
    targets = EstimatedMoments(
        examples, list(stats), list(agreement), list(pixels), list(weights), kept
    )
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
        With observations; see `moment_targets` for what they and the functions must be.
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


def _mean_pixels(examples: Examples, group: Group) -> tuple[FloatArray, FloatArray]:
    """Return the mean estimate of each pixel, and what to multiply the observed ones with."""
    total, seen = np.zeros(group.prepared.n), np.zeros(group.prepared.n)
    for rows in _blocks(group):
        x = _estimate(examples, group, rows)
        total += np.nansum(x, axis=0)
        seen += (~np.isnan(x)).sum(axis=0)
    every = seen.sum()
    if group.prepared.n and not every:
        raise ValueError(f"observed has nothing but missing entries in images of {group.shape}")
    pixels = np.where(seen > 0, total / np.maximum(seen, 1.0), total.sum() / max(every, 1.0))
    if examples.layout.modular > 1:
        return pixels, group.count / np.maximum(seen, 1.0)
    return pixels, np.full(len(seen), group.count * len(seen) / max(every, 1.0))


def _mean_stats(
    examples: Examples, group: Group, pixels: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the estimates of the functions, (N, K), and of the agreement, (N,)."""
    parts = [split(f) for f in group.prepared.functions]
    for f, part in zip(group.prepared.functions, parts, strict=True):
        if part.other is not None:
            raise NotApplicable(f"moments needs functions that are sums of cuts, got {f!r}")
    places = None
    if group.edge_weights is not None:
        places = union_of_edges(group.prepared.n, parts)[1]
    _refuse_certainty(examples, group)
    channel = examples.channel
    assert channel is not None
    cuts, seen, whole, tilts = (np.zeros((group.count, len(parts))) for _ in range(4))
    agreement = np.zeros(group.count)
    for rows in _blocks(group):
        x = _estimate(examples, group, rows)
        known = ~np.isnan(x)
        x = np.where(known, x, pixels)
        agreement[rows] = channel.agreement(_images(group, rows)).reshape(len(rows), -1).sum(axis=1)
        mask = None if known.all() else known.astype(np.float64)
        for k, part in enumerate(parts):
            if part.tilt is not None:
                tilts[rows, k] = x @ part.tilt
        for k, cut, weights in _weighted_cuts(parts, places, group.factors(rows)):
            first, second = cut._gather(x)
            apart = first + second - 2.0 * first * second
            total = weights.sum(axis=1)
            whole[rows, k] += total
            if mask is not None:
                first, second = cut._gather(mask)
                weights = weights * first * second
                total = weights.sum(axis=1)
            cuts[rows, k] += np.einsum("be,be->b", np.broadcast_to(weights, apart.shape), apart)
            seen[rows, k] += total
    return _scale_up(cuts, seen, whole) + tilts, agreement


def _refuse_certainty(examples: Examples, group: Group) -> None:
    """Raise where an observation leaves no doubt, or could."""
    assert examples.channel is not None
    certain = ~np.isfinite(examples.channel.divergence(group.shape).ravel())
    for rows in _blocks(group):
        certain |= np.isinf(examples.log_odds(group, rows)).any(axis=0)
    if certain.any():
        raise ValueError(
            f"{examples.channel!r} can leave no doubt about pixel {int(certain.argmax())}; moments "
            "needs noise"
        )


def _weighted_cuts(
    parts: list[Parts], places: IntArray | None, factors: FloatArray | None
) -> Iterator[tuple[int, Cut, FloatArray]]:
    """Yield every cut, the number of its function and the weights of its edges, (1 or B, E)."""
    at = 0
    for k, part in enumerate(parts):
        for weight, cut in part.cuts:
            weights = (weight * cut.weights)[None]
            if places is not None and factors is not None:
                place = places[at : at + len(cut.weights)]
                weights = weights * (
                    factors[:, k, place] if factors.ndim == 3 else factors[:, place]
                )
                at += len(cut.weights)
            yield k, cut, weights


def _scale_up(cuts: FloatArray, seen: FloatArray, whole: FloatArray) -> FloatArray:
    """Divide by the share of the weight that was seen; an example without any has the mean one."""
    blind = (seen.sum(axis=0) <= 0) & (whole.sum(axis=0) > 0)
    if blind.any():
        raise ValueError(
            f"functions[{int(blind.argmax())}] has no edge with both ends observed, in no image"
        )
    some = seen > 0
    mean = cuts.sum(axis=0) / np.maximum(seen.sum(axis=0), np.finfo(float).tiny)
    return whole * np.where(some, cuts / np.where(some, seen, 1.0), mean)
