import functools

import numpy as np
import oracles
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import logsuper as ls

pytestmark = pytest.mark.usefixtures("stopped_early")


def quick(*args, **params):
    """Return a density that stops early."""
    return ls.LogSupermodularDensity(*args, **{"max_iter": 300, **params})


def make_rows(seed, count=150, n=6):
    rng = np.random.default_rng(seed)
    return (rng.random((count, n)) < rng.choice([0.15, 0.75], (count, 1))).astype(np.uint8)


@functools.cache
def density_of(seed=0, functions=None):
    """Return a density of the rows, fitted once for all tests that only look at it."""
    return quick(functions, random_state=4).fit(make_rows(seed))


def test_probabilities_sum_to_one(seed):
    X = make_rows(seed)
    density = density_of(seed)
    every = oracles.enumerate_x(6)
    lower, upper = density.score_samples(every, return_bracket=True)
    assert np.exp(lower).sum() == pytest.approx(1.0, abs=1e-9)  # log Z is exact by default
    np.testing.assert_allclose(lower, upper, atol=1e-9)
    np.testing.assert_array_equal(density.score_samples(every), lower)
    assert density.score(X) == pytest.approx(lower[(X @ (1 << np.arange(6))).astype(int)].mean())


OVERLAPPING = [ls.ConcaveCardinality(np.sqrt, n=20, subset=s) for s in (range(12), range(8, 20))]


@pytest.mark.parametrize(
    ("n", "functions", "learner"),
    [(6, None, "exact"), (20, None, "exact"), (20, OVERLAPPING, "logistic")],
)
def test_likelihood_is_exact_where_that_is_cheap(n, functions, learner):
    assert quick(functions).fit(make_rows(0, 20, n)).learner_ == learner


def test_exact_likelihood_beats_its_bound(seed):
    X = make_rows(seed)
    exact, bound = (quick(learner=name, penalty=1e-3).fit(X) for name in ("exact", "logistic"))
    assert exact.score(X) > bound.score(X)


def test_learns_that_features_go_together(seed):
    X = make_rows(seed)
    density = quick(n_components=1).fit(X)
    independent = X.mean(axis=0)
    rival = np.log(np.where(X == 1, independent, 1 - independent)).sum(axis=1).mean()
    assert density.score(X) > rival + 0.1
    assert density.alpha_.max() > 0 and density.modular_.shape == (6,)


@pytest.mark.parametrize("name", oracles.FAMILIES)
def test_score_is_below_the_truth_for_any_function(name):
    rng = np.random.default_rng(0)
    f = oracles.FAMILIES[name](rng, 5)
    X = make_rows(0, 20, 5)
    density = quick([f], max_iter=20).fit(X)
    total = density.alpha_[0] * f(X) - X @ density.modular_
    every = oracles.enumerate_x(5)
    log_z = np.logaddexp.reduce(every @ density.modular_ - density.alpha_[0] * f(every))
    lower, upper = density.score_samples(X, return_bracket=True)
    slack = 1e-7 * (1 + np.abs(total).max())
    assert (lower <= -total - log_z + slack).all() and (upper >= -total - log_z - slack).all()


def test_unknown_entries_are_summed_over(seed):
    X = make_rows(seed).astype(float)
    density = density_of(seed)
    row = X[:1].copy()
    row[0, [1, 4]] = np.nan
    filled = np.repeat(row, 4, axis=0)
    filled[:, [1, 4]] = oracles.enumerate_x(2)
    expected = np.logaddexp.reduce(density.score_samples(filled))
    assert density.score_samples(row)[0] == pytest.approx(expected, abs=1e-9)
    assert density.score_samples(np.full((1, 6), np.nan))[0] == pytest.approx(0.0, abs=1e-9)
    # and learning from rows with holes comes out near learning from the whole
    rng = np.random.default_rng([seed, 1])  # not the numbers that the rows were made from
    holes = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    for functions in ("counts", "forest"):
        one, two = (quick(functions, n_components=1).fit(rows) for rows in (X, holes))
        assert two.score(X) > one.score(X) - 0.1
    partial = quick(n_components=2).fit(holes)
    masked = quick(n_components=2).fit(np.ma.masked_array(X, np.isnan(holes)))
    np.testing.assert_array_equal(masked.score_samples(X), partial.score_samples(X))


def test_samples_are_of_the_model():
    density = density_of()
    every = oracles.enumerate_x(6)
    p = np.exp(density.score_samples(every))
    drawn = density.sample(5000, random_state=1)
    assert drawn.shape == (5000, 6) and drawn.dtype == np.uint8
    counts = np.bincount(drawn @ (1 << np.arange(6)), minlength=64)
    assert ((counts - 5000 * p) ** 2 / (5000 * p)).sum() < 120  # 63 degrees of freedom
    np.testing.assert_array_equal(drawn, density.sample(5000, random_state=1))
    counts = quick("counts").fit(make_rows(0))
    np.testing.assert_array_equal(counts.sample(9, 1), counts.model_.sample(9, seed=1))


