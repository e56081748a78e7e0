"""Results: bounds on log Z, brackets, marginals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from logsuper._base import FloatArray

Target = Literal["lower", "upper", "exact", "estimate"]

TOLERANCE = 1e-6
"""Maximum width, in nats, of the certified interval of a value that is called exact."""


@dataclasses.dataclass(frozen=True)
class Bound:
    """A bound on, or value of, log Z, and what is known about it.

    Attributes
    ----------
    value : float
        In nats.
    target : {"lower", "upper", "exact", "estimate"}
        What `value` is, or estimates: a sampled logistic value estimates an upper bound, so its
        target is "upper". A value is called "exact" only if it is certified to a millionth of a
        nat, or to four units in the last place if log Z is so large that these are more.
    method : str
    certified : bool
        Whether `value` is proved to be on the side of log Z that `target` names: always, or, with
        a `confidence`, with at least that probability over the draws, at any sample size. For an
        "estimate", whether `interval` is proved to contain log Z in that sense.
    confidence : float or None
        Probability of `interval` (and of `certified`); None if nothing is random.
    stderr : float or None
        Standard error of a sampled value.
    interval : tuple of float or None
        An interval for the quantity that `value` estimates, at the given confidence; for an exact
        method, the possible effect of rounding.
    solves : int
        Number of submodular minimisations.
    details : mapping
        Further results of the method, such as its duality gap or its window. Values in it are those
        of f alone, without the constant of a model.

    Examples
    --------
    >>> from logsuper.bounds import Bound
    >>> b = Bound(3.25, "upper", "lfield", certified=True)
    >>> float(b), b
    (3.25, <upper bound 3.25 by lfield, certified>)
    """

    value: float
    target: Target
    method: str
    certified: bool = False
    confidence: float | None = None
    stderr: float | None = None
    interval: tuple[float, float] | None = None
    solves: int = 0
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    @classmethod
    def exactly(
        cls, value: float, error: float, method: str, details: Mapping[str, Any] | None = None
    ) -> Bound:
        """Return the result of an exact method, given a bound `error` on its rounding error.

        Its target is "exact" if the width of the interval is at most `TOLERANCE` or four units in
        the last place, else "estimate".
        """
        interval = (
            math.nextafter(value - error, -math.inf),
            math.nextafter(value + error, math.inf),
        )
        found = cls(value, "exact", method, True, interval=interval, details=details or {})
        return found.classified()

    def classified(self) -> Bound:
        """Return the bound; an "exact" one with a wide interval becomes an "estimate"."""
        if self.target != "exact" or self.interval is None:
            return self
        low, high = self.interval
        narrow = high - low <= max(TOLERANCE, 4.0 * math.ulp(self.value))
        return self if narrow else dataclasses.replace(self, target="estimate")

    def shifted(self, constant: float) -> Bound:
        """Return the bound on log Z + constant, rounded towards its valid side."""
        if constant == 0.0:
            return self
        value, interval = self.value + constant, self.interval
        if self.certified and self.target == "lower":
            value = _down(self.value, constant)
        if self.certified and self.target == "upper":
            value = _up(self.value, constant)
        if interval is not None:
            interval = (_down(interval[0], constant), _up(interval[1], constant))
        return dataclasses.replace(self, value=value, interval=interval).classified()

    def __repr__(self) -> str:
        kind = {"lower": "lower bound", "upper": "upper bound"}.get(self.target, self.target)
        noise = "" if self.stderr is None else f" ± {self.stderr:.2g}"
        if self.stderr is None and self.interval is not None:
            low, high = (f"{end:.10g}" for end in self.interval)
            noise = "" if low == high else f" in [{low}, {high}]"
        proof = ", certified" if self.certified else ""
        if self.certified and self.confidence is not None:
            proof += f" at {100 * self.confidence:g} %"
        return f"<{kind} {self.value:.10g}{noise} by {self.method}{proof}>"


# Upper bound on a probability that is 0 by underflow.
_UNDERFLOW = 1e-300


def _down(a: float, b: float) -> float:
    """Return a + b rounded down."""
    return a + b if _is_exact(a, b) else math.nextafter(a + b, -math.inf)


def _up(a: float, b: float) -> float:
    """Return a + b rounded up."""
    return a + b if _is_exact(a, b) else math.nextafter(a + b, math.inf)


def _is_exact(a: float, b: float) -> bool:
    """Return whether a + b is exact in float64: the error of Knuth's TwoSum is 0."""
    total = a + b
    part = total - a
    return a - (total - part) + (b - part) == 0.0


