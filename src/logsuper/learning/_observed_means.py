r"""Means of pixels, edges and pairs of pixels over the examples that show them.

With entries missing at random, they are estimated as if nothing were: the mean over examples of a
product has no bias where each factor was observed, for any pattern of missing pixels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from logsuper._base import FloatArray, IntArray
from logsuper.bounds import NotApplicable
from logsuper.functions import Cut
from logsuper.learning._examples import Examples, Group, in_pieces
from logsuper.learning._features import Context
from logsuper.structures import Structure

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
    at, begin = 0, [0] * structure.count
    for k, factor, cut in structure.cuts:
        size = len(cut.weights)
        weights = (factor * cut.weights)[None]
        if factors is not None:
            place = structure.places[at : at + size]
            weights = weights * (factors[:, k, place] if factors.ndim == 3 else factors[:, place])
        yield k, slice(begin[k], begin[k] + size), cut, weights
        at += size
        begin[k] += size
