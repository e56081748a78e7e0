r"""What it costs to hold elements at their labels, one at a time, under logistic noise.

With :math:`V(y)=(\theta+z)^\top y-\sum_k\alpha_kf_k(y)`, labels x and costs :math:`c_d\ge0`,

.. math:: L=\sum_dc_d\Bigl[\max_yV(y)-\max_{y:\,y_d=x_d}V(y)\Bigr].

Its derivatives are differences of the two maximisers :math:`y^*` and :math:`y^{(d)}`,
:math:`\partial L/\partial\theta=\sum_dc_d(y^*-y^{(d)})` and
:math:`\partial L/\partial\alpha_k=-\sum_dc_d\bigl(f_k(y^*)-f_k(y^{(d)})\bigr)`, and only elements
with :math:`y^*_d\ne x_d` contribute. For pairwise functions the kernel finds all :math:`y^{(d)}` by
continuing one maximal flow (``flips.hpp``); otherwise each is one more maximisation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from logsuper._base import Bits, FloatArray, as_floats, refuse, refuse_negative
from logsuper.solvers._direct import Direct
from logsuper.solvers._flow import Flow
from logsuper.solvers._native import kernels
from logsuper.solvers._precision import tilted
from logsuper.solvers._problems import Noise, Perturbed, Problems, some_rows

# Numbers in the fields of the problems that are maximised at a time.
_PIECE = 1 << 22

Maximize = Callable[[Problems], tuple[Bits, FloatArray, FloatArray]]


def flip_labels(
    solver: Flow | Direct,
    problems: Problems,
    noise: Noise,
    labels: Bits,
    costs: FloatArray,
    threads: int,
) -> Perturbed:
    r"""Return L of each sample, and the means over the samples of its derivatives.

    `mean` is :math:`dL/d\theta`, `stats` is :math:`-dL/d\alpha`. Labels and costs are (M, n); a
    label above 1 is none.
    """
    native = kernels()
    if native is None or not isinstance(solver, Flow) or not solver.simple:
        more = (threads,) if isinstance(solver, Flow) else ()
        return _one_by_one(
            lambda some: solver.maximize(some, None, *more), problems, noise, labels, costs
        )
    count, n, structure = problems.size, solver.n, solver.structure
    edges, weights = structure.combine(problems.alpha, problems.factors)
    own = np.broadcast_to(tilted(structure, problems), (count, n))
    values, mean = np.zeros((count, noise.samples)), np.zeros((count, n))
    cuts = np.zeros((count, len(edges)))
    native.flip_labels(
        edges,
        weights,
        np.ascontiguousarray(own),
        np.ascontiguousarray(labels),
        np.ascontiguousarray(costs),
        noise.numbers,
        noise.key,
        noise.first,
        threads,
        values,
        mean,
        cuts,
    )
    stats, factors = np.zeros((count, structure.count)), problems.factors
    for k, unit in enumerate(structure.table):
        scaled = unit if factors is None else factors[:, min(k, factors.shape[1] - 1)] * unit
        stats[:, k] = (cuts * scaled).sum(axis=1)
        if k in structure.tilts:
            stats[:, k] += mean @ structure.tilts[k]
    return Perturbed(mean / noise.samples, stats / noise.samples, values)


def _one_by_one(
    maximize: Maximize, problems: Problems, noise: Noise, labels: Bits, costs: FloatArray
) -> Perturbed:
    """Return the same by one maximisation per element that differs from its label."""
    size = (problems.size, noise.samples)
    values, mean = np.zeros(size), np.zeros(labels.shape)
    stats = np.zeros((problems.size, problems.alpha.shape[1]))
    for m in range(problems.size):
        noisy = noise.added_to(problems, m)
        y, best, each = maximize(noisy)
        held = (y != labels[m]) & (labels[m] <= 1) & (costs[m] > 0.0)
        step = max(1, _PIECE // max(1, labels.shape[1]))
        pairs = np.argwhere(held)
        for first in range(0, len(pairs), step):
            sample, d = pairs[first : first + step].T
            x, cost = labels[m, d], costs[m, d]
            theta = noisy.theta[sample]
            own = theta[np.arange(len(d)), d]
            theta[np.arange(len(d)), d] = np.where(x == 1, np.inf, -np.inf)
            factors = some_rows(noisy.factors, sample)
            other, value, counted = maximize(Problems(theta, noisy.alpha, factors, len(d)))
            # values leave out infinite fields
            gap = best[sample] - (value + np.where(x == 1, own, 0.0))
            np.add.at(values[m], sample, cost * gap)
            mean[m] += cost @ (y[sample].astype(np.float64) - other)
            stats[m] += cost @ (each[sample] - counted)
    return Perturbed(mean / noise.samples, stats / noise.samples, values)


def check_labels(
    labels: ArrayLike, costs: ArrayLike, shape: tuple[int, int]
) -> tuple[Bits, FloatArray]:
    """Return labels and costs with one row per problem; a label above 1, or NaN, is none."""
    given, price = as_floats(labels, "labels"), as_floats(costs, "costs")
    for name, array in (("labels", given), ("costs", price)):
        if array.shape not in (shape, shape[1:]):
            raise ValueError(f"{name} must have shape {shape} or {shape[1:]}, got {array.shape}")
    legal = np.isin(given, (0.0, 1.0, 2.0)) | np.isnan(given)
    refuse(~legal, given, "labels", "must be 0 or 1; 2 or NaN for none")
    refuse_negative(price, "costs", "a wrong label must not be a gain")
    refuse(~np.isfinite(price), price, "costs", "must be finite")
    codes = np.where(np.isnan(given), 2.0, given).astype(np.uint8)
    return np.broadcast_to(codes, shape), np.broadcast_to(price, shape)
