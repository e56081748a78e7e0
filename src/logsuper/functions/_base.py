"""The interface of every submodular function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper._base import (
    EPS,
    FloatArray,
    IntArray,
    arrays_in,
    check_binary,
    check_field,
    check_fixed,
    check_number,
    check_probabilities,
    frozen,
    places_of,
)

if TYPE_CHECKING:
    from logsuper.functions._graph import PairwiseGraph
    from logsuper.functions._walks import Walk

# Scratch memory per block of a batch, in float64 numbers: one megabyte, which fits the cache.
_BLOCK = 1 << 17


def check_function(f: object) -> SubmodularFunction:
    """Return f; raise a TypeError if it is not a `SubmodularFunction`."""
    if not isinstance(f, SubmodularFunction):
        raise TypeError(f"f must be a submodular function, got a {type(f).__name__}")
    return f


class Rest(NamedTuple):
    """What conditioning leaves: a function of the free elements that is 0 at 0, and a constant."""

    f: SubmodularFunction
    constant: float


class Expected(NamedTuple):
    """A multilinear extension: its values (...), and its gradients (..., n)."""

    value: Any
    gradient: FloatArray


class SubmodularFunction(ABC):
    r"""A submodular function :math:`f:\{0,1\}^n\to\mathbb{R}` with :math:`f(0)=0`.

    Submodular means :math:`f(x)+f(y)\ge f(x\vee y)+f(x\wedge y)`: the gain of switching an element
    on can only decrease as other elements are switched on.  The log-supermodular model built on it
    is :math:`p(x)\propto e^{-f(x)}`.

    Functions are immutable.  They can be added (``f + g``) and scaled by a number >= 0
    (``2.0 * f``, ``f / 2``); only a `Modular` can be subtracted (``f - Modular(t)``).

    Attributes
    ----------
    n : int
        Size of the ground set; 0 is allowed.

    Notes
    -----
    A new family must define `n` and `_evaluate`, with value 0 at x = 0 (subtract the value there
    if necessary).  All other methods have default implementations in terms of these; override
    `_gains`, `_chain` (or `_greedy`), `_condition` and `graph` if a closed form is faster,
    `_multilinear` if there is a closed form, and `_walks` if the gain of one element is cheaper
    than an evaluation.  These methods receive checked, two-dimensional float64 input with n > 0.
    Their results are not checked; call `check_submodular` to test them.

    Examples
    --------
    >>> from logsuper.functions import SubmodularFunction, check_submodular
    >>> class AnyOn(SubmodularFunction):
    ...     def __init__(self, n):
    ...         self.n = n
    ...
    ...     def _evaluate(self, X):
    ...         return X.max(axis=1)
    >>> f = AnyOn(3)
    >>> f([[0, 0, 0], [0, 1, 1]])
    array([0., 1.])
    >>> f.gains([0, 0, 1])
    array([0., 0., 1.])
    >>> check_submodular(f)
    <no violation found in 6 pairs (all)>
    """

    n: int

    # makes numpy scalars defer to `__rmul__` in `np.float64(2.0) * f`
    __array_ufunc__ = None

    # ---------------------------------------------------------------- what a family implements

    @abstractmethod
    def _evaluate(self, X: FloatArray) -> FloatArray:
        """Return the values (M,) at the rows of X (M, n), whose entries are 0.0 or 1.0."""

    def _evaluate_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the values (M,) and bounds (M,) on their rounding errors.

        This default holds for a family that sums numbers of one sign; override it if large numbers
        may cancel.
        """
        values = self._evaluate(X)
        return values, EPS * (self._row_size() + 8.0) * np.abs(values)

    def _gains(self, X: FloatArray) -> FloatArray:
        """Return ``f(x, x_d=1) - f(x, x_d=0)`` for each entry of X (M, n)."""
        gains = np.empty_like(X)
        values = self._evaluate(X)
        for d in range(self.n):
            flipped = X.copy()
            flipped[:, d] = 1.0 - X[:, d]
            gains[:, d] = (self._evaluate(flipped) - values) * (1.0 - 2.0 * X[:, d])
        return gains

    def _chain(self, order: IntArray) -> FloatArray:
        """Return the gain of each element as elements enter in the given order, rows (M, n)."""
        steps = np.empty(order.shape)
        rows = max(1, _BLOCK // self._row_size())
        for m, row in enumerate(order):
            rank = places_of(row, self.n)
            values = np.zeros(self.n + 1)
            for start in range(1, self.n + 1, rows):
                sizes = np.arange(start, min(start + rows, self.n + 1))
                values[sizes] = self._evaluate((rank < sizes[:, None]).astype(np.float64))
            steps[m] = np.diff(values)
        return steps

    def _greedy(self, W: FloatArray) -> FloatArray:
        """Return, for each row w of W (M, n), a vertex s of the base polytope maximising w's."""
        order = np.argsort(-W, axis=1, kind="stable").astype(np.int64, copy=False)
        vertex = np.empty_like(W)
        np.put_along_axis(vertex, order, self._chain(order), axis=1)
        return vertex

    def _lovasz(self, W: FloatArray) -> FloatArray:
        """Return the Lovász extension at the rows of W (M, n)."""
        return np.asarray((self._greedy(W) * W).sum(axis=1))

    def _multilinear(self, Q: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return the means (M,) of f and (M, n) of its gains when x_d = 1 with probability Q[m, d].

        Return None if there is no closed form; the result must then be None for every Q.
        """
        return None

    def _condition(self, free: IntArray, point: FloatArray) -> SubmodularFunction:
        """Return ``f(point + x) - f(point)`` for x on the elements `free`, where point is 0."""
        from logsuper.functions._conditioned import Conditioned

        return Conditioned(self, free, point)

    def _row_size(self) -> int:
        """Return the approximate number of scratch numbers that `_evaluate` needs per row."""
        return self.n

    def _row_cost(self) -> float:
        """Return the approximate number of elementary operations of `_evaluate` per row."""
        return float(self.n + self._row_size())

    def _walks(self) -> list[tuple[float, Walk]]:
        """Return weighted terms that compute single gains incrementally along a Markov chain."""
        from logsuper.functions._walks import Evaluated

        return [(1.0, Evaluated(self))]

    def graph(self) -> PairwiseGraph | None:
        """Return f as a pairwise graph with auxiliary nodes, or None if it has no such form."""
        return None

    def terms(self) -> tuple[tuple[float, SubmodularFunction], ...]:
        """Return the ``(weight, atom)`` pairs whose sum is f; by default, f with weight 1."""
        return ((1.0, self),)

    # ------------------------------------------------------------------------ what users call

    def __call__(self, X: ArrayLike) -> Any:
        """Evaluate f at 0/1 vectors.

        Parameters
        ----------
        X : array-like of shape (..., n)
            Entries 0 or 1, of any numeric or boolean dtype.

        Returns
        -------
        float or ndarray of shape (...)
            A float for a single vector.
        """
        X = check_binary(X, self.n)
        values = self._in_blocks(self._evaluate, X, ())
        return float(values) if X.ndim == 1 else values

    def gains(self, X: ArrayLike) -> FloatArray:
        """Return the gain of switching each element on, given the others.

        Parameters
        ----------
        X : array-like of shape (..., n)
            Entries 0 or 1.

        Returns
        -------
        ndarray of shape (..., n)
            Entry d is ``f(x with x_d = 1) - f(x with x_d = 0)``; it does not depend on x_d.
        """
        return self._in_blocks(self._gains, check_binary(X, self.n), (self.n,))

    def greedy(self, w: ArrayLike) -> FloatArray:
        r"""Return a vertex of the base polytope :math:`B(f)` that maximises :math:`w^\top s`.

        Elements enter in decreasing order of `w`, ties in order of index (Edmonds).

        Parameters
        ----------
        w : array-like of shape (..., n)

        Returns
        -------
        ndarray of shape (..., n)
        """
        return self._in_blocks(self._greedy, check_field(w, self.n), (self.n,))

    def lovasz(self, w: ArrayLike) -> Any:
        r"""Return the Lovász extension :math:`\max_{s\in B(f)} w^\top s`, equal to f on 0/1.

        Parameters
        ----------
        w : array-like of shape (..., n)

        Returns
        -------
        float or ndarray of shape (...)
        """
        field = check_field(w, self.n)
        values = self._in_blocks(self._lovasz, field, ())
        return float(values) if field.ndim == 1 else values

    def multilinear(self, q: ArrayLike) -> Expected:
        r"""Return the multilinear extension :math:`F(q)=\mathbb{E}f(x)` and its gradient.

        The elements are independent, :math:`P(x_d=1)=q_d`. The gradient is the expected gain,
        :math:`\partial F/\partial q_d=\mathbb{E}[f(x,x_d=1)-f(x,x_d=0)]`.

        Parameters
        ----------
        q : array-like of shape (..., n)
            Probabilities.

        Returns
        -------
        value : float or ndarray of shape (...)
        gradient : ndarray of shape (..., n)

        Raises
        ------
        TypeError
            If f, or a term of it, has no closed form for its expectation.

        Examples
        --------
        >>> from logsuper.functions import Cut
        >>> value, gradient = Cut(2, [(0, 1)], weights=4.0).multilinear([0.5, 0.25])
        >>> value, gradient
        (2.0, array([2., 0.]))
        """
        probabilities = check_probabilities(q, self.n)
        shape = probabilities.shape
        found: tuple[FloatArray, FloatArray] | None = np.zeros(shape[:-1]), np.zeros(shape)
        if self.n:
            with np.errstate(over="ignore", invalid="ignore"):
                found = self._multilinear(probabilities.reshape(-1, self.n))
        if found is None:
            raise TypeError(f"{self!r} has no closed form for its multilinear extension")
        for part in found:
            self._refuse_overflow(part)
        values, gradients = found[0].reshape(shape[:-1]), np.array(found[1]).reshape(shape)
        return Expected(float(values) if values.ndim == 0 else values, gradients)

    def condition(self, fixed: Mapping[int, int]) -> Rest:
        r"""Fix some elements; return the function of the remaining ones and a constant.

        Parameters
        ----------
        fixed : mapping of int to {0, 1}
            Elements and their values :math:`a`.

        Returns
        -------
        g : SubmodularFunction
            Function of the free elements, in increasing order: :math:`g(x)=f(a,x)-f(a,0)`.
        constant : float
            :math:`f(a,0)`.
        """
        elements, values = check_fixed(fixed, self.n)
        if len(elements) == 0:
            return Rest(self, 0.0)
        free = np.setdiff1d(np.arange(self.n, dtype=np.int64), elements)
        point = np.zeros(self.n)
        point[elements] = values
        return Rest(self._condition(free, point), float(self(point)))

    @classmethod
    def _built(cls, *parts: Any) -> Self:
        """Return a function from checked parts, by the `_build` of its family."""
        other: Any = object.__new__(cls)
        other._build(*parts)
        return other  # type: ignore[no-any-return]

    def _in_blocks(
        self,
        compute: Callable[[FloatArray], FloatArray],
        X: NDArray[Any],
        tail: tuple[int, ...],
    ) -> FloatArray:
        """Apply `compute` to blocks of rows, to limit the scratch memory of a large batch."""
        if self.n == 0:
            return np.zeros(X.shape[:-1] + tail)
        rows = X.reshape(int(np.prod(X.shape[:-1], dtype=np.int64)), self.n)
        out = np.empty((len(rows), *tail))
        step = max(1, _BLOCK // self._row_size())
        for start in range(0, len(rows), step):
            block = rows[start : start + step].astype(np.float64, copy=False)
            with np.errstate(over="ignore", invalid="ignore"):
                out[start : start + step] = compute(block)
        self._refuse_overflow(out)
        return out.reshape(X.shape[:-1] + tail)

    def _values_within(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values and bounds on their rounding errors, computed in blocks of rows."""
        step = max(1, _BLOCK // self._row_size())
        parts = [self._evaluate_within(X[k : k + step]) for k in range(0, len(X), step)]
        values, errors = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(errors)

    def _refuse_overflow(self, values: FloatArray) -> None:
        finite = np.isfinite(values)
        if not finite.all():
            raise ValueError(
                f"the values of {self!r} must be finite, but one is {values[~finite][0]}: sums of "
                "its weights overflow; rescale it"
            )

    # ------------------------------------------------------------------------------ arithmetic

    def __add__(self, other: object) -> SubmodularFunction:
        """Return the sum of two functions on the same ground set."""
        from logsuper.functions._sum import combine

        if not isinstance(other, SubmodularFunction):
            return NotImplemented
        if self.n != other.n:
            raise ValueError(f"cannot add functions on {self.n} and {other.n} elements")
        return combine((*self.terms(), *other.terms()))

    def __radd__(self, other: object) -> SubmodularFunction:
        """Return f for ``0 + f``, so that ``sum(functions)`` works."""
        if isinstance(other, int) and other == 0:
            return self
        return NotImplemented

    def __mul__(self, weight: object) -> SubmodularFunction:
        """Return the function scaled by a number >= 0."""
        from logsuper.functions._sum import combine

        if isinstance(weight, SubmodularFunction):
            raise TypeError("the product of two submodular functions is not submodular in general")
        factor = check_number(weight, "the weight of a function")
        if factor < 0:
            raise ValueError(
                f"cannot scale {self!r} by {factor:g}: a negative weight makes it supermodular"
            )
        return combine([(factor * own, atom) for own, atom in self.terms()])

    __rmul__ = __mul__

    def __truediv__(self, number: object) -> SubmodularFunction:
        """Return the function divided by a number > 0."""
        from logsuper.functions._sum import combine

        divisor = check_number(number, "the divisor of a function")
        if divisor <= 0:
            raise ValueError(f"cannot divide {self!r} by {divisor:g}: it must be positive")
        return combine([(own / divisor, atom) for own, atom in self.terms()])

    def __neg__(self) -> SubmodularFunction:
        """Raise a TypeError: only the negative of a `Modular` is submodular."""
        raise TypeError(
            f"cannot negate {self!r}: it would be supermodular; only a Modular can be negated"
        )

    def __sub__(self, other: object) -> SubmodularFunction:
        """Return the difference; only a `Modular` can be subtracted."""
        from logsuper.functions._modular import Modular

        if isinstance(other, Modular):
            return self + (-other)
        if isinstance(other, SubmodularFunction):
            raise TypeError(
                f"only a Modular can be subtracted; minus {other!r} would not be submodular"
            )
        return NotImplemented

    # ------------------------------------------------------------------------------- pickling

    # A pickled numpy array loses its read-only flag, so the names of read-only arrays are stored.

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        own, slots = state if isinstance(state, tuple) else (state, None)
        own = {name: value for name, value in (own or {}).items() if not self._is_cached(name)}
        held = {name: arrays_in(value) for name, value in own.items()}
        read_only = [
            name
            for name, arrays in held.items()
            if arrays and not any(array.flags.writeable for array in arrays)
        ]
        own = {**own, "_read_only": read_only}
        return own if slots is None else (own, slots)

    def _is_cached(self, name: str) -> bool:
        """Return whether an attribute can be computed again, so that a pickle need not hold it."""
        return name == "_structure" or isinstance(getattr(type(self), name, None), cached_property)

    def __setstate__(self, state: Any) -> None:
        own, slots = state if isinstance(state, tuple) else (state, None)
        attributes = dict(own)
        for name in attributes.pop("_read_only", ()):
            for array in arrays_in(attributes.get(name)):
                frozen(array)
        self.__dict__.update(attributes)
        for name, value in (slots or {}).items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n})"
