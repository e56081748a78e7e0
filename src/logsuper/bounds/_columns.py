r"""Upper bounds on marginals of boxes with any stencil, by exact sums over columns of pixels.

A column has all pixels of a box along one axis, and a few along the others: a strip of an image, a
bar of a volume. Its pixels are added one at a time and only the newest are kept, as many as the
longest step back to a neighbour: :math:`2^F` weights for a front of F pixels. What lies beside a
column acts on its border by fields. In a log-supermodular model the probability of a 1 is
non-decreasing in all fields (Holley 1974), hence upper bounds on these fields give upper bounds on
all marginals.

A pixel j of log-odds q without its edge to i, of weight a, acts on i by the field

.. math:: \phi(q,a)=\log\frac{e^q+e^{-a}}{e^{q-a}+1}\le a,

and q is at most its own field plus the sum of such messages of its other neighbours. Messages with
all pixels beyond taken for 1, :math:`\phi(\infty,a)=a`, are bounds in every graph at the first two
levels: they are those of the tree of self-avoiding walks (Weitz, *STOC* 2006), cut off. At the
third level a walk may return to where it began, where a message would be too small.

Lower bounds are upper bounds of the model in which 0 and 1 are exchanged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from logsuper._base import EPS, BoolArray, FloatArray

Step = tuple[int, ...]

# Fields beyond the weights at a pixel by more than this are infinite: e^-100 is nothing.
_DECIDED = 100.0
# Smallest weight of a state relative to the largest: sums of products are at least this large, so
# that what underflows in them does not matter.
_SMALLEST = 1e-250
# Largest sum of weights at a pixel: sums of a few of them do not overflow.
_LARGEST = 1e290
# Numbers of the fronts of all columns that are summed over together.
_TOGETHER = 1 << 17


class Problem(NamedTuple):
    """Fields and weights of a box; those of fixed pixels are 0.

    Attributes
    ----------
    t : ndarray of the shape of the box
    steps : list of tuple of int
        Offsets from the first to the second ends of edges; the first number that is not 0 is 1.
    weights : list of ndarray of the shape of the box
        Weights of the edges of a step, at their second ends.
    fixed : ndarray of bool
    """

    t: FloatArray
    steps: list[Step]
    weights: list[FloatArray]
    fixed: BoolArray

    def sorted_by(self, axes: Sequence[int]) -> Problem:
        """Return the same problem with axes in another order."""
        steps, weights = [], []
        for step, weight in zip(self.steps, self.weights, strict=True):
            turned = tuple(step[a] for a in axes)
            plane = weight.transpose(axes)
            if turned < (0,) * len(turned):
                plane = back(plane, turned)  # the second end is the first one now
                turned = tuple(-s for s in turned)
            steps.append(turned)
            weights.append(plane)
        return Problem(self.t.transpose(axes), steps, weights, self.fixed.transpose(axes))


def back(values: FloatArray, step: Step) -> FloatArray:
    """Return at each pixel p the value at p + step; 0 outside."""
    found = np.zeros_like(values)
    here = tuple(slice(max(0, -s), n - max(0, s)) for s, n in zip(step, values.shape, strict=True))
    there = tuple(slice(max(0, s), n - max(0, -s)) for s, n in zip(step, values.shape, strict=True))
    found[here] = values[there]
    return found


def fold(
    field: FloatArray, steps: Sequence[Step], edges: Sequence[FloatArray], ring: BoolArray, up: bool
) -> Problem:
    """Return a box with its ring set to 1, or (`up` false) set to 0 and all values exchanged.

    Fixed pixels are removed: |x - a| is linear in x for a fixed a.

    Parameters
    ----------
    field : ndarray
        Infinite where pixels are fixed.
    steps, edges
        Weights of edges, in the shape of the edges of each step.
    ring : ndarray of bool
    up : bool
    """
    side = 1.0 if up else -1.0
    weights = []
    for step, edge in zip(steps, edges, strict=True):
        plane = np.zeros(field.shape)
        second = (slice(max(0, s), n + min(0, s)) for s, n in zip(step, field.shape, strict=True))
        plane[tuple(second)] = edge
        weights.append(plane)
    own = np.where(ring, np.inf, side * field)
    degree = np.zeros(field.shape)
    with np.errstate(over="ignore"):
        for step, weight in zip(steps, weights, strict=True):
            degree += weight + back(weight, step)
    if not degree.max(initial=0.0) < _LARGEST:
        raise ValueError(f"the weights of the edges of a pixel must add up to below {_LARGEST:g}")
    # raising a field keeps an upper bound
    own[own > degree + _DECIDED] = np.inf
    fixed = np.isinf(own)
    sign = np.where(fixed, np.sign(own), 0.0)
    t = np.where(fixed, 0.0, np.maximum(own, -degree - _DECIDED))
    size = np.abs(t) + degree
    free = (~fixed).astype(np.float64)
    kept = []
    for step, weight in zip(steps, weights, strict=True):
        against = tuple(-s for s in step)
        t += weight * back(sign, against) + back(weight * sign, step)
        kept.append(weight * free * back(free, against))
    # sums are rounded upwards
    t = (t + 4.0 * EPS * (2 * len(steps) + 2) * size) * free
    return Problem(t, list(steps), kept, fixed)


def message(odds: FloatArray, weight: FloatArray) -> FloatArray:
    """Return an upper bound on the field by which a pixel of these log-odds acts on another."""
    found = np.logaddexp(odds, -weight) - np.logaddexp(odds - weight, 0.0)
    return np.minimum(found + 16.0 * EPS * (np.abs(odds) + weight + 1.0), weight)


def received(problem: Problem) -> tuple[list[FloatArray], list[FloatArray], list[Step]]:
    """Return weights and first-level messages into each pixel, and where each comes from."""
    into, sources = [], []
    for step, weight in zip(problem.steps, problem.weights, strict=True):
        into += [weight, back(weight, step)]
        sources += [tuple(-s for s in step), step]
    total = problem.t + sum(into, np.zeros(problem.t.shape))
    total += 64.0 * EPS * (np.abs(problem.t) + sum(into, np.zeros(problem.t.shape)))
    # the sender's own sum, without the edge between the two
    first = [
        message(back(total, source) - weight, weight)
        for weight, source in zip(into, sources, strict=True)
    ]
    return into, first, sources


def nearest_odds(problem: Problem) -> FloatArray:
    """Return upper bounds on all log-odds from the fields of pixels at most two steps away."""
    into, first, sources = received(problem)
    total = problem.t + sum(first, np.zeros(problem.t.shape))
    size = np.abs(problem.t) + sum(into, np.zeros(problem.t.shape))
    total += 64.0 * EPS * size
    odds = problem.t + 64.0 * EPS * size
    for k, (weight, source) in enumerate(zip(into, sources, strict=True)):
        # what the sender got from this pixel is at the place of the opposite step
        odds += message(back(total - first[k ^ 1], source), weight)
    return odds


def front(steps: Sequence[Step], section: Sequence[int]) -> int:
    """Return how many pixels back the farthest neighbour in a column is."""
    return max([1, *(_lag(step, section) for step in steps)])


def _lag(step: Step, section: Sequence[int]) -> int:
    """Return the distance of neighbours in a column; 0 if it has none in this direction."""
    lag = step[0]
    for s, size in zip(step[1:], section, strict=True):
        if abs(s) >= size:
            return 0
        lag = lag * size + s
    return lag


def choose_section(steps: Sequence[Step], shape: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the sides of columns across whose front has at most so many pixels."""
    sides = [range(1, min(size, most) + 1) for size in shape[1:]]
    found = [s for s in itertools.product(*sides) if front(steps, s) <= most]
    return max(found, key=lambda s: (min([*s, 1 << 30]), math.prod(s)), default=(1,) * len(sides))


