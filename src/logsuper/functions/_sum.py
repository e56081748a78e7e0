"""Sums of submodular functions with non-negative weights."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from logsuper._base import EPS, FloatArray, IntArray, as_list, check_number
from logsuper.functions._base import SubmodularFunction
from logsuper.functions._graph import PairwiseGraph
from logsuper.functions._modular import Modular, zero
from logsuper.functions._walks import Walk


class Sum(SubmodularFunction):
    r"""The sum :math:`f(x)=\sum_k\alpha_k f_k(x)` with :math:`\alpha_k\ge 0`.

    Usually written with operators, ``1.2 * f + 0.8 * g - Modular(t)``.  Nested sums are flattened,
    all modular terms become one, a function that appears twice becomes one term, and terms of
    weight 0 are dropped.

    Parameters
    ----------
    terms : iterable of (float, SubmodularFunction)
        At least one, all on the same ground set.

    Examples
    --------
    >>> from logsuper.functions import Cut, Modular, Sum
    >>> f = 2.0 * Cut(3, [(0, 1), (1, 2)]) - Modular([1.0, 0.0, 0.0])
    >>> f
    2 * Cut(n=3, edges=2) + Modular(n=3)
    >>> f([1, 0, 0])
    1.0
    >>> [weight for weight, atom in f.terms()]
    [2.0, 1.0]
    """

    def __init__(self, terms: Iterable[tuple[float, SubmodularFunction]]) -> None:
        pairs = as_list(terms, "terms", "a list of (weight, function) pairs")
        for k, pair in enumerate(pairs):
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise TypeError(f"terms[{k}] must be a (weight, function) pair")
            weight, function = pair
            if not isinstance(function, SubmodularFunction):
                raise TypeError(f"terms[{k}] holds a {type(function).__name__}, not a function")
            if check_number(weight, f"the weight of terms[{k}]") < 0:
                raise ValueError(
                    f"terms[{k}] has the weight {weight:g}: a negative weight makes "
                    f"{function!r} supermodular"
                )
            if function.n != pairs[0][1].n:
                raise ValueError(
                    f"terms[{k}] has n = {function.n}, but terms[0] has n = {pairs[0][1].n}"
                )
        if not pairs:
            raise ValueError("a sum needs at least one term; use Modular(zeros(n)) for zero")
        self.n = pairs[0][1].n
        atoms = [(float(w) * own, atom) for w, f in pairs for own, atom in f.terms()]
        with np.errstate(over="raise", invalid="raise"):
            try:
                self._terms = _simplify(self.n, atoms)
            except FloatingPointError:
                raise ValueError("the sum of the modular terms overflows; rescale them") from None

    def terms(self) -> tuple[tuple[float, SubmodularFunction], ...]:
        """Return the ``(weight, atom)`` pairs; none of the atoms is a sum."""
        return self._terms

    def _evaluate(self, X: FloatArray) -> FloatArray:
        return _total([w * f._evaluate(X) for w, f in self._terms])

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, errors = [], []
        for weight, function in self._terms:
            value, error = function._evaluate_within(X)
            values.append(weight * value)
            # error of the term, plus that of the product with its weight and of the sum
            errors.append(weight * error + EPS * len(self._terms) * np.abs(values[-1]))
        return _total(values), _total(errors)

    def _gains(self, X: FloatArray) -> FloatArray:
        return _total([w * f._gains(X) for w, f in self._terms])

    def _greedy(self, W: FloatArray) -> FloatArray:
        # every term sees the same order, so the vertices add up to a vertex
        return _total([w * f._greedy(W) for w, f in self._terms])

    def _lovasz(self, W: FloatArray) -> FloatArray:
        return _total([w * f._lovasz(W) for w, f in self._terms])

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        values, gradients = [], []
        for weight, function in self._terms:
            found = function._multilinear(Q)
            if found is None:
                return None
            values.append(weight * found[0])
            gradients.append(weight * found[1])
        return _total(values), _total(gradients)

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        return combine([(w, f._condition(free, point)) for w, f in self._terms])

    def _row_size(self) -> int:
        return max(f._row_size() for _, f in self._terms)

    def _row_cost(self) -> float:
        return sum(f._row_cost() for _, f in self._terms)

    def _walks(self) -> list[tuple[float, Walk]]:
        return [(w * own, walk) for w, f in self._terms for own, walk in f._walks()]

    def graph(self) -> PairwiseGraph | None:
        """Return the sum of the terms' graphs, or None if a term has no graph."""
        graphs = []
        for weight, function in self._terms:
            graph = function.graph()
            if graph is None:
                return None
            graphs.append((weight, graph))
        return PairwiseGraph.combine(self.n, graphs)

    def __repr__(self) -> str:
        return " + ".join(f"{f!r}" if w == 1 else f"{w:g} * {f!r}" for w, f in self._terms)


def _total(parts: list[FloatArray]) -> FloatArray:
    return np.asarray(sum(parts[1:], parts[0]))


def combine(terms: Iterable[tuple[float, SubmodularFunction]]) -> SubmodularFunction:
    """Return the sum of the terms: a single function if one of weight 1 remains, else a `Sum`."""
    total = Sum(terms)
    [first, *others] = total.terms()
    return first[1] if not others and first[0] == 1.0 else total


def split_modular(f: SubmodularFunction) -> tuple[SubmodularFunction, FloatArray]:
    """Return g and t with f(x) = g(x) - t'x, where -t'x is the sum of the modular terms."""
    t = np.zeros(f.n)
    others = []
    for weight, atom in f.terms():
        if isinstance(atom, Modular):
            t -= weight * atom.t
        else:
            others.append((weight, atom))
    return combine(others) if others else zero(f.n), t


def _simplify(
    n: int, terms: list[tuple[float, SubmodularFunction]]
) -> tuple[tuple[float, SubmodularFunction], ...]:
    modular: FloatArray | None = None
    weights: dict[int, float] = {}
    atoms: dict[int, SubmodularFunction] = {}
    for weight, atom in terms:
        if isinstance(atom, Modular):
            modular = weight * atom.t + (0.0 if modular is None else modular)
        elif weight > 0:
            weights[id(atom)] = weights.get(id(atom), 0.0) + weight
            atoms[id(atom)] = atom
    kept = [(weights[key], atom) for key, atom in atoms.items()]
    if (modular is not None and modular.any()) or not kept:
        kept.append((1.0, zero(n) if modular is None else Modular(modular)))
    return tuple(kept)
