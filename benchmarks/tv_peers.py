"""Solvers of argmin_w 1/2 |w - t|^2 + sum_e w_e |w_i - w_j|, the negative of the L-field's s."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.tuning import Iterative, Setting
from benchmarks.workloads import Floats, Graph


class ProxTV:
    """Splitting into rows and columns, each solved exactly; six methods if weights are equal."""

    name = "prox_tv"
    package = "prox_tv"
    iterations = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000, 5000)

    def __init__(self, shape: tuple[int, int], alpha: Floats, graph: Graph) -> None:
        self._module = importlib.import_module("prox_tv")
        self._shape = shape
        self._across, self._down = map(float, alpha)
        self._columns = np.full((shape[0] - 1, shape[1]), self._down)
        self._rows = np.full((shape[0], shape[1] - 1), self._across)

    def _calls(self) -> dict[str, Callable[[Floats, int], Floats]]:
        """Return the methods that support the weights; 0 iterations stands for its default."""
        m, across, down = self._module, self._across, self._down
        calls = {
            "weighted dr": lambda x, k: m.tv1w_2d(x, self._columns, self._rows, max_iters=k),
            "pd": lambda x, k: m.tvgen(x, [down, across], [1, 2], [1, 1], max_iters=k),
        }
        if across == down:
            for method in ("dr", "pd", "yang", "condat", "chambolle-pock", "kolmogorov"):
                calls[method] = lambda x, k, name=method: m.tv1_2d(  # type: ignore[misc]
                    x, down, max_iters=k, method=name
                )
        return calls

    def _setting(self, method: str, call: Callable[[Floats, int], Floats], k: int) -> Setting:
        name = f"{method}, {f'{k} iterations' if k else 'its own number of iterations'}"
        return Setting(name, lambda t: np.ravel(call(t.reshape(self._shape), k)))

    def default(self) -> Setting:
        """Return Douglas-Rachford with the library's own stopping rule."""
        method = "dr" if self._across == self._down else "weighted dr"
        return self._setting(method, self._calls()[method], 0)

    def ladders(self) -> Iterator[Iterator[Setting]]:
        """Return every method with increasing numbers of iterations."""
        for method, call in self._calls().items():
            yield (self._setting(method, call, k) for k in self.iterations)


class OSQP:
    """A general quadratic solver on the dual: flows bounded by the weights, t minus divergence.

    Two formulations, with and without w as a variable; set up and factorised once, and only t is
    replaced. Solves are not warm-started, since the fields are unrelated.
    """

    name = "OSQP"
    package = "osqp"
    tolerances = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)

    def __init__(self, shape: tuple[int, int], alpha: Floats, graph: Graph) -> None:
        self._osqp = importlib.import_module("osqp")
        self._sparse = importlib.import_module("scipy.sparse")
        self._weights = graph.weights
        edges = np.arange(len(graph.edges))
        self._differences = self._sparse.csr_matrix(
            (
                np.repeat([1.0, -1.0], len(edges)),
                (np.tile(edges, 2), graph.edges.T.ravel()),
            ),
            shape=(len(edges), graph.n),
        )

    def _solver(self, *problem: object, tolerance: float | None) -> object:
        solver = self._osqp.OSQP()
        accuracy = {} if tolerance is None else {"eps_abs": tolerance, "eps_rel": tolerance}
        solver.setup(*problem, verbose=False, warm_starting=False, max_iter=100_000, **accuracy)
        return solver

    def _split(self, tolerance: float | None) -> Setting:
        """Minimise 1/2 |w|^2 over w + D'xi = t, |xi| <= weights."""
        sparse, d, c = self._sparse, self._differences, self._weights
        m, n = d.shape
        identity = sparse.identity
        quadratic = sparse.block_diag([identity(n), sparse.csc_matrix((m, m))], format="csc")
        rows = sparse.bmat([[identity(n), d.T], [None, identity(m)]], format="csc")
        low, high = np.concatenate([np.zeros(n), -c]), np.concatenate([np.zeros(n), c])
        solver = self._solver(quadratic, np.zeros(n + m), rows, low, high, tolerance=tolerance)

        def solve(t: Floats) -> Floats:
            solver.update(l=np.concatenate([t, -c]), u=np.concatenate([t, c]))  # type: ignore[attr-defined]
            return np.asarray(solver.solve().x[:n])  # type: ignore[attr-defined]

        return Setting(f"split, tolerance {tolerance or 'its own'}", solve)

    def _box(self, tolerance: float | None) -> Setting:
        """Minimise 1/2 |t - D'xi|^2 over |xi| <= weights."""
        d, c = self._differences, self._weights
        quadratic = self._sparse.triu(d @ d.T, format="csc")
        rows = self._sparse.identity(len(c), format="csc")
        solver = self._solver(quadratic, np.zeros(len(c)), rows, -c, c, tolerance=tolerance)

        def solve(t: Floats) -> Floats:
            solver.update(q=-(d @ t))  # type: ignore[attr-defined]
            return np.asarray(t - d.T @ solver.solve().x)  # type: ignore[attr-defined]

        return Setting(f"box, tolerance {tolerance or 'its own'}", solve)

    def default(self) -> Setting:
        """Return the solver's own tolerance."""
        return self._split(None)

    def ladders(self) -> Iterator[Iterator[Setting]]:
        """Return both formulations with decreasing tolerances."""
        for form in (self._split, self._box):
            yield (form(tolerance) for tolerance in self.tolerances)


TV_PEERS: list[type[Iterative]] = [ProxTV, OSQP]
