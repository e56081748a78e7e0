"""Bounds bound: every method on every family, against enumeration, and in their proved order."""

import numpy as np
import pytest
from oracles import FAMILIES, brute_log_partition

import logsuper as ls
from logsuper.bounds._methods import METHODS

MODELS = 16  # per family: 21 families make 336 models
SMALL = 6

SAMPLED = ("logistic", "power")
EXACT = [name for name, method in METHODS.items() if method.side == "exact"]
BELOW = [name for name, method in METHODS.items() if method.side == "lower"]


def values(m: ls.LogSupermodular, seed: int) -> dict[str, float]:
    """Return the value of every method that is valid, with its noise on the safe side."""
    found = {}
    for name, method in METHODS.items():
        if method.find("log_partition") is None:
            continue  # it has marginals only
        options = {"seed": seed} if name in SAMPLED else {}
        try:
            bound = m.log_partition(name, **options)
        except (ls.NotApplicable, ls.TooLarge):
            continue
        if method.side == "both":
            found["strips, below"], found["strips, above"] = bound.interval
        else:
            assert bound.target == method.side
            found[name] = bound.value
            if bound.stderr is not None:
                # what happens less than once in all draws may be missing, standard error and all
                found[name] += 5 * (bound.stderr + 1 / bound.solves)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_lower_exact_upper(family):
    wrong = []
    for k in range(MODELS):
        rng = np.random.default_rng(1000 + k)
        f = FAMILIES[family](rng, SMALL if k % 4 else int(rng.integers(1, 9)))
        exact = brute_log_partition(f)
        slack = 1e-9 * max(1.0, abs(exact), float(np.abs(f(np.eye(f.n))).max()))
        for name, value in values(ls.LogSupermodular(f), k).items():
            below = name in BELOW or name == "strips, below"
            fine = (
                abs(value - exact) <= slack
                if name in EXACT
                else (value <= exact + slack if below else value >= exact - slack)
            )
            if not fine:
                wrong.append((k, name, value - exact))
    assert wrong == []


@pytest.mark.parametrize("family", ["cut", "directed cut", "grid"])
def test_the_order_of_the_bounds(family, seed):
    rng = np.random.default_rng(seed)
    found = values(ls.LogSupermodular(FAMILIES[family](rng, 9)), seed)
    slack = 1e-6
    assert found["superdifferential"] <= found["mean_field"] + slack
    assert found["mean_field"] <= found["bethe"] + slack
    assert found["bethe"] <= found["exact"] + slack
    assert found["exact"] <= found["trw"] + slack
    assert found["trw"] <= found["lfield"] + slack
    assert found["logistic"] - found["lfield"] <= 1.0  # within its noise of five standard errors


def test_all_methods_agree_on_modular_functions(seed):
    f = ls.Modular(np.random.default_rng(seed).normal(size=12) * 3)
    exact = float(np.logaddexp(0.0, -f.t).sum())
    for name in METHODS:
        if name not in ("transfer", "strips") and METHODS[name].find("log_partition"):
            value = ls.LogSupermodular(f).log_partition(name).value
            assert value == pytest.approx(exact, abs=1e-8), name
