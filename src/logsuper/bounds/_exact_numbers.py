r"""The normal form of pairwise functions without rounding, in integers.

A pairwise function that is a sum of functions h of a few elements each has the edge weights
:math:`w_{ij}=\frac12\sum_h(h(\{i\})+h(\{j\})-h(\{i,j\}))` and the fields
:math:`t_i=\sum_jw_{ij}-\sum_hh(\{i\})`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from logsuper.functions import (
    ConcaveCardinality,
    Coverage,
    Cut,
    Modular,
    PnPotts,
    RobustPn,
    SubmodularFunction,
)

BITS = 200
"""Number of fractional bits; the truncated part is far below any rounding error."""


def to_integer(value: float) -> int:
    """Return a number in units of 2^-BITS, truncated."""
    mantissa, exponent = math.frexp(value)
    shift = exponent - 53 + BITS
    whole = int(math.ldexp(mantissa, 53))
    return whole << shift if shift >= 0 else int(whole / 2.0 ** min(-shift, 1000))


def to_float(value: int) -> float:
    """Return the nearest float64 to a number in units of 2^-BITS."""
    try:
        return value / (1 << BITS)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_floats(value: int) -> list[float]:
    """Return floats whose sum is a number in units of 2^-BITS, to far below a rounding error."""
    pieces: list[float] = []
    while value and len(pieces) < 4:
        pieces.append(to_float(value))
        if math.isinf(pieces[-1]):
            break
        value -= to_integer(pieces[-1])
    return pieces


# Maximum number of members of a group, all of whose pairs are enumerated.
_LARGEST = 200


_Part = tuple[list[int], Callable[[Sequence[int]], int]]
"""Members, and the value, in units of 2^-BITS, if those at some places are 1; 0 at none."""


def _table(values: list[int]) -> Callable[[Sequence[int]], int]:
    """Return the function of the number of ones with the given values."""
    return lambda chosen: values[len(chosen)]


def _truncation(prices: list[int], limit: int, side: int) -> Callable[[Sequence[int]], int]:
    """Return the function of a hyperedge of `RobustPn`."""
    total = sum(prices)

    def at(chosen: Sequence[int]) -> int:
        ones = sum(prices[k] for k in chosen)
        return min(limit, ones) if side else min(limit, total - ones) - min(limit, total)

    return at


def exact_numbers(f: SubmodularFunction) -> tuple[dict[tuple[int, int], int], list[int]] | None:
    """Return twice the weights of the edges i < j, and twice the fields, in units of 2^-BITS.

    Return None if a term is computed rather than tabulated. The function must be pairwise, which is
    not checked.

    Examples
    --------
    >>> from logsuper.functions import Cut, Modular
    >>> weights, fields = exact_numbers(3.0 * Cut(2, [(0, 1)], 1e16) - Modular([0.5, 1e16]))
    >>> {pair: to_float(w) / 2 for pair, w in weights.items()}, [to_float(t) / 2 for t in fields]
    ({(0, 1): 3e+16}, [0.5, 1e+16])
    """
    weights: dict[tuple[int, int], int] = {}
    fields = [0] * f.n
    for weight, atom in f.terms():
        factor = to_integer(weight)
        if isinstance(atom, Modular):
            for i, value in enumerate(atom.t.tolist()):
                fields[i] -= 2 * factor * to_integer(value) >> BITS
            continue
        if isinstance(atom, Cut):
            pairs = zip(atom.edges.tolist(), atom.weights.tolist(), strict=True)
            for (i, j), value in pairs:
                _add(weights, i, j, 2 * factor * to_integer(value) >> BITS)
            continue
        parts = _parts(atom)
        if parts is None:
            return None
        for members, value_at in parts:
            single = [value_at([k]) for k in range(len(members))]
            for k, i in enumerate(members):
                fields[i] -= 2 * factor * single[k] >> BITS
            for a, b in itertools.combinations(range(len(members)), 2):
                twice = factor * (single[a] + single[b] - value_at([a, b])) >> BITS
                i, j = members[a], members[b]
                _add(weights, i, j, twice)
                fields[i] += twice
                fields[j] += twice
    return weights, fields


def _add(weights: dict[tuple[int, int], int], i: int, j: int, value: int) -> None:
    key = (i, j) if i < j else (j, i)
    weights[key] = weights.get(key, 0) + value


def _parts(f: SubmodularFunction) -> Iterator[_Part] | None:
    """Return the parts that f is the sum of; None for other families and for large groups."""
    sizes: list[int] = []
    found: Iterator[_Part] = iter(())
    if isinstance(f, ConcaveCardinality):
        sizes = [len(f.subset)]
        found = iter([(f.subset.tolist(), _table([to_integer(v) for v in f.g.tolist()]))])
    elif isinstance(f, Coverage | PnPotts | RobustPn):
        members: list[list[int]] = [[] for _ in range(f.n_groups)]
        for group, member in zip(f.group.tolist(), f.member.tolist(), strict=True):
            members[group].append(member)
        sizes = [len(group) for group in members]
        found = _groups(f, members)
    return None if max(sizes, default=_LARGEST + 1) > _LARGEST else found


def _groups(f: Coverage | PnPotts | RobustPn, members: list[list[int]]) -> Iterator[_Part]:
    for g, group in enumerate(members):
        size = len(group)
        if isinstance(f, RobustPn):
            prices = [to_integer(v) for v in f.weights[g].tolist()]
            yield group, _truncation(prices, to_integer(float(f.threshold[g])), f.side)
        else:
            price = to_integer(float(f.weights[g]))
            all_on = price if isinstance(f, Coverage) else 0  # P^n Potts charges disagreement
            yield group, _table(([0] + [price] * (size - 1) + [all_on]) if size else [0])