def test_bracket_is_that_of_the_model():
    f = ls.Cut(6, [(i, j) for i in range(6) for j in range(i)])
    density = quick([f], modular="shared").fit(make_rows(0))
    assert np.unique(density.modular_).size == 1
    found = density.bracket(budget=1e6)
    every = oracles.enumerate_x(6)
    truth = np.logaddexp.reduce(-density.model_.f(every))
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
    assert quick([f], modular="none").fit(make_rows(0)).modular_.tolist() == [0] * 6


def test_functions_may_depend_on_the_number_of_features():
    X = make_rows(0)
    listed = quick(list(ls.grid_cuts((6,)))).fit(X)
    called = quick(lambda n: ls.grid_cuts((n,))).fit(X)
    np.testing.assert_array_equal(listed.modular_, called.modular_)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_any_number_of_features(n):
    density = quick().fit(make_rows(0, 30, n))
    assert np.isfinite(density.score(make_rows(1, 30, n)))


def test_constant_features_stay_finite():
    X = make_rows(0)
    X[:, 2], X[:, 3] = 0, 1
    density = quick(n_components=1).fit(X)
    assert np.isfinite(density.modular_).all() and density.score(X) > -4
    assert quick(n_components=3).fit(X).score(X) > -4


def test_binarize():
    X = make_rows(0)
    plain = quick().fit(X)
    level = quick(binarize=7.0).fit(5.0 + 4.0 * X)
    np.testing.assert_array_equal(plain.score_samples(X), level.score_samples(5.0 + 4.0 * X))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_same_seed_same_result(n_jobs):
    X = make_rows(0)
    for functions in ("counts", None):
        a = density_of(0, functions)
        b = quick(functions, random_state=4, n_jobs=n_jobs).fit(X)
        np.testing.assert_array_equal(a.weights_, b.weights_)
        np.testing.assert_array_equal(a.score_samples(X), b.score_samples(X))


