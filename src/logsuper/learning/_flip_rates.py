r"""Estimated flip rates: those for which the clean images are smooth.

Let f be the shares of the classes of noisy pixels (`_neighbourhoods`), and K(a, b) the matrix that
takes the shares of clean classes to them when zeros are flipped at the rate a and ones at b. Its
inverse is the same matrix at :math:`(-a,-b)/(1-a-b)`, so that :math:`c=K^{-1}f` estimates the clean
shares without a bias, if the rates are right. Clean images have nearly no single pixels, and few
ends, corners and thin lines. The right rates are those at which the shares of such patterns nearly
vanish.

The rarer a pattern is, the noisier is its estimated share, above all at large rates; so several of
them are used, less rare ones too. Their clean shares :math:`q_g` are about proportional to the
share r of pixels in thin places, for all kinds of shapes: :math:`q_g=(\mu_g\pm\sigma_g)\,r`. With N
pixels, h the share of neighbours that differ, and C the covariance of a pixel's part of c,

.. math::

    c_g(a, b)=\mu_g r+\varepsilon_g,\qquad
    \operatorname{Cov}\varepsilon=C/N+\operatorname{diag}(\sigma_g^2)\,r^2,\qquad r\sim(0\pm\rho h)

is linear near the right rates. It is solved for them by generalised least squares, and the model
error :math:`\sigma` is in the weights and in the error bar. The constants :math:`\mu,\sigma,\rho`
were measured on shapes that are not used in any test (``python -m benchmarks.noise_rate
--train`` prints them).

Clean images with many single pixels, or flips in clumps, violate the assumption: the remaining
patterns do not have the proportions of shapes (`Fit.texture`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from logsuper._base import FloatArray, IntArray
from logsuper.learning._neighbourhoods import Neighbourhood

LARGEST = 0.45
"""No rate above this is returned: the images would be pure noise."""


class _Prior(NamedTuple):
    """Clean shares of patterns, in units of the share of pixels in thin places.

    Attributes
    ----------
    mean, spread : tuple of float
        Of each pattern, between kinds of shapes.
    limit : float
        Upper limit, for most shapes, of thin places per neighbour that differs.
    texture : tuple of float
        What an Ising field just above its critical temperature has beyond the roughest shapes, as a
        share of the neighbours that differ.
    """

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    limit: float
    texture: tuple[float, ...]


# By the kind of the neighbourhood and its number of pairs (three stand for more), with patterns in
# the order of `_patterns`. The first one is the unit.
_PRIORS = {
    ("box", 4): _Prior(
        (1.0, 0.009, 0.10, 0.47, 0.001, 0.56, 1.9),
        (0.0, 0.006, 0.07, 0.25, 0.002, 0.16, 0.6),
        0.17,
        (0.15, 0.044, 0.061, 0.058, 0.0, 0.10, 0.015),
    ),
    ("cross", 2): _Prior((1.0, 0.08, 1.4), (0.0, 0.08, 0.3), 0.15, ()),
    ("cross", 3): _Prior((1.0, 0.004, 0.13), (0.0, 0.004, 0.05), 0.12, ()),
    ("chain", 1): _Prior((1.0,), (0.0,), 0.15, ()),
    ("chain", 2): _Prior((1.0, 0.24, 0.9), (0.0, 0.04, 0.1), 0.15, ()),
}
# Windows of one colour, of all, when a share h of neighbours differs: 1 - 3 h, and at least this.
_EDGES, _FEWEST_FLAT = 3.0, 0.25
_SMALL = 1e-6
_RIDGE = 1e-9
_STEPS, _FREE = 60, 20
_CLOSE = 1e-9
# The largest step, as a share of the distance to a rate of 0 or .5, in the first `_FREE` steps.
_STRIDE = 0.3
_DIFFERENCE = 1e-5
# Larger than the variance of any rate: what is not known at all.
_VAGUE = 1e2


class Fit(NamedTuple):
    """Rates, and what their errors are computed from.

    Attributes
    ----------
    on, off : float
    scores : list of ndarray of shape (P, classes)
        What a pixel of each class adds to the error of the P rates, for each table.
    noise : ndarray of shape (P, P)
        Covariance of the rates as if pixels had no neighbour in common.
    model : ndarray of shape (P, P)
        Covariance due to clean images that are less smooth than most.
    texture : float
        How much the patterns that are left are those of texture rather than of shapes.
    texture_scores : list of ndarray of shape (1, classes)
        What a pixel of each class adds to it.
    texture_model : float
        Its variance between kinds of shapes.
    """

    on: float
    off: float
    scores: list[FloatArray]
    noise: FloatArray
    model: FloatArray
    texture: float
    texture_scores: list[FloatArray]
    texture_model: float


class _Design(NamedTuple):
    """The patterns of a neighbourhood as sums of classes, and their prior.

    Attributes
    ----------
    sums : ndarray of shape (G, classes)
    thin, unlike, ones : ndarray of shape (classes,)
        The share of pairs that both differ from the pixel, the share of neighbours that differ, and
        whether the pixel is 1.
    flat : ndarray of shape (2, classes)
        Whether the pixel and all of its neighbours are 0, and whether they are 1.
    mean, spread : ndarray of shape (G,)
    blocks : list of slice
        The patterns that have a share of thin places in common: all, or those of one colour.
    limit : float
    texture : ndarray of shape (G,)
    """

    sums: FloatArray
    thin: FloatArray
    unlike: FloatArray
    ones: FloatArray
    flat: FloatArray
    mean: FloatArray
    spread: FloatArray
    blocks: list[slice]
    limit: float
    texture: FloatArray


def fit_rates(tables: dict[Neighbourhood, IntArray], asymmetric: bool = False) -> Fit:
    """Estimate the rates from counts of the classes of noisy pixels.

    Parameters
    ----------
    tables : dict of Neighbourhood to ndarray of shape (classes,)
        Of disjoint sets of pixels, at least one set, and none of them empty.
    asymmetric : bool
        Whether there are two rates, P = 2, or one.
    """
    together = _solve([_Table.of(*pair, False) for pair in tables.items()], None)
    if not asymmetric:
        return together
    return _solve([_Table.of(*pair, True) for pair in tables.items()], together.on)


def clean_shares(table: IntArray, around: Neighbourhood) -> tuple[FloatArray, float]:
    """Return the shares of the patterns of clean pixels, and of neighbours that differ."""
    design = _design(around, False)
    shares = table / table.sum()
    return design.sums @ shares, float(design.unlike @ shares)


def flat_pixels(tables: dict[Neighbourhood, IntArray], rate: float) -> FloatArray:
    """Return how many clean pixels are surely 0, and 1, like all of their neighbours, (2,).

    That is the estimate less three of its standard errors.
    """
    found, square = np.zeros(2), np.zeros(2)
    for around, table in tables.items():
        decode = _decode(_design(around, False).flat, rate, rate, len(around.pairs))
        found += decode @ table
        square += decode**2 @ table
    return found - 3.0 * np.sqrt(square)


# ----------------------------------------------------------------------- generalised least squares


class _Table(NamedTuple):
    """The shares of the classes of noisy pixels, and the number of pixels."""

    design: _Design
    pairs: int
    shares: FloatArray
    size: int

    @classmethod
    def of(cls, around: Neighbourhood, counts: IntArray, asymmetric: bool) -> _Table:
        """Return the table of some counts."""
        size = counts.sum()
        return cls(_design(around, asymmetric), len(around.pairs), counts / size, int(size))


def _solve(tables: list[_Table], start: float | None) -> Fit:
    """Return the rates at which the weighted shares of the patterns vanish."""
    one = start is None
    if start is None:
        # of like pixels, a share rate (1 - rate) lies between two that differ
        thin = [table.design.thin @ table.shares for table in tables]
        mean = float(np.average(thin, weights=[table.size for table in tables]))
        start = 0.5 * (1.0 - math.sqrt(max(1.0 - 4.0 * mean, 0.0)))
    rates = np.full(2, min(start, LARGEST))
    rough = [np.zeros(len(table.design.blocks)) for table in tables]
    for k in range(_STEPS):
        terms = [_linearise(*pair, rates, one) for pair in zip(tables, rough, strict=True)]
        rough = [term.rough for term in terms]
        weighted = [term.slope.T @ _invert(term.covariance) for term in terms]
        information = [w @ term.slope for w, term in zip(weighted, terms, strict=True)]
        spread = _invert(np.sum(information, axis=0))
        weights = [spread @ w for w in weighted]
        step = np.sum([w @ term.found for w, term in zip(weights, terms, strict=True)], axis=0)
        # shorter and shorter: a handful of pixels may have no root, and then any is as good
        stride = _STRIDE * min(1.0, _FREE / (1 + k)) * np.minimum(rates + 0.01, 0.5 - rates)
        new = np.clip(rates - np.clip(step, -stride, stride), _SMALL, LARGEST)
        change = float(np.abs(new - rates).max())
        rates = new
        if change < _CLOSE:
            break
    scores, noise, model = [], np.zeros_like(spread), np.zeros_like(spread)
    texture, texture_model, texture_scores = 0.0, 0.0, []
    for (design, _, f, n), term, w in zip(tables, terms, weights, strict=True):
        own = w @ term.decode
        scores.append((own - (own @ f)[:, None]) / n)
        noise += w @ term.noise @ w.T
        model += w @ _spread_of(design, term.rough) @ w.T
        direction = _texture_direction(design, term)
        edge = design.limit * term.unlike
        # what shapes do not explain, from the smoothest to the roughest
        texture += float(direction @ term.found) - max(float(direction @ design.mean), 0.0) * edge
        texture_model += float(direction**2 @ (design.spread * edge) ** 2)
        other = direction @ term.decode
        texture_scores.append((other - other @ f)[None] / n)
    on, off = (float(rate) for rate in rates)
    return Fit(on, off, scores, noise, model, texture, texture_scores, texture_model)


class _Term(NamedTuple):
    """Shares of patterns at some rates: estimates, their derivatives and covariances.

    Attributes
    ----------
    decode : ndarray of shape (G, classes)
        The sums of rows of the inverse of K.
    found : ndarray of shape (G,)
    slope : ndarray of shape (G, P)
    noise, covariance : ndarray of shape (G, G)
        Of the pixels, and with that of the clean shares.
    rough : ndarray of shape (blocks,)
        How large the shares of thin places may be.
    unlike : float
        The share of neighbours that differ.
    """

    decode: FloatArray
    found: FloatArray
    slope: FloatArray
    noise: FloatArray
    covariance: FloatArray
    rough: FloatArray
    unlike: float


def _linearise(table: _Table, rough: FloatArray, rates: FloatArray, one: bool) -> _Term:
    """Return the linear model of one table around some rates."""
    design, pairs, shares, size = table
    on, off = (float(rate) for rate in rates)
    decode = _decode(design.sums, on, off, pairs)
    found = decode @ shares
    unlike = max(float(_decode(design.unlike[None], on, off, pairs)[0] @ shares), 0.0) + _SMALL
    # Pixels among neighbours of one colour have nearly all of the information. With the shares that
    # they are expected to have, not the observed ones, the weights do not depend on the
    # noise that they are to average. Half a flip is taken to be there.
    ones = np.clip((design.ones @ shares - on) / (1.0 - on - off), 0.01, 0.99)
    clean = np.array([1.0 - ones, ones]) @ design.flat
    half = 0.5 / size
    flat = _channel_times(clean, on + half, off + half, pairs)
    h = _DIFFERENCE
    slopes = []
    for a, b in ((h, h),) if one else ((h, 0.0), (0.0, h)):
        ahead = _decode(design.sums, on + a, off + b, pairs)
        behind = _decode(design.sums, on - a, off - b, pairs)
        slopes.append((ahead - behind) @ flat / (2.0 * h))
    slope = np.array(slopes).T * max(1.0 - _EDGES * unlike, _FEWEST_FLAT)
    noise = (decode * flat) @ decode.T / size
    scatter = noise + _spread_of(design, rough, common=False)
    largest = design.limit * unlike
    new = np.empty_like(rough)
    # the share of thin places, for unknown rates
    free = _invert(scatter + _VAGUE * slope @ slope.T)
    for k, block in enumerate(design.blocks):
        mean = np.zeros(len(found))
        mean[block] = design.mean[block]
        precision = mean @ free @ mean + largest**-2
        thin = max(float(mean @ free @ found / precision), 0.0)
        new[k] = min(math.hypot(thin, precision**-0.5), largest)
        scatter = scatter + np.outer(mean, mean) * largest**2
    return _Term(decode, found, slope, noise, scatter, new, unlike)


def _spread_of(design: _Design, rough: FloatArray, common: bool = True) -> FloatArray:
    """Return the covariance of the clean shares, without or with their common factor."""
    found: FloatArray = np.zeros((len(design.mean), len(design.mean)))
    for block, size in zip(design.blocks, rough, strict=True):
        mean, spread = design.mean[block], design.spread[block]
        found[block, block] = size**2 * (np.diag(spread**2) + common * np.outer(mean, mean))
    return found


def _texture_direction(design: _Design, term: _Term) -> FloatArray:
    """Return the weights of patterns that separate texture from shapes best, for any rates."""
    edge = (design.spread * design.limit * term.unlike) ** 2
    free = term.noise + np.diag(edge) + _VAGUE * term.slope @ term.slope.T
    return _invert(free) @ design.texture * term.unlike


def _invert(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a covariance whose entries may differ by many orders of magnitude."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    unit = matrix * np.outer(scale, scale)
    return np.asarray(np.linalg.inv(unit + _RIDGE * np.eye(len(unit))) * np.outer(scale, scale))


# ---------------------------------------------------------------------------------------- patterns


def _times_channel(rows: FloatArray, laws: list[FloatArray]) -> FloatArray:
    """Return rows (R, classes) times K.

    K is the Kronecker product of the laws of the noisy pixel and of the numbers of ones in its
    pairs, a column for each clean value. So each axis of ``rows``, seen as an array (R, 2, 3, ...,
    3), is multiplied on its own.
    """
    found = rows.reshape(len(rows), *(len(law) for law in laws))
    for axis, law in enumerate(laws, start=1):
        found = np.moveaxis(np.tensordot(found, law, axes=(axis, 0)), -1, axis)
    return found.reshape(rows.shape)


def _channel_times(shares: FloatArray, on: float, off: float, pairs: int) -> FloatArray:
    """Return K times clean shares (classes,): those of the noisy pixels."""
    laws = [law.T for law in _laws(on, off, pairs)]
    return _times_channel(shares[None], laws).ravel()


def _laws(on: float, off: float, pairs: int) -> list[FloatArray]:
    zero, one = np.array([1.0 - on, on]), np.array([off, 1.0 - off])
    pair = [np.convolve(zero, zero), np.convolve(zero, one), np.convolve(one, one)]
    return [np.array([zero, one]).T, *[np.array(pair).T] * pairs]


def _decode(rows: FloatArray, on: float, off: float, pairs: int) -> FloatArray:
    """Return rows (R, classes) times the inverse of K."""
    scale = 1.0 - on - off
    return _times_channel(rows, _laws(-on / scale, -off / scale, pairs))


@lru_cache(maxsize=32)
def _design(around: Neighbourhood, asymmetric: bool) -> _Design:
    """Return the patterns of a neighbourhood, those of both colours together or apart."""
    count = len(around.pairs)
    index = np.indices((2, *[3] * count)).reshape(1 + count, -1)
    ones = index[0]
    unlike = np.where(ones, 2 - index[1:], index[1:])
    prior = _PRIORS[around.kind, min(count, 4 if around.kind == "box" else 3)]
    sums = _patterns(around.kind, unlike)
    colors = [sums * (ones == color) for color in (0, 1)] if asymmetric else [sums]
    size = len(sums)
    all_like = (unlike == 0).all(axis=0)
    texture = np.array(prior.texture or np.zeros(size))
    return _Design(
        np.concatenate(colors),
        (unlike == 2).mean(axis=0),
        unlike.sum(axis=0) / (2.0 * count),
        ones.astype(np.float64),
        np.array([all_like & (ones == color) for color in (0, 1)], dtype=np.float64),
        np.tile(prior.mean, len(colors)),
        np.tile(prior.spread, len(colors)),
        [slice(*ends) for ends in pairwise(range(0, size * len(colors) + 1, size))],
        prior.limit,
        np.tile(texture, len(colors)),
    )


def _patterns(kind: str, unlike: IntArray) -> FloatArray:
    """Return the patterns (G, classes), given how many of each pair (P, classes) differ.

    The first is the share of pairs of which both differ: thin places. The others exclude each
    other: all neighbours differ; all but one; and for a box all but two; else those along the axes;
    else both along an axis; else both along a diagonal.
    """
    total, axes = unlike.sum(axis=0), unlike[:2].sum(axis=0)
    both = unlike == 2
    most = 2 * len(unlike)
    rare = [total == most, total == most - 1] if most > 2 else []
    if kind == "box":
        rare += [total == most - 2, axes == 4, both[:2].any(axis=0), both[2:].any(axis=0)]
    found, free = [both.mean(axis=0)], np.ones(unlike.shape[1], dtype=bool)
    for pattern in rare:
        found.append((pattern & free).astype(np.float64))
        free &= ~pattern
    return np.array(found)
