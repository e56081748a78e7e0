"""Functions of counts, against the sum over all states."""

import numpy as np
from cases import each

import logsuper as ls
from logsuper.learning import Penalty, exact, logistic, make_examples
from logsuper.learning._engines import Batch, Exact, Sums
from logsuper.structures import find_structure

N = 7
FAMILIES = {
    "one set": [ls.ConcaveCardinality(np.minimum(np.arange(N + 1.0), k)) for k in (1, 2, 4)],
    "two sets": [
        ls.ConcaveCardinality(np.sqrt, n=N, subset=[0, 3, 4]),
        ls.ConcaveCardinality(np.log1p, n=N, subset=[1, 6]),
    ],
    "with modular parts": [
        ls.ConcaveCardinality(np.sqrt, n=N) + ls.Modular(np.linspace(-1.0, 2.0, N)),
        ls.Modular(np.arange(N) - 3.0),
        0.5 * ls.ConcaveOfModular(np.sqrt, np.full(N, 2.0)),
    ],
}


@each("family", FAMILIES)
def test_the_same_as_enumeration(family, seed):
    rng = np.random.default_rng(seed)
    functions = FAMILIES[family]
    group = make_examples(functions, labels=np.zeros((5, N))).groups[0]
    fields = rng.normal(scale=2.0, size=(5, N))
    fields[1, [0, 4]], fields[2, 1:], fields[3] = np.inf, -np.inf, np.inf
    fields[4, [2, 5]] = np.inf, -np.inf
    alpha = rng.exponential(size=len(functions))
    found, expected = (
        engine.evaluate(Batch(group, np.arange(5), alpha, fields, "free"))
        for engine in (Sums("cardinality"), Sums("enumeration"))
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_other_functions_are_left_to_others():
    overlap = [ls.ConcaveCardinality(np.sqrt, n=4, subset=s) for s in ([0, 1], [1, 2])]
    for functions in (overlap, [ls.Cut(4, [(0, 1)])], [ls.LogDet(np.eye(4))]):
        assert find_structure(functions).counts is None


def test_learns_more_likely_parameters_than_the_logistic_bound(seed):
    n = 40
    functions = [ls.ConcaveCardinality(np.minimum(np.arange(n + 1.0), k)) for k in (1, 8)]

    def model(alpha, t):
        f = alpha[0] * functions[0] + alpha[1] * functions[1]
        return ls.LogSupermodular(f - ls.Modular(np.full(n, t)))

    x = model([1.5, 0.8], 0.4).sample(200, seed=seed)
    data = make_examples(functions, labels=x, modular="shared")
    assert Exact().choose(data.groups[0]) == Sums("cardinality")
    penalty = Penalty.of(data.layout, alpha=1e-3, modular=1e-3)
    ours, bound = exact(data, penalty), logistic(data, penalty)
    likely = [
        np.mean(model(fit.parameters.alpha, fit.parameters.modular[0]).log_prob(x))
        for fit in (ours, bound)
    ]
    assert ours.converged and likely[0] > likely[1]