ROWS = np.zeros((3, 2))
WRONG = {
    "levels": ({}, ROWS + 2, ValueError, r"X\[0, 0\] = 2 is neither 0 nor 1; give binarize"),
    "nothing": ({}, ROWS * np.nan, ValueError, "X has no known entry"),
    "infinite": ({}, ROWS + np.inf, ValueError, "infinity"),
    "one row": ({}, ROWS[0], ValueError, "Expected 2D array"),
    "learner": ({"learner": "moments"}, ROWS, ValueError, "learner must be one of auto, exact"),
    "modular": ({"modular": "auto"}, ROWS, ValueError, "modular must be one of pixel"),
    "functions": ({"functions": 3}, ROWS, TypeError, "functions must be a list"),
    "one function": ({"functions": ls.Modular([0, 0])}, ROWS, TypeError, r"write \[f\]"),
    "size": (
        {"functions": [ls.Modular([0.0])]},
        ROWS,
        ValueError,
        r"functions\[0\] has n = 1, .* 2",
    ),
    "called": (
        {"functions": lambda n: [ls.Modular([0.0])]},
        ROWS,
        ValueError,
        "functions, called with 2",
    ),
    "binarize": ({"binarize": "a"}, ROWS, TypeError, "binarize must be a real number"),
    "penalty": ({"penalty": -1}, ROWS, ValueError, "penalty of alpha = -1"),
    "penalty of a filter": (
        {"penalty": {"alpha": 1.0, "filter": 1.0}},
        ROWS,
        ValueError,
        "a key of penalty must be one of alpha, modular, got 'filter'",
    ),
    "unknown to saa": (
        {"learner": "saa"},
        [[0, np.nan], [1, 1]],
        ValueError,
        r"X\[0, 1\] is not known, but learner='saa' .* 'exact', 'logistic', 'lfield' or 'marginal'",
    ),
    "unknown to pseudo": (
        {"learner": "pseudo"},
        [[0, np.nan], [1, 1]],
        ValueError,
        "'pseudo' needs",
    ),
    "callback": ({"callback": 3}, ROWS * np.nan, TypeError, "callback must be callable or None"),
    "tol": ({"tol": -1}, ROWS, ValueError, "tol must be positive"),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_clear_error(case):
    params, X, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        ls.LogSupermodularDensity(**params).fit(X)


def test_a_fit_that_is_interrupted_leaves_the_one_before(tmp_path):
    X = np.random.default_rng(0).integers(0, 2, (30, 4))
    density = ls.LogSupermodularDensity().fit(X)
    before = density.score_samples(X)

    def stop(line):
        raise KeyboardInterrupt

    density.set_params(functions=[ls.Cut(4, [(0, 1)])], learner="logistic", callback=stop)
    with pytest.raises(KeyboardInterrupt):
        density.fit(X)
    assert density.learner_ == "exact" and len(density.functions_) == len(density.alpha_)
    density.set_params(functions=None, learner="auto").save(tmp_path / "density")
    same = ls.load_model(tmp_path / "density")
    np.testing.assert_array_equal(same.score_samples(X), before)


def test_errors_after_the_fit():
    density = density_of()
    with pytest.raises(ValueError, match="5 features"):
        density.score_samples(make_rows(0, 3, 5))
    with pytest.raises(TypeError, match="n_samples must be an integer"):
        density.sample(1.5)


def test_an_interrupted_fit_leaves_no_trace():
    def stop(record):
        raise KeyboardInterrupt

    X = make_rows(0)
    density = quick(callback=stop)
    with pytest.raises(KeyboardInterrupt):
        density.fit(X)
    with pytest.raises(NotFittedError):
        density.score_samples(X)
    density.set_params(callback=None).fit(X)
    before = density.score_samples(X)
    with pytest.raises(KeyboardInterrupt):
        density.set_params(callback=stop).fit(X[:, :3])
    np.testing.assert_array_equal(density.score_samples(X), before)


def test_the_kind_of_functions_is_chosen_by_rows_that_are_held_out():
    rng = np.random.default_rng(0)
    # a chain of features, each mostly like the one before: a forest
    chain = np.zeros((400, 8), dtype=int)
    chain[:, 0] = rng.random(400) < 0.5
    for j in range(1, 8):
        chain[:, j] = np.where(rng.random(400) < 0.9, chain[:, j - 1], rng.random(400) < 0.5)
    found = ls.LogSupermodularDensity(n_components=1).fit(chain)
    assert {tuple(f.edges[0]) for f in found.functions_} == {(j, j + 1) for j in range(7)}
    counts = ls.LogSupermodularDensity("counts").fit(chain)
    test = chain[rng.permutation(400)[:100]]
    assert found.score(test) > counts.score(test)
    # all features follow one hidden cause: counts
    alike = (rng.random((400, 8)) < rng.choice([0.15, 0.85], (400, 1))).astype(int)
    assert len(ls.LogSupermodularDensity(n_components=1).fit(alike).functions_) == 3


def test_a_forest_has_the_likelihood_of_its_pairs(seed):
    rng = np.random.default_rng(seed)
    x = (rng.random((300, 3)) < rng.choice([0.2, 0.8], (300, 1))).astype(int)
    found = ls.LogSupermodularDensity("forest", penalty=0.0).fit(x)
    # the maximum likelihood of a forest matches the pairs exactly
    p = found.model_.marginals("enumeration").values
    np.testing.assert_allclose(p, x.mean(axis=0), atol=1e-3)
    states = oracles.enumerate_x(3)
    law = np.exp(found.score_samples(states))
    assert law.sum() == pytest.approx(1.0)
    for f in found.functions_:
        i, j = f.edges[0]
        apart = law @ (states[:, i] != states[:, j])
        assert apart == pytest.approx((x[:, i] != x[:, j]).mean(), abs=1e-3)


def test_forests_leave_out_what_excludes_and_what_is_not_known():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, (200, 1)).astype(float)
    rows = np.hstack([x, 1 - x, x])
    rows[rng.random(rows.shape) < 0.2] = np.nan
    for penalty in (None, 0.01):  # in closed form, and by the learner
        found = ls.LogSupermodularDensity("forest", n_components=1, penalty=penalty).fit(rows)
        assert [f.edges[0].tolist() for f in found.functions_] == [[0, 2]]
    nothing = ls.LogSupermodularDensity("forest", n_components=1).fit(np.hstack([x, 1 - x]))
    assert nothing.alpha_.tolist() == [0.0]
    assert np.isfinite(nothing.score(np.hstack([x, 1 - x])))


def test_digits_are_more_likely_than_by_independent_pixels():
    digits = load_digits().data > 7
    order = np.random.default_rng(0).permutation(len(digits))
    train, test = digits[order[:900]].astype(int), digits[order[900:]].astype(int)
    p = (train.sum(axis=0) + 0.5) / (len(train) + 1.0)
    alone = np.where(test == 1, np.log(p), np.log(1 - p)).sum(axis=1).mean()
    single = ls.LogSupermodularDensity(n_components=1).fit(train)
    assert single.score(test) > alone + 3.5
    found = ls.LogSupermodularDensity().fit(train)
    assert len(found.weights_) >= 10
    assert found.score(test) > single.score(test) + 3.0
