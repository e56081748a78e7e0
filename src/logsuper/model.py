"""The distribution: a thin interface to solvers, bounds and samplers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from logsuper import bounds, sampling
from logsuper._base import (
    EPS,
    FloatArray,
    IntArray,
    Seed,
    as_rows,
    by_number,
    check_binary,
    check_choice,
    check_fixed,
    check_number,
    check_shape,
    frozen,
)
from logsuper.bounds import Bound, Bracket, Marginals
from logsuper.functions import Modular, SubmodularFunction, check_function, grid_shape
from logsuper.solvers import maximize

__all__ = ["LogSupermodular"]


@runtime_checkable
class Observation(Protocol):
    """The part of a channel that `LogSupermodular.observe` uses."""

    def log_likelihoods(self, observed: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return log p(observed | x = 0) and log p(observed | x = 1), entry by entry."""


class LogSupermodular:
    r"""The distribution :math:`p(x)=e^{-f(x)}/\sum_y e^{-f(y)}` of a submodular function f.

    Parameters
    ----------
    f : SubmodularFunction
        The energy, with its modular part.
    constant : float, default 0.0
        Added to the log-partition function: :math:`\log Z=\mathrm{constant}+\log\sum_xe^{-f(x)}`.
    shape : sequence of int, optional
        The layout of x, in row-major order, such as that of an image or a volume. By default that
        of the `grid_cuts` in f, if any, else ``(n,)``.

    Attributes
    ----------
    n : int
        Number of elements, fixed ones included.
    shape : tuple of int
        The layout of modes, marginals and samples.
    f : SubmodularFunction
        The energy of the free elements.
    constant : float
    free : ndarray of int64
        The elements that are not fixed, in increasing order.
    fixed : dict
        The values of the elements that were conditioned on, by their numbers.

    Examples
    --------
    >>> import logsuper as ls
    >>> fh, fv = ls.grid_cuts((3, 4))
    >>> m = ls.LogSupermodular(0.5 * fh + 0.8 * fv - ls.Modular([1.0] * 6 + [-1.0] * 6))
    >>> m.mode()
    array([[1, 1, 1, 1],
           [1, 1, 0, 0],
           [0, 0, 0, 0]], dtype=uint8)
    >>> m.log_partition()
    <exact 5.4002374 by enumeration, certified>
    >>> m.marginals()[0].round(3)
    array([0.824, 0.829, 0.718, 0.662])
    """

    n: int
    shape: tuple[int, ...]
    f: SubmodularFunction
    constant: float
    free: IntArray
    fixed: dict[int, int]

    def __init__(
        self, f: SubmodularFunction, constant: float = 0.0, shape: Sequence[int] | None = None
    ) -> None:
        self.n = check_function(f).n
        self.shape = grid_shape(f) if shape is None else check_shape(shape, self.n)
        self.f = f
        self.constant = check_number(constant, "constant")
        self.free = frozen(np.arange(f.n, dtype=np.int64))
        self.fixed = {}

    # -------------------------------------------------------------------------------- decoding

    def mode(self) -> NDArray[np.uint8]:
        """Return a most probable x, in the shape of the model, by one submodular minimisation."""
        return self._spread(maximize(self.f, np.zeros(self.f.n)).y).astype(np.uint8)

    # -------------------------------------------------------------------------------- bounding

    def log_partition(self, method: str = "auto", **options: Any) -> Bound:
        r"""Return log Z, or a bound on it.

        Parameters
        ----------
        method : str, default "auto"
            "auto" is exact where that is affordable, else the middle of `bracket`; it never raises
            `TooLarge`. "exact" is the cheapest of "enumeration", "elimination", "transfer" and
            "cardinality". Upper bounds: "lfield", "logistic", "power", "trw". Lower bounds:
            "superdifferential", "mean_field", "bethe". Both: "strips". Estimates by sampling:
            "ti", "ais".
        **options
            Options of the function of that name in `logsuper.bounds`. "auto", the exact methods,
            "ti" and "ais" have a ``budget`` of elementary operations; "ti" and "ais" also have a
            ``callback``, as in `sample`.

        Returns
        -------
        Bound

        Raises
        ------
        NotApplicable
            If the method does not apply to this kind of function.
        TooLarge
            If an exact method, "ti" or "ais" would exceed its budget.

        Examples
        --------
        >>> import logsuper as ls
        >>> m = ls.LogSupermodular(ls.Cut(2, [(0, 1)], 1.0))
        >>> m.log_partition("lfield").value - m.log_partition().value > 0
        True
        """
        check_choice(method, "method", [*bounds.METHODS, *sampling.ESTIMATORS])
        if method in bounds.METHODS:
            return bounds.log_partition(self, method, **self._flat_starts(options))
        return sampling.log_partition(self.f, method, **options).shifted(self.constant)

    def bracket(
        self,
        budget: float = 1e9,
        confidence: float | None = None,
        seed: Seed = None,
        n_jobs: int | None = None,
    ) -> Bracket:
        """Return the tightest certified lower and upper bounds on log Z within a budget.

        Parameters
        ----------
        budget : float, default 1e9
            Elementary operations, of about a nanosecond. It counts work, not time, so that the
            result does not depend on the machine. The cheapest pair of bounds is always computed.
        confidence : float, optional
            Also try the sampled upper bound that holds with this probability. Without it nothing
            is random.
        seed : int, Generator or None
            For the sampled bound.
        n_jobs : int, optional
            Threads; the result does not depend on them.

        Returns
        -------
        Bracket

        Examples
        --------
        >>> import numpy as np
        >>> import logsuper as ls
        >>> fh, fv = ls.grid_cuts((30, 30))
        >>> t = np.random.default_rng(0).choice([-2.0, 2.0], 900)
        >>> b = ls.LogSupermodular(0.5 * fh + 0.5 * fv - ls.Modular(t)).bracket()
        >>> b.width < 1e-6, b.below.method, b.above.method
        (True, 'strips', 'strips')
        """
        found = bounds.bracket(self.f, budget, confidence, seed, n_jobs)
        below, above = (bound.shifted(self.constant) for bound in (found.below, found.above))
        return Bracket(below, above, found.confidence)

    def marginals(self, method: str = "auto", **options: Any) -> Marginals:
        r"""Return the probabilities :math:`P(x_d=1)`.

        Parameters
        ----------
        method : str, default "auto"
            "auto" is exact inference where that is cheap, else "strips" on image grids, "bethe" on
            other pairwise functions, and "power" on all others. If the bracket of a pixel by
            "strips" is too wide for its middle to be an estimate, "auto" returns a mixture of the
            phases that belief propagation finds, clipped to the bracket; it warns of brackets
            wider than 0.1. Other methods: "exact" and the methods that it chooses from, "lfield",
            "logistic", "trw", "superdifferential", "mean_field" and "sampling".
        **options
            Options of the method.

        Returns
        -------
        Marginals
            In the shape of the model, fixed elements included; an array-like with ``values`` and,
            where known, ``lower``, ``upper`` and ``stderr``.
        """
        if method == "sampling":
            found = sampling.marginals(self.f, **options)
        else:
            found = bounds.marginals(self.f, method, **self._flat_starts(options))
        parts = {name: getattr(found, name) for name in ("values", "lower", "upper", "stderr")}
        whole: dict[str, Any] = {
            name: self._spread(part, known=name != "stderr")
            for name, part in parts.items()
            if part is not None
        }
        return dataclasses.replace(found, **whole)

    def log_prob(
        self,
        X: ArrayLike,
        side: Literal["auto", "exact", "lower", "upper"] = "auto",
        **options: Any,
    ) -> Any:
        """Return log p(x), or a certified bound on it.

        Parameters
        ----------
        X : array-like of shape (..., n) or (...) + shape
            Entries are 0 or 1. A row that contradicts a fixed element has probability 0.
        side : {"auto", "exact", "lower", "upper"}
            "auto" and "exact" use log Z by the method of this name; "lower" and "upper" use the
            upper and the lower end of `bracket`.
        **options
            Options of `log_partition` with that method, or of `bracket`.

        Returns
        -------
        float or ndarray of shape (...)

        Examples
        --------
        >>> import numpy as np
        >>> import logsuper as ls
        >>> m = ls.LogSupermodular(ls.Cut(2, [(0, 1)], 1.0))
        >>> np.exp(m.log_prob([[0, 0], [0, 1], [1, 0], [1, 1]])).round(3)
        array([0.366, 0.134, 0.134, 0.366])
        """
        X = check_binary(as_rows(X, self.shape), self.n)
        if check_choice(side, "side", ("auto", "exact", "lower", "upper")) in ("auto", "exact"):
            log_z = self.log_partition(side, **options).value
        else:
            found = self.bracket(**options)
            log_z = found.upper if side == "lower" else found.lower
        free = X[..., self.free]
        values = self.constant - log_z - np.asarray(self.f(free))
        if side in ("lower", "upper") and self.f.n:
            # a bound on rounding errors, here and in the value of f
            _, errors = self.f._values_within(free.reshape(-1, self.f.n).astype(np.float64))
            errors = errors.reshape(values.shape)
            errors = errors + 4.0 * EPS * (abs(self.constant) + abs(log_z) + np.abs(values))
            values = values - errors if side == "lower" else values + errors
        for element, value in self.fixed.items():
            values = np.where(X[..., element] == value, values, -np.inf)
        return float(values) if X.ndim == 1 else values

    # -------------------------------------------------------------------------------- sampling

    def sample(
        self, n_samples: int = 1, method: str = "cftp", seed: Seed = None, **options: Any
    ) -> NDArray[np.uint8]:
        """Draw samples, by default exact ones.

        Parameters
        ----------
        n_samples : int, default 1
        method : {"cftp", "ancestral", "rejection", "gibbs", "swendsen_wang", "perturb"}
            "cftp" (coupling from the past) is exact, and raises `NotCoalesced` if it would take
            too long. "ancestral", for trees, and "rejection" are exact too; the others are
            approximate.
        seed : int, Generator or None
            The same seed gives the same samples for any number of threads.
        **options
            Options of the sampler, such as ``n_jobs``. All samplers have a ``budget`` (by default
            1e13 elementary operations of about a nanosecond) and a ``callback``, which is called
            with a `sampling.Progress` at least once per second and at the end; an exception that
            it raises ends the run.

        Returns
        -------
        ndarray of shape (n_samples,) + shape, uint8

        Raises
        ------
        TooLarge
            Before any work, if the sampler is certain to exceed its budget.
        NotCoalesced
            If "cftp" would have to go further back than its budget or ``max_iter`` allow.

        Examples
        --------
        >>> import logsuper as ls
        >>> m = ls.LogSupermodular(ls.Cut(3, [(0, 1), (1, 2)], 2.0))
        >>> X = m.sample(1000, seed=0)
        >>> X.shape, bool(abs(X.mean() - 0.5) < 0.05)
        ((1000, 3), True)
        """
        options = self._flat_starts(options)
        return self._spread(sampling.sample(self.f, n_samples, method, seed=seed, **options))

    # ------------------------------------------------------------------------- new distributions

    def condition(self, fixed: Mapping[Any, int]) -> LogSupermodular:
        r"""Fix some elements.

        Parameters
        ----------
        fixed : mapping of int, or of tuple of int, to {0, 1}
            Values of elements, given by their numbers or, as in ``{(3, 4): 1}``, by their places.

        Returns
        -------
        LogSupermodular
            Its log Z is the sum over the states that agree: ``logaddexp`` over both values of one
            element is the log Z of this model. Modes, marginals and samples keep the shape.

        Examples
        --------
        >>> import numpy as np
        >>> import logsuper as ls
        >>> m = ls.LogSupermodular(ls.Cut(3, [(0, 1), (1, 2)], [1.0, 2.0]))
        >>> parts = [m.condition({1: value}).log_partition().value for value in (0, 1)]
        >>> bool(np.isclose(np.logaddexp(*parts), m.log_partition().value))
        True
        """
        elements, values = check_fixed(by_number(fixed, self.shape), self.n)
        chosen = {int(i): int(v) for i, v in zip(elements, values, strict=True)}
        for element, value in chosen.items():
            if self.fixed.get(element, value) != value:
                raise ValueError(
                    f"fixed[{element}] = {value}, but this element was fixed to "
                    f"{self.fixed[element]} before: the event has probability 0"
                )
        place = {int(element): k for k, element in enumerate(self.free)}
        new = {place[i]: v for i, v in chosen.items() if i in place}
        g, constant = self.f.condition(new)
        return self._derived(g, self.constant - constant, {**self.fixed, **chosen})

    def observe(self, channel: Observation, observed: ArrayLike) -> LogSupermodular:
        r"""Return the posterior given a noisy observation of x.

        The paper's joint model (eq. 6): :math:`p(x\mid z)\propto e^{-f(x)}\prod_dp(z_d\mid x_d)`.
        A channel only adds a modular term to f.

        Parameters
        ----------
        channel : Flips, AsymmetricFlips, Gaussian or Missing
        observed : array-like of the shape of the model, or with n entries
            NaN, or a masked entry of a masked array, means that nothing was observed.

        Returns
        -------
        LogSupermodular
            Its log Z less that of this model is :math:`\log p(z)`. An element whose value the
            observation leaves no doubt about is fixed.

        Examples
        --------
        >>> import logsuper as ls
        >>> m = ls.LogSupermodular(ls.Cut(3, [(0, 1), (1, 2)], 1.0))
        >>> posterior = m.observe(ls.Flips(0.1), [1, float("nan"), 0])
        >>> posterior.marginals().values.round(3)
        array([0.864, 0.5  , 0.136])
        >>> log_p = posterior.log_partition().value - m.log_partition().value
        """
        if isinstance(channel, type) or not isinstance(channel, Observation):
            raise TypeError(
                f"channel must be a channel such as Flips(0.1), got a {type(channel).__name__}"
            )
        zero, one = channel.log_likelihoods(observed)
        if np.size(zero) != self.n:
            raise ValueError(
                f"observed has {np.size(zero)} entries, but the model has {self.n} elements"
            )
        if np.ndim(zero) > 1 and len(self.shape) > 1 and np.shape(zero) != self.shape:
            raise ValueError(
                f"observed has shape {np.shape(zero)}, but the model has shape {self.shape}"
            )
        zero, one = np.ravel(zero), np.ravel(one)
        certain = {int(d): int(zero[d] < one[d]) for d in np.flatnonzero(np.isinf(one - zero))}
        for d, value in certain.items():
            if self.fixed.get(d, value) != value:
                raise ValueError(
                    f"observed[{d}] rules out the value {1 - value} that the element is fixed to"
                )
        seen = np.array([d not in certain and d not in self.fixed for d in range(self.n)], bool)
        settled = {**self.fixed, **certain}
        total = float(zero[seen].sum())
        total += float(sum((one if value else zero)[d] for d, value in settled.items()))
        odds = np.zeros(self.n)
        odds[seen] = one[seen] - zero[seen]
        posterior = self._derived(
            self.f - Modular(odds[self.free]), self.constant + total, self.fixed
        )
        return posterior.condition(certain) if certain else posterior

    # ------------------------------------------------------------------------------------ inside

    def _derived(
        self, f: SubmodularFunction, constant: float, fixed: dict[int, int]
    ) -> LogSupermodular:
        """Return a model of the same elements with another function of the free ones."""
        other = LogSupermodular(f, constant)
        other.n, other.shape = self.n, self.shape
        other.fixed = fixed
        other.free = frozen(np.setdiff1d(np.arange(self.n, dtype=np.int64), list(fixed)))
        return other

    def _spread(self, values: NDArray[Any], known: bool = True) -> NDArray[Any]:
        """Return values of free elements in the shape of the model; fixed ones are known, or 0."""
        out = values
        if self.fixed:
            out = np.zeros((*values.shape[:-1], self.n), dtype=values.dtype)
            out[..., self.free] = values
            if known:
                out[..., list(self.fixed)] = list(self.fixed.values())
        return out.reshape(*values.shape[:-1], *self.shape)

    def _flat_starts(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return options with initial states in the shape of the model reduced to free elements."""
        starts = {
            name: as_rows(options[name], self.shape)
            for name in ("start", "starts")
            if options.get(name) is not None
        }
        whole = {name: x[..., self.free] for name, x in starts.items() if x.shape[-1:] == (self.n,)}
        return {**options, **whole}

    def __repr__(self) -> str:
        fixed = f", {len(self.fixed)} fixed" if self.fixed else ""
        constant = f", constant={self.constant:g}" if self.constant else ""
        return f"LogSupermodular({self.f!r}{constant}{fixed})"