def column_bounds(problem: Problem, most: int) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds on the probabilities of ones, and lower ones on those of zeros.

    Parameters
    ----------
    problem : Problem
    most : int
        Pixels of a front; time and memory double with each.
    """
    axes = _sweep_first(problem)
    turned = problem.sorted_by(axes)
    section = choose_section(turned.steps, turned.t.shape, most)
    odds = nearest_odds(turned)
    one, zero = np.minimum(expit(odds) * (1.0 + 8.0 * EPS), 1.0), expit(-odds) * (1.0 - 8.0 * EPS)
    starts = [_starts(size, side) for size, side in zip(turned.t.shape[1:], section, strict=True)]
    corners = list(itertools.product(*starts))
    into, first, sources = received(turned)
    planes = np.stack([turned.t, *into, *first])
    some = max(1, _TOGETHER >> front(turned.steps, section))
    for k in range(0, len(corners), some):
        chosen = corners[k : k + some]
        t, weights = _columns(planes, sources, chosen, section)
        ones, zeros = sum_columns(t, turned.steps, weights, section)
        for corner, high, low in zip(chosen, ones, zeros, strict=True):
            at = (slice(None), *(slice(c, c + s) for c, s in zip(corner, section, strict=True)))
            one[at], zero[at] = np.minimum(one[at], high), np.maximum(zero[at], low)
    one[turned.fixed], zero[turned.fixed] = 1.0, 0.0
    order = np.argsort(axes)
    return one.transpose(order), zero.transpose(order)


def _sweep_first(problem: Problem) -> list[int]:
    """Return the axes with the one of the strongest edges, along which columns run, first."""
    strength = [0.0] * problem.t.ndim
    for step, weight in zip(problem.steps, problem.weights, strict=True):
        if np.count_nonzero(step) == 1:
            strength[int(np.flatnonzero(step)[0])] = float(weight.mean())
    best = int(np.argmax(strength))
    return [best, *(a for a in range(problem.t.ndim) if a != best)]


def _starts(size: int, side: int) -> list[int]:
    """Return first pixels of columns such that each pixel is near the middle of one."""
    return sorted({*range(0, size - side, max(1, side // 4)), size - side})


def _columns(
    planes: FloatArray, sources: list[Step], corners: list[tuple[int, ...]], section: Sequence[int]
) -> tuple[FloatArray, list[FloatArray]]:
    """Return the fields (M, length, ...) and the weights of some columns.

    The fields include upper bounds on those of the pixels around.
    """
    # columns with one more pixel on each side
    wide = np.pad(planes, [(0, 0), (0, 0), *((1, 1),) * len(section)])
    pieces = []
    for at in corners:
        across = (slice(c, c + s + 2) for c, s in zip(at, section, strict=True))
        pieces.append(wide[(slice(None), slice(None), *across)])
    t, *others = np.stack(pieces, axis=1)
    into, first = others[: len(sources)], others[len(sources) :]
    inside = np.zeros(t.shape[1:], dtype=bool)
    inside[(slice(None), *(slice(1, -1),) * len(section))] = True
    is_in = inside.astype(np.float64)
    # pixels of the column are taken for 1 in messages to those beside it
    total, size = t.copy(), np.abs(t)
    senders = [back(is_in, source) > 0 for source in sources]
    for weight, own, sender in zip(into, first, senders, strict=True):
        total += np.where(sender, weight, own)
        size += weight
    total += 64.0 * EPS * size
    field = t + 64.0 * EPS * size
    weights = []
    for k, (weight, source, sender) in enumerate(zip(into, sources, senders, strict=True)):
        crosses = inside & ~sender
        shift = (0, *source)
        # the message that the sender got from this pixel, which is in the column, is its weight
        sent = message(back(total - into[k ^ 1], shift), weight)
        field += np.where(crosses, sent, 0.0)
        if k % 2 == 0:
            weights.append(weight * (inside & sender))
    middle = (slice(None), slice(None), *(slice(1, -1),) * len(section))
    return field[middle], [weight[middle] for weight in weights]


def sum_columns(
    t: FloatArray, steps: Sequence[Step], weights: Sequence[FloatArray], section: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds on the probabilities of ones, lower ones on zeros, by sums over states.

    Parameters
    ----------
    t : ndarray of shape (M, length, ...)
    steps : list of tuple of int
    weights : list of ndarray of the shape of t
        At second ends; 0 for edges that leave the column.
    section : sequence of int

    Returns
    -------
    ones, zeros : ndarray of the shape of t
        1 and 0 for columns whose numbers are too far apart for float64.
    """
    shape = t.shape
    width, length = math.prod(section), shape[1]
    size = front(steps, section)
    lags: dict[int, FloatArray] = {}
    for step, weight in zip(steps, weights, strict=True):
        lag = _lag(step, section)
        if lag:
            lags[lag] = lags.get(lag, 0.0) + weight.reshape(len(t), -1).T
    flat = np.ascontiguousarray(t.reshape(len(t), -1).T)
    # weights of the two values of a pixel, at most 1
    values = np.stack([np.exp(np.minimum(-flat, 0.0)), np.exp(np.minimum(flat, 0.0))])
    decays = {lag: np.exp(-weight) for lag, weight in lags.items()}
    far = decays.pop(size, None)
    state = np.ones((2,) * size + (len(t),))
    bad = np.zeros(len(t), dtype=bool)
    kept = []
    for p in range(width * length):
        bit = p % size
        old = [state[_bit(bit, v)] for v in (0, 1)]
        if far is None:
            zero = old[0] + old[1]
            new = [zero, zero]
        else:
            new = [old[0] + far[p] * old[1], far[p] * old[0] + old[1]]
        for v in (0, 1):
            state[_bit(bit, v)] = new[v] * values[v, p]
        _couple(state, size, p, bit, decays)
        if (p + 1) % width == 0:
            bad |= _level(state)
            kept.append(state.copy())
    ones, zeros = np.empty((width * length, len(t))), np.empty((width * length, len(t)))
    state = np.ones_like(state)
    axes = tuple(range(size - 1))
    for p in range(width * length - 1, -1, -1):
        bit = p % size
        if (p + 1) % width == 0:
            bad |= _level(state)
            joint = kept.pop() * state
            for q in range(p - width + 1, p + 1):
                halves = [joint[_bit(q % size, v)].sum(axis=axes) for v in (0, 1)]
                zeros[q], ones[q] = halves
        _couple(state, size, p, bit, decays)
        new = [state[_bit(bit, v)] * values[v, p] for v in (0, 1)]
        if far is None:
            both = new[0] + new[1]
            new = [both, both]
        else:
            new = [new[0] + far[p] * new[1], far[p] * new[0] + new[1]]
        for v in (0, 1):
            state[_bit(bit, v)] = new[v]
    # all numbers are positive: relative errors of products and sums add up
    slip = 2.0**-52 * (width * length * (2.0 * len(lags) + 8.0) + 2.0**size + 16.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = ones + zeros
        high = np.where(bad, 1.0, np.minimum(ones / total * (1.0 + slip) + 1e-100, 1.0))
        low = np.where(bad, 0.0, np.maximum(zeros / total * (1.0 - slip) - 1e-100, 0.0))
    return high.T.reshape(shape), low.T.reshape(shape)


def _bit(bit: int, value: int) -> tuple[slice | int, ...]:
    """Return the index of the states in which a pixel of the front has this value."""
    return (*(slice(None),) * bit, value)


def _couple(state: FloatArray, size: int, p: int, bit: int, decays: dict[int, FloatArray]) -> None:
    """Multiply states in which pixel p differs from an earlier one by e^-w."""
    for lag, decay in decays.items():
        other = (p - lag) % size
        for v in (0, 1):
            index: list[slice | int] = [slice(None)] * size
            index[bit], index[other] = v, 1 - v
            state[tuple(index)] *= decay[p]


def _level(state: FloatArray) -> BoolArray:
    """Divide by the largest weight; return which columns have a state that is too small."""
    axes = tuple(range(state.ndim - 1))
    largest = state.max(axis=axes)
    found = state.min(axis=axes) <= _SMALLEST * largest
    state /= np.where(largest > 0, largest, 1.0)
    return np.asarray(found)