@dataclasses.dataclass(frozen=True)
class Bracket:
    """A lower and an upper bound on log Z.

    Attributes
    ----------
    lower, upper : float
    below, above : Bound
        The two bounds, with their methods.
    confidence : float or None
        Probability that both hold; None if neither is random.

    Examples
    --------
    >>> from logsuper.bounds import Bound, Bracket
    >>> Bracket(Bound(1.0, "lower", "bethe", True), Bound(1.5, "upper", "trw", True))
    <log Z in [1, 1.5], width 0.5, by bethe and trw>
    """

    below: Bound
    above: Bound
    confidence: float | None = None

    @property
    def lower(self) -> float:
        """The lower bound."""
        return _ends(self.below)[0]

    @property
    def upper(self) -> float:
        """The upper bound."""
        return _ends(self.above)[1]

    @property
    def width(self) -> float:
        """The difference of the two bounds."""
        return self.upper - self.lower

    def __repr__(self) -> str:
        methods = " and ".join(dict.fromkeys([self.below.method, self.above.method]))
        chance = "" if self.confidence is None else f", at {100 * self.confidence:g} %"
        return (
            f"<log Z in [{self.lower:.10g}, {self.upper:.10g}], width {self.width:.3g}, "
            f"by {methods}{chance}>"
        )


def _ends(bound: Bound) -> tuple[float, float]:
    """Return the certified interval of an exact value, else the value as both ends."""
    if bound.target in ("exact", "estimate") and bound.interval is not None:
        return bound.interval
    return bound.value, bound.value


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Marginals(NDArrayOperatorsMixin):
    """Probabilities that each element is 1; behaves like the array of its `values`.

    Attributes
    ----------
    values : ndarray of shape (n,), or of the shape of an image model
    method : str
    lower, upper : ndarray of that shape, or None
        Bounds on the exact marginals.
    stderr : ndarray of that shape, or None
        Standard errors of sampled values.
    confidence : float or None
        Probability that `lower` and `upper` hold; None if nothing is random.
    solves : int
        Number of submodular minimisations.
    details : mapping
        Further results of the method.

    Examples
    --------
    >>> import numpy as np
    >>> from logsuper.bounds import Marginals
    >>> m = Marginals(np.array([0.2, 0.9]), "exact")
    >>> m > 0.5
    array([False,  True])
    >>> np.round(m).tolist(), len(m), m[1]
    ([0.0, 1.0], 2, np.float64(0.9))
    """

    values: FloatArray
    method: str
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    stderr: FloatArray | None = None
    confidence: float | None = None
    solves: int = 0
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def exactly(
        cls,
        values: FloatArray,
        slip: float,
        method: str,
        details: Mapping[str, Any] | None = None,
        absolute: float = 0.0,
    ) -> Marginals:
        """Return the result of an exact method, with bounds that allow for rounding.

        Rounding may have changed the logarithms by `slip`, and the values by a further `absolute`.
        """
        off = values * math.expm1(min(slip, 100.0)) + (absolute + _UNDERFLOW)
        lower, upper = np.maximum(values - off, 0.0), np.minimum(values + off, 1.0)
        return cls(values, method, lower, upper, details=details or {})

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self.values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is None:
            return np.asarray(self.values, dtype=dtype)
        return np.array(self.values, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [x.values if isinstance(x, Marginals) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __repr__(self) -> str:
        parts = [f"{self.values.size} marginals by {self.method}"]
        if self.lower is not None and self.upper is not None:
            width = float((self.upper - self.lower).max(initial=0.0))
            parts.append(f"known to {width:.3g}")
        if self.stderr is not None:
            parts.append(f"standard error up to {float(self.stderr.max(initial=0.0)):.2g}")
        return f"<{', '.join(parts)}>"
