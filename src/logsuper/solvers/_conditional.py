r"""Probabilities of perturbed maximisers, with the noise of each element integrated out.

The maximiser of :math:`(\theta+z)^\top y-f(y)` has :math:`y_d=1` if :math:`z_d>-m_d`, with

.. math:: m_d=\theta_d+\max_{y:\,y_d=1}\Big[\sum_{j\ne d}(\theta_j+z_j)y_j-f(y)\Big]
          -\max_{y:\,y_d=0}\Big[\sum_{j\ne d}(\theta_j+z_j)y_j-f(y)\Big],

which does not depend on :math:`z_d`. As z is standard logistic,
:math:`P(y_d=1\mid z_{-d})=\sigma(m_d)`: its mean over samples estimates the same probability as
the frequency of ones, with less variance (Rao-Blackwell), and is never 0 or 1. The exact
:math:`m_d` needs one more maximisation per element. Instead, only elements within a few steps of d
react to a change of :math:`y_d`; all others keep their value in the maximiser:

- for pairwise functions by `rounds` of max-product messages, exact on trees with enough rounds (the
  formula is in ``conditional.hpp``);
- for other functions no element reacts, :math:`m_d=\theta_d-[f(y,y_d=1)-f(y,y_d=0)]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.special import expit

from logsuper._base import Bits, FloatArray, IntArray
from logsuper.functions import SubmodularFunction
from logsuper.solvers._direct import weighted_sum
from logsuper.solvers._flow import Flow
from logsuper.solvers._native import kernels
from logsuper.solvers._precision import tilted
from logsuper.solvers._problems import Noise, Problems, some_rows

ROUNDS = 2
"""Default number of message rounds; `python -m benchmarks.probabilities` compares other numbers."""

# Minimum distance of a probability from 0 and 1: the resolution of single precision, which the
# kernels use.
_LEAST = 2.0**-24
# Bytes of samples kept in memory at a time.
_SAMPLE_BYTES = 1 << 26

Add = Callable[[Bits, int], None]


def average(
    draw: Callable[[int, int], Bits],
    add: Add,
    sums: FloatArray,
    samples: int,
    theta: FloatArray,
) -> FloatArray:
    """Return the mean over samples; elements with an infinite field are 0 or 1.

    ``draw(first, count)`` returns maximisers (M, count, n), and ``add(labels, first)`` adds their
    probabilities to `sums`.
    """
    step = max(1, _SAMPLE_BYTES // max(1, sums.size))
    for first in range(0, samples, step):
        add(draw(first, min(step, samples - first)), first)
    found = np.clip(sums / samples, _LEAST, 1.0 - _LEAST)
    return np.where(np.isinf(theta), theta > 0, found)


def adder(
    flow: Flow | None,
    functions: Sequence[SubmodularFunction],
    problems: Problems,
    noise: Noise,
    rounds: int,
    threads: int,
    sums: FloatArray,
) -> Add:
    """Return a function ``add(labels, first)`` that adds sigma(m_d) to the sums (M, n)."""
    if flow is None:
        return lambda labels, first: _add_by_gains(functions, problems, labels, sums)
    couplings = flow.couplings(problems)
    own = tilted(flow.structure, problems)
    fields = np.ascontiguousarray(np.broadcast_to(own, sums.shape))
    if not flow.simple:
        return lambda labels, first: _add_with_groups(
            flow, couplings, fields, problems.alpha, labels, sums
        )
    native = kernels()
    if native is None:
        return lambda labels, first: _add_on_graph(
            couplings, fields, labels, noise._replace(first=first), rounds, sums
        )
    run = native.conditional_grid if flow.regular else native.conditional_graph
    return lambda labels, first: run(
        *couplings, fields, labels, noise.numbers, noise.key, first, rounds, threads, sums
    )


def _add_by_gains(
    functions: Sequence[SubmodularFunction], problems: Problems, labels: Bits, sums: FloatArray
) -> None:
    """Add the probabilities for functions without a graph."""
    for m, y in enumerate(labels):
        one = problems.rows([m])
        sums[m] += expit(one.theta - weighted_sum(one.alpha[0], functions).gains(y)).sum(axis=0)


def _add_with_groups(
    flow: Flow,
    couplings: tuple[IntArray, FloatArray],
    fields: FloatArray,
    alpha: FloatArray,
    labels: Bits,
    sums: FloatArray,
) -> None:
    """Add the probabilities for graphs with auxiliary nodes, whose values samples do not have."""
    ends, weights = couplings
    for m, y in enumerate(labels):
        edge = some_rows(weights, [m])[0]
        graph = coo_array((edge, (ends[:, 0], ends[:, 1])), shape=(flow.n, flow.n)).tocsr()
        logits = fields[m] + (graph + graph.T).dot(2.0 * y.T - 1.0).T
        for k, other in flow.structure.others:
            logits -= some_rows(alpha, [m])[0, k] * other.gains(y)
        sums[m] += expit(logits).sum(axis=0)


def _add_on_graph(
    couplings: tuple[IntArray, FloatArray],
    fields: FloatArray,
    labels: Bits,
    noise: Noise,
    rounds: int,
    sums: FloatArray,
) -> None:
    """Add the probabilities for pairwise functions, in NumPy, if there are no compiled kernels."""
    (i, j), weights = couplings[0].T, couplings[1]
    for m, y in enumerate(labels):
        w, n = some_rows(weights, [m])[0], y.shape[1]
        for s, row in enumerate(y):
            field = fields[m] + noise._replace(first=noise.first + s, samples=1).of(m, n)[0]
            there, back = w * (2.0 * row[i] - 1.0), w * (2.0 * row[j] - 1.0)
            for _ in range(rounds):
                belief = field + np.bincount(j, there, n) + np.bincount(i, back, n)
                there, back = np.clip(belief[i] - back, -w, w), np.clip(belief[j] - there, -w, w)
            pull = np.bincount(j, there, n) + np.bincount(i, back, n)
            sums[m] += expit(fields[m] + pull)
