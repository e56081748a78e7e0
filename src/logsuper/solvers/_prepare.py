"""Repeated maximisation over one set of functions with changing fields and weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import (
    Bits,
    FloatArray,
    IntArray,
    Seed,
    as_list,
    check_flag,
    check_integer,
    check_limit,
    count_threads,
    refuse,
    stream_key,
)
from logsuper.functions import SubmodularFunction
from logsuper.solvers._conditional import ROUNDS, adder, average
from logsuper.solvers._direct import MinNorm, Sorting
from logsuper.solvers._flips import LabelLosses, check_labels, find_losses
from logsuper.solvers._flow import Flow
from logsuper.solvers._problems import (
    Noise,
    Perturbed,
    Problems,
    Solved,
    check_alpha,
    check_batch,
    check_edge_weights,
    check_numbers,
    check_theta,
    check_tie,
    refuse_nan,
)
from logsuper.solvers._workspace import require_arrays
from logsuper.structures import find_structure

# Sums of n numbers stay finite if each is below this limit divided by n.
_LARGEST = float(np.finfo(np.float64).max) / 8


SOLVERS: tuple[type[Sorting] | type[Flow] | type[MinNorm], ...] = (Sorting, Flow, MinNorm)
"""Solvers in the order in which they are asked whether they can take some functions."""


class Prepared:
    r"""Solver of :math:`\max_y\theta^\top y-\sum_k\alpha_kf_k(y)` for fixed functions :math:`f_k`.

    Use `prepare` to create one. The solver is chosen once, from the structure of the functions:

    ============== ====================================================================
    ``solver``     when
    ============== ====================================================================
    "sorting"      all modular, or one concave cardinality or concave-of-modular term
    "grid"         all cuts lie on one regular grid (images and volumes)
    "graph"        any other sum of graph-representable functions
    "min_norm"     anything else (log-determinants, callables)
    ============== ====================================================================

    Attributes
    ----------
    functions : tuple of SubmodularFunction
    n : int
        Size of the ground set.
    solver : str

    Examples
    --------
    >>> import logsuper as ls
    >>> s = ls.prepare(ls.grid_cuts((2, 2)))
    >>> s
    Prepared([Cut(n=4, edges=2, shape=(2, 2)), Cut(n=4, edges=2, shape=(2, 2))], solver='grid')
    >>> s.edges.tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """

    def __init__(
        self, functions: Iterable[SubmodularFunction], memory_limit: float | None = None
    ) -> None:
        if isinstance(functions, SubmodularFunction):
            raise TypeError("functions must be a list of functions; write prepare([f]) for one")
        listed: list[SubmodularFunction] = as_list(functions, "functions", "a list of functions")
        self.functions = tuple(listed)
        if not self.functions:
            raise ValueError("functions is empty; give at least one, Modular(zeros(n)) for none")
        for k, f in enumerate(self.functions):
            if not isinstance(f, SubmodularFunction):
                raise TypeError(f"functions[{k}] is a {type(f).__name__}, not a function")
            if f.n != self.functions[0].n:
                raise ValueError(
                    f"functions[{k}] has n = {f.n}, but functions[0] has n = {self.functions[0].n}"
                )
        self.n = self.functions[0].n
        self.structure = find_structure(self.functions)
        limit = check_limit(memory_limit)
        built = (solver.build(self.structure, limit) for solver in SOLVERS)
        self._solver = next(solver for solver in built if solver is not None)
        self._flow = self._solver if isinstance(self._solver, Flow) else None

    @property
    def solver(self) -> str:
        """The name of the solver that was chosen."""
        return self._solver.name

    @property
    def edges(self) -> IntArray:
        """The edges (E, 2) of all cuts, in the order that ``edge_weights`` refers to."""
        return self._solver.edges

    def maximize(
        self,
        theta: ArrayLike,
        alpha: ArrayLike,
        edge_weights: ArrayLike | None = None,
        n_jobs: int | None = None,
        tie: str | None = None,
        memory_limit: float | None = None,
    ) -> Solved:
        r"""Solve :math:`\max_y\theta^\top y-\sum_k\alpha_kf_k(y)` for a batch of problems.

        Parameters
        ----------
        theta : array-like of shape (n,) or (M, n)
            Fields. An infinite entry fixes its element; the value then sums the finite terms.
        alpha : array-like of shape (K,) or (M, K)
            Weights >= 0 of the functions.
        edge_weights : array-like of shape (E,), (M, E) or (M, K, E), optional
            Factors >= 0 on the edges of the cuts, in the order of `edges`, per problem and, with
            three axes, per function: edge e has weight :math:`w_{ke}\,\phi_{me}` (or
            :math:`w_{ke}\,\phi_{mke}`) in function k of problem m.
        n_jobs : int, optional
            Number of threads over the problems of a max-flow, one by default; -1 for all
            processors. It does not change the result. Sorting and the min-norm point use one
            thread.
        tie : {None, "min", "max"}, optional
            Return the smallest or the largest of several maximisers.
        memory_limit : float, optional
            Number of bytes that the call may use; the available memory by default. A call that
            needs more raises a MemoryError before any work.

        Returns
        -------
        y : ndarray of shape (n,) or (M, n), uint8
            Maximisers.
        value : float or ndarray of shape (M,)
        stats : ndarray of shape (K,) or (M, K)
            :math:`f_k(y)`, including the factors on the edges.

        Examples
        --------
        >>> import logsuper as ls
        >>> s = ls.prepare(ls.grid_cuts((2, 3)))
        >>> y, value, stats = s.maximize([2, 2, -1, 1, -1, -3], alpha=[1.0, 0.5])
        >>> y, value, stats
        (array([1, 1, 0, 1, 0, 0], dtype=uint8), 2.5, array([2., 1.]))
        """
        problems = self._check(theta, alpha, edge_weights)
        check_tie(tie)
        threads = count_threads(n_jobs)
        limit = check_limit(memory_limit)
        single = max(np.ndim(theta), np.ndim(alpha)) < 2
        single &= edge_weights is None or np.ndim(edge_weights) < 2
        count = problems.size
        if self.n == 0 or count == 0:
            y = np.empty((count, self.n), dtype=np.uint8)
            values, stats = np.zeros(count), np.zeros((count, len(self.functions)))
        elif isinstance(self._solver, Flow):
            with _explaining_nan(theta):
                y, values, stats = self._solver.maximize(problems, tie, threads, limit)
        else:
            require_arrays("maximize", 18.0 * count * self.n, limit)
            self._refuse_unfit(theta)
            y, values, stats = self._solver.maximize(problems, tie)
        if not np.isfinite(values).all():
            self._refuse_unfit(theta)
        return Solved(y[0], float(values[0]), stats[0]) if single else Solved(y, values, stats)

    def perturb(
        self,
        theta: ArrayLike,
        alpha: ArrayLike,
        n_samples: int,
        seed: Seed,
        return_samples: bool = False,
        edge_weights: ArrayLike | None = None,
        first_sample: int = 0,
        numbers: ArrayLike | None = None,
        n_jobs: int | None = None,
        memory_limit: float | None = None,
    ) -> Perturbed:
        r"""Solve every problem under repeated logistic noise on its fields, and average.

        The noise comes from a counter-based generator in the kernel: the draw for element d of
        sample s of problem m depends on (`seed`, m, s, d) only, not on the number of threads, and
        is never stored.

        Parameters
        ----------
        theta : array-like of shape (n,) or (M, n)
            Fields, to which the noise is added.
        alpha : array-like of shape (K,) or (M, K)
        n_samples : int
            Number of perturbations per problem.
        seed : int, Generator or None
            An integer below 2**64 is the key of the noise; the same key gives the same noise.
        return_samples : bool
            Whether to return the maximisers themselves.
        edge_weights : array-like, optional
            As in `maximize`.
        first_sample : int
            Number of the first sample, to continue a stream.
        numbers : array-like of shape (M,), int, optional
            Numbers >= 0 of the problems, 0, ..., M - 1 by default. The noise of a problem depends
            on its number, not on its position in a batch.
        n_jobs : int, optional
            Number of threads over problems and samples.
        memory_limit : float, optional
            As in `maximize`.

        Returns
        -------
        Perturbed
            Means of the maximisers and of the functions, and all values. The first axis is that of
            the problems, for a single field too.

        Examples
        --------
        >>> import numpy as np
        >>> import logsuper as ls
        >>> s = ls.prepare([ls.Cut(2, [(0, 1)])])
        >>> out = s.perturb(np.zeros(2), alpha=[1.0], n_samples=100_000, seed=1)
        >>> abs(out.stats[0, 0] - 2 / (1 + np.e) ** 2) < 0.01  # 2 sigma(-alpha)^2
        np.True_
        """
        problems = self._check(theta, alpha, edge_weights)
        noise = _check_noise(n_samples, seed, numbers, problems, first_sample)
        threads = count_threads(n_jobs)
        limit = check_limit(memory_limit)
        check_flag(return_samples, "return_samples")
        count, samples = problems.size, noise.samples
        if self.n == 0 or count == 0:
            kept = np.empty((count, samples, self.n), np.uint8) if return_samples else None
            stats, values = np.zeros((count, len(self.functions))), np.zeros((count, samples))
            return Perturbed(np.zeros((count, self.n)), stats, values, kept)
        if isinstance(self._solver, Flow):
            with _explaining_nan(theta):
                return self._solver.perturb(problems, noise, return_samples, threads, limit)
        size = samples * self.n * (33.0 + count * return_samples) + 8.0 * count * (self.n + samples)
        require_arrays("perturb", size, limit)
        self._refuse_unfit(theta)
        return self._solver.perturb(problems, noise, return_samples)

    def conditional_means(
        self,
        theta: ArrayLike,
        alpha: ArrayLike,
        n_samples: int,
        seed: Seed,
        rounds: int = ROUNDS,
        edge_weights: ArrayLike | None = None,
        numbers: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> FloatArray:
        r"""Return smoothed probabilities that each element is 1 in a perturbed maximiser.

        This is the mean over samples of :math:`P(y_d=1\mid z_{-d})`, the probability of an element
        given the noise of all others. It estimates the same probability as the frequencies
        ``perturb(...).mean``, with less variance, and is never 0 or 1 unless an infinite field
        fixes the element. The first round of messages lets the neighbours of an element react to a
        change of it, the second round their neighbours. With 0 rounds, and for functions other
        than cuts and modular terms, all other elements keep their values.

        Parameters
        ----------
        theta, alpha, n_samples, seed, edge_weights, numbers, n_jobs
            As in `perturb`, with the same noise.
        rounds : int, default 2
            Number of message rounds. More rounds are closer to the distribution of the maximisers;
            enough rounds are exact on trees.

        Returns
        -------
        ndarray of shape (M, n)

        Examples
        --------
        >>> import logsuper as ls
        >>> s = ls.prepare([ls.Cut(3, [(0, 1), (1, 2)])])
        >>> theta, alpha = [4.0, 3.0, 3.0], [2.0]
        >>> s.perturb(theta, alpha, n_samples=20, seed=0).mean  # frequencies
        array([[1., 1., 1.]])
        >>> s.conditional_means(theta, alpha, n_samples=20, seed=0).round(3)
        array([[0.997, 0.997, 0.993]])
        >>> s.perturb(theta, alpha, n_samples=1_000_000, seed=1).mean.round(3)
        array([[0.997, 0.997, 0.992]])
        """
        problems = self._check(theta, alpha, edge_weights)
        noise = _check_noise(n_samples, seed, numbers, problems)
        depth = check_integer(rounds, "rounds", 0, 2**20)
        threads = count_threads(n_jobs)
        sums = np.zeros((problems.size, self.n))
        if sums.size == 0:
            return sums
        field, weights, factors, _ = problems
        key, names = noise.key, noise.numbers

        def draw(first: int, size: int) -> Bits:
            found = self.perturb(field, weights, size, key, True, factors, first, names, n_jobs)
            assert found.samples is not None
            return found.samples

        add = adder(self._flow, self.functions, problems, noise, depth, threads, sums)
        return average(draw, add, sums, noise.samples, field)

    def label_losses(
        self,
        theta: ArrayLike,
        alpha: ArrayLike,
        labels: ArrayLike,
        costs: ArrayLike = (1.0, 1.0),
        *,
        n_samples: int,
        seed: Seed,
        edge_weights: ArrayLike | None = None,
        numbers: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> LabelLosses:
        r"""Return the weighted log loss of each element's own label, and its slopes.

        Probabilities are those of `conditional_means`, here with every other element free to
        react. With equal costs c the loss is :math:`-c\sum_d\log P(y_d=x_d)`.

        Parameters
        ----------
        theta, alpha, n_samples, seed, edge_weights, numbers, n_jobs
            As in `perturb`, with the same noise.
        labels : array-like of shape (n,) or (M, n)
            0 or 1; 2 or NaN for an element without a label.
        costs : array-like of shape (2,), (n, 2) or (M, n, 2)
            Of a false one and of a false zero. The loss is least at the true probabilities
            whatever they are, and cares most about those near the first over their sum.

        Returns
        -------
        LabelLosses

        Examples
        --------
        >>> import logsuper as ls
        >>> s = ls.prepare([ls.Cut(2, [(0, 1)])])
        >>> s.label_losses([0.5, 0.0], [0.0], [1, 2], n_samples=1, seed=0).values  # -log sigma(1/2)
        array([0.47407698])
        """
        problems = self._check(theta, alpha, edge_weights)
        noise = _check_noise(n_samples, seed, numbers, problems)
        self._refuse_unfit(theta)
        x, price = check_labels(
            np.broadcast_to(problems.theta, (problems.size, self.n)), labels, costs
        )
        return find_losses(self._solver, problems, noise, x, price, count_threads(n_jobs))

    def _refuse_unfit(self, theta: ArrayLike) -> None:
        """Raise a ValueError that names a NaN, or a field so large that sums overflow."""
        fields = np.asarray(theta, dtype=np.float64)
        refuse_nan(fields)
        large = np.isfinite(fields) & (np.abs(fields) > _LARGEST / self.n)
        refuse(large, fields, "theta", "sums overflow; rescale f and theta")

    def _check(
        self, theta: ArrayLike, alpha: ArrayLike, edge_weights: ArrayLike | None
    ) -> Problems:
        """Return the problems; a NaN in theta is left for the kernel to find."""
        field, _ = check_theta(theta, self.n, allow_nan=True)
        weights = check_alpha(alpha, len(self.functions))
        lengths = {"theta": len(field), "alpha": len(weights)}
        factors = None
        if edge_weights is not None:
            if not len(self.edges):
                raise ValueError(
                    f"edge_weights was given, but the solver {self.solver!r} of these functions "
                    "has no edges; it needs cuts, and a graph for every function"
                )
            factors = check_edge_weights(edge_weights, len(self.functions), len(self.edges))
            lengths["edge_weights"] = len(factors)
        return Problems(field, weights, factors, check_batch(**lengths))

    def __reduce__(self) -> tuple[Any, ...]:
        return prepare, (self.functions,)

    def __repr__(self) -> str:
        listed = ", ".join(map(repr, self.functions))
        return f"Prepared([{listed}], solver={self.solver!r})"


def _check_noise(
    n_samples: int,
    seed: Seed,
    numbers: ArrayLike | None,
    problems: Problems,
    first_sample: int = 0,
) -> Noise:
    samples = check_integer(n_samples, "n_samples", 1, 2**31)
    first = check_integer(first_sample, "first_sample", 0, 2**32 - samples + 1)
    key = stream_key(seed)
    return Noise(key, check_numbers(numbers, problems.size), first, samples)


@contextlib.contextmanager
def _explaining_nan(theta: ArrayLike) -> Iterator[None]:
    """Name the NaN that a kernel found; a check before the call would read all fields twice."""
    try:
        yield
    except ValueError:
        refuse_nan(np.asarray(theta, dtype=np.float64))
        raise


def prepare(functions: Iterable[SubmodularFunction], memory_limit: float | None = None) -> Prepared:
    """Prepare functions for many maximisations with different fields and weights.

    Parameters
    ----------
    functions : iterable of SubmodularFunction
        At least one, all on the same ground set.
    memory_limit : float, optional
        Number of bytes that building the structure may use, as in `~Prepared.maximize`.

    Returns
    -------
    Prepared
        With the methods `~Prepared.maximize` and `~Prepared.perturb`.

    Examples
    --------
    >>> import logsuper as ls
    >>> ls.prepare(ls.grid_cuts((50, 50))).solver
    'grid'
    >>> ls.prepare([ls.Cut(3, [(0, 1)]), ls.PnPotts(3, [[0, 1, 2]])]).solver
    'graph'
    """
    return Prepared(functions, memory_limit)
