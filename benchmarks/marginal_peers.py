"""Packages that compute marginals of pairwise models."""

from __future__ import annotations

import importlib
import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.tuning import Setting
from benchmarks.workloads import Floats, Graph


class PGMax:
    """Loopy belief propagation in JAX, in single precision, compiled as one function of the field.

    The times do not include compilation: the names of the settings state how long it took.
    """

    name = "PGMax"
    package = "pgmax"
    iterations = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)

    def __init__(self, shape: tuple[int, int], alpha: Floats, graph: Graph) -> None:
        # One thread, as for ours; JAX reads this when it is first imported.
        os.environ.setdefault(
            "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        )
        os.environ.setdefault("NPROC", "1")
        self._jax = importlib.import_module("jax")
        self._infer = importlib.import_module("pgmax.infer")
        fgraph, fgroup, vgroup = (
            importlib.import_module(f"pgmax.{part}") for part in ("fgraph", "fgroup", "vgroup")
        )
        self._variables = vgroup.NDVarArray(num_states=2, shape=(graph.n,))
        model = fgraph.FactorGraph(self._variables)
        model.add_factors(
            fgroup.PairwiseFactorGroup(
                variables_for_factors=[
                    [self._variables[int(i)], self._variables[int(j)]] for i, j in graph.edges
                ],
                log_potential_matrix=-graph.weights[:, None, None] * (1.0 - np.eye(2)),
            )
        )
        self._bp = self._infer.BP(model.bp_state)
        self._example = np.zeros(graph.n, dtype=np.float32)

    def _setting(self, iterations: int, damping: float) -> Setting:
        jnp, bp, variables = self._jax.numpy, self._bp, self._variables

        def run(t: Any) -> Any:
            evidence = jnp.stack([jnp.zeros_like(t), t], axis=-1)
            arrays = bp.init(evidence_updates={variables: evidence})
            arrays = bp.run(arrays, num_iters=iterations, damping=damping, temperature=1.0)
            return self._infer.get_marginals(bp.get_beliefs(arrays))[variables][:, 1]

        start = time.perf_counter()
        compiled = self._jax.jit(run).lower(self._example).compile()
        spent = time.perf_counter() - start
        name = f"{iterations} iterations, damping {damping:g}, compiled in {spent:.2g} s"
        return Setting(name, lambda t: np.asarray(compiled(t.astype(np.float32)), dtype=np.float64))

    def default(self) -> Setting:
        """Return 100 iterations and the package's own damping, as in its examples."""
        return self._setting(100, 0.5)

    def ladders(self) -> Iterator[Iterator[Setting]]:
        """Return the undamped and the damped iteration, with increasing numbers of iterations."""
        for damping in (0.0, 0.5):
            yield (self._setting(k, damping) for k in self.iterations)


class Pgmpy:
    """The calibrated junction tree; marginals are sums of the beliefs of the cliques."""

    name = "pgmpy"
    package = "pgmpy"

    def __init__(self, graph: Graph) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            models, factors, inference = (
                importlib.import_module(f"pgmpy.{part}")
                for part in ("models", "factors.discrete", "inference")
            )
        self._network, self._factor = models.DiscreteMarkovNetwork, factors.DiscreteFactor
        self._propagation = inference.BeliefPropagation
        self._graph = graph

    def solve(self, theta: Floats) -> Floats:
        """Build, calibrate and read one model."""
        edges = self._graph.edges.tolist()
        model = self._network(edges)
        model.add_factors(
            *[self._factor([k], [2], [1.0, np.exp(t)]) for k, t in enumerate(theta)],
            *[
                self._factor(edge, [2, 2], np.exp([0.0, -w, -w, 0.0]))
                for edge, w in zip(edges, self._graph.weights, strict=True)
            ],
        )
        propagation = self._propagation(model)
        propagation.calibrate()
        found = np.full(len(theta), np.nan)
        for clique, belief in propagation.get_clique_beliefs().items():
            for k in clique:
                if np.isnan(found[k]):
                    others = [other for other in clique if other != k]
                    values = belief.marginalize(others, inplace=False).values
                    found[k] = values[1] / values.sum()
        return found
