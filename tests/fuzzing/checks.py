"""What a result must satisfy, found by listing all x; each check returns a complaint or None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import logsuper as ls
from tests.fuzzing.hostile import is_honest
from tests.oracles import enumerate_x

# Beyond that many elements nothing is listed.
LISTED = 8
# Relative to the largest term in a sum: a few hundred roundings.
ROUNDING = 1e-12


def is_function(arguments: Mapping[str, Any], f: Any) -> str | None:
    """Check that f is 0 at 0, finite and submodular."""
    if isinstance(f, tuple):
        return next((c for c in (is_function(arguments, part) for part in f) if c), None)
    if not isinstance(f, ls.SubmodularFunction) or not can_list(f):
        return None
    v = listed(f)
    if v[0] != 0.0:
        return f"f(0) = {v[0]!r} of {f!r}"
    slack = 1e-9 * float(np.abs(v).max(initial=0.0)) + 1e-322
    table = (v / max(1.0, slack)).reshape((2,) * f.n) if f.n else v
    for i in range(f.n):
        for j in range(i):
            a, b = (
                np.diff(np.take(table, (0, 1), axis=i).take((k,), axis=j), axis=i) for k in (0, 1)
            )
            worst = float((b - a).max())
            if worst > slack / max(1.0, slack):
                return f"{f!r} is not submodular: a gain of {f.n - 1 - i} grows by {worst:g}"
    return None


def can_list(f: ls.SubmodularFunction) -> bool:
    """Return whether f is small, and what it says can be relied on."""
    return f.n <= LISTED and is_honest(f)


def listed(f: ls.SubmodularFunction) -> np.ndarray:
    """Return f at all x."""
    return np.asarray(f(enumerate_x(f.n)), dtype=float)


def is_maximum(arguments: Mapping[str, Any], result: Any) -> str | None:
    """Check y and its value against the best of all y; theta may have rows and infinite entries."""
    y, values = result[:2]
    return maximum(arguments["f"], arguments["theta"], y, values)


def maximum(f: ls.SubmodularFunction, theta: Any, y: Any, values: Any) -> str | None:
    """Return what is wrong with maximisers of theta'y - f(y)."""
    field = np.atleast_2d(np.asarray(theta, dtype=float))
    Y, found = np.atleast_2d(y), np.atleast_1d(values)
    if Y.dtype != np.uint8 or Y.max(initial=0) > 1:
        return f"labels that are not bits: {Y!r}"
    if not can_list(f):
        return None
    X, v = enumerate_x(f.n), listed(f)
    for row, labels, value in zip(field, Y, found, strict=True):
        free = np.isfinite(row)
        finite = np.where(free, row, 0.0)
        if (labels[~free] != (row[~free] > 0)).any():
            return f"{labels} is not what theta = {row} fixes"
        scale = float(np.abs(finite).sum() + np.abs(v).max(initial=0.0))
        own = float(finite @ labels - np.asarray(f(labels)))
        if not abs(own - value) <= ROUNDING * scale:
            return f"value {value!r}, but theta'y - f(y) = {own!r}"
        scores = (X @ finite - v)[(X[:, ~free] == (row[~free] > 0)).all(axis=1)]
        if not value >= scores.max() - ROUNDING * scale:
            return f"value {value!r}, but the best is {scores.max()!r}; y = {labels}"
    return None


def log_partition(f: ls.SubmodularFunction) -> tuple[float, float]:
    """Return log Z and how far rounding may put it off."""
    v = listed(f)
    truth = float(np.logaddexp.reduce(-v))
    return truth, 1e-9 * max(1.0, abs(truth)) + ROUNDING * float(np.abs(v).max(initial=0.0))


def is_bound(arguments: Mapping[str, Any], bound: ls.Bound) -> str | None:
    """Check a deterministic claim about log Z."""
    f = arguments["f"]
    if not can_list(f) or not bound.certified or bound.confidence is not None:
        return None
    truth, slack = log_partition(f)
    low = bound.target in ("lower", "exact") and bound.value > truth + slack
    high = bound.target in ("upper", "exact") and bound.value < truth - slack
    # the interval of a bound is about the bound, that of the others about log Z
    about = bound.interval if bound.target in ("exact", "estimate") else None
    outside = about is not None and not about[0] - slack <= truth <= about[1] + slack
    return f"{bound!r}, but log Z = {truth!r}" if low or high or outside else None


def is_bracket(arguments: Mapping[str, Any], found: ls.Bracket) -> str | None:
    """Check that log Z lies within, and that the ends are in order."""
    f = arguments["f"]
    if found.lower > found.upper:
        return f"{found!r} is empty"
    if not can_list(f) or found.confidence is not None:
        return None
    truth, slack = log_partition(f)
    inside = found.lower <= truth + slack and found.upper >= truth - slack
    return None if inside else f"{found!r}, but log Z = {truth!r}"


def is_marginals(arguments: Mapping[str, Any], found: ls.Marginals) -> str | None:
    """Check that all are probabilities, and bounds on the true ones where they say so."""
    values = np.asarray(found.values)
    if not ((values >= 0) & (values <= 1)).all():
        return f"no probabilities: {values}"
    f = arguments["f"]
    if (
        not can_list(f)
        or found.lower is None
        or found.upper is None
        or found.confidence is not None
    ):
        return None
    v = listed(f)
    weight = np.exp(-(v - v.min()))
    truth = weight @ enumerate_x(f.n) / weight.sum()
    slack = 1e-8 + ROUNDING * float(np.abs(v).max(initial=0.0))
    low, high = np.ravel(found.lower), np.ravel(found.upper)
    inside = (low <= truth + slack) & (high >= truth - slack)
    return None if inside.all() else f"{found.lower} to {found.upper} misses {truth}"


def is_probabilities(arguments: Mapping[str, Any], found: Any) -> str | None:
    """Check that one array, or each of several, lies in [0, 1]."""
    for part in found if isinstance(found, list | tuple) else (found,):
        p = np.asarray(part)
        if not ((p >= 0) & (p <= 1)).all():
            return f"no probabilities: {p}"
    return None


def is_bits(arguments: Mapping[str, Any], found: Any) -> str | None:
    """Check that one array, or each of several, holds 0 and 1 in bytes."""
    for part in found if isinstance(found, list | tuple) else (found,):
        x = np.asarray(part)
        if x.dtype != np.uint8 or (x > 1).any():
            return f"no bits: {x!r}"
    return None


def is_finite(arguments: Mapping[str, Any], found: Any) -> str | None:
    """Check that nothing is infinite, NaN being looked for anyway."""
    for part in found if isinstance(found, list | tuple) else (found,):
        if not np.isfinite(np.asarray(part, dtype=float)).all():
            return f"not finite: {part!r}"
    return None


def is_learned(arguments: Mapping[str, Any], found: Any) -> str | None:
    """Check that parameters are finite, and the weights of functions not negative."""
    parameters = found.parameters
    complaint = is_finite(arguments, (found.theta, parameters.alpha, parameters.scale))
    return complaint or (f"alpha = {parameters.alpha}" if (parameters.alpha < 0).any() else None)
