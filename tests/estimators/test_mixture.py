"""Mixtures of forests, against enumeration."""

import itertools
import pickle
import warnings

import numpy as np
import oracles
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import logsuper as ls
from logsuper._base._files import load_arrays, save_arrays
from logsuper.estimators._candidates import Candidate, most_likely
from logsuper.estimators._forest import Forest, Rows, independent_shares, shares_of
from logsuper.estimators._mixture import fit_mixture


def two_kinds(seed, count=400, n=6):
    """Return rows of two kinds: the first or the second half of the features tend to be ones."""
    rng = np.random.default_rng(seed)
    kind = rng.random(count) < 0.4
    first = np.arange(n) < n // 2
    p = np.where(kind[:, None] == first, 0.85, 0.15)
    return (rng.random((count, n)) < p).astype(float)


def with_holes(rows, seed, share=0.2):
    rng = np.random.default_rng([seed, 1])  # not the numbers that the rows were made from
    return np.where(rng.random(rows.shape) < share, np.nan, rows)


def random_forest(seed, n=5):
    """Return the likeliest forest for a few random rows."""
    rows = np.random.default_rng(seed).integers(0, 2, (8, n)).astype(float)
    rows[:, 1] = rows[:, 0]
    p = (rows.sum(axis=0) + 1.0) / 10.0
    return Forest.likeliest(
        p, shares_of(rows.T @ rows, 8.0, 2.0 * independent_shares(np.full(n, 0.5)))
    )


def log_law(forest, n=5):
    """Return the states, and the log-probability of each by the energy and brute force."""
    states = oracles.enumerate_x(n)
    energy = np.asarray(forest.energy()(states))
    return states, -energy - np.logaddexp.reduce(-energy)


# ------------------------------------------------------------------------------------- one forest


def test_a_forest_is_normalised_and_submodular(seed):
    forest = random_forest(seed)
    assert len(forest.pairs) and (forest.couplings > 0).all()
    states, log_p = log_law(forest)
    np.testing.assert_allclose(
        forest.log_likelihood(Rows.of(states.astype(float))), log_p, atol=1e-12
    )
    assert ls.check_submodular(forest.energy())


def test_entries_that_are_not_known_are_summed_over(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(seed)
    states, log_p = log_law(forest)
    rows = with_holes(rng.integers(0, 2, (12, 5)).astype(float), seed, 0.5)
    rows[0], rows[1] = np.nan, 1.0
    weights = rng.random(12)
    expected, together = np.empty(12), np.zeros((5, 5))
    for k, row in enumerate(rows):
        agree = ((states == row) | np.isnan(row)).all(axis=1)
        expected[k] = np.logaddexp.reduce(log_p[agree])
        p = np.exp(log_p[agree] - expected[k])
        together += weights[k] * np.einsum("s,si,sj->ij", p, states[agree], states[agree])
    data = Rows.of(rows)
    np.testing.assert_allclose(forest.log_likelihood(data), expected, atol=1e-12)
    np.testing.assert_allclose(forest.together(data, weights), together, atol=1e-12)
    np.testing.assert_allclose(forest.means(data, weights), np.diagonal(together), atol=1e-12)


def test_pairs_do_not_depend_on_the_block(seed, monkeypatch):
    forest, rows = random_forest(seed), with_holes(two_kinds(seed, 40, 5), seed)
    found = forest.together(Rows.of(rows), np.ones(40))
    monkeypatch.setattr("logsuper.estimators._forest._BLOCK", 60)
    np.testing.assert_allclose(forest.together(Rows.of(rows), np.ones(40)), found, atol=1e-12)


def test_no_attractive_forest_is_likelier(seed):
    """All forests on four features, each with its own closed form, which is tested above."""
    rng = np.random.default_rng(seed)
    rows = (rng.random((60, 4)) < rng.choice([0.3, 0.7], (60, 1))).astype(float)
    rows[:, 3] = np.where(rng.random(60) < 0.7, 1 - rows[:, 0], rows[:, 3])
    found = fit_mixture(rows, 1, rng=rng, prior=1e-6)
    p = rows.mean(axis=0)
    base = (rows * np.log(p) + (1 - rows) * np.log(1 - p)).sum()
    gains = {}
    for i, j in itertools.combinations(range(4), 2):
        table = np.array(
            [[np.mean((rows[:, i] == a) & (rows[:, j] == b)) for b in (0, 1)] for a in (0, 1)]
        )
        if table[1, 1] * table[0, 0] > table[0, 1] * table[1, 0]:
            outer = table.sum(axis=1)[:, None] * table.sum(axis=0)
            gains[i, j] = 60 * (table * np.log(np.maximum(table, 1e-300) / outer)).sum()
    best = max(
        base + sum(gains[pair] for pair in pairs)
        for size in range(4)
        for pairs in itertools.combinations(gains, size)
        if is_forest(pairs)
    )
    assert found.log_likelihood(rows).sum() == pytest.approx(best, abs=1e-3)


def is_forest(pairs):
    tree = list(range(4))
    for i, j in pairs:
        if tree[i] == tree[j]:
            return False
        tree = [tree[i] if t == tree[j] else t for t in tree]
    return True


def test_the_closed_form_is_what_the_learner_finds(seed):
    rng = np.random.default_rng(seed)
    X = (rng.random((300, 4)) < rng.choice([0.2, 0.8], (300, 1))).astype(int)
    learned = ls.LogSupermodularDensity("forest", penalty=0.0, tol=1e-6).fit(X)
    closed = fit_mixture(X.astype(float), 1, rng=rng, prior=1e-6)
    states = oracles.enumerate_x(4)
    np.testing.assert_allclose(
        closed.log_likelihood(states.astype(float)), learned.score_samples(states), atol=1e-3
    )


# -------------------------------------------------------------------------------------- mixtures


def test_the_density_of_a_mixture_is_that_of_enumeration(seed):
    density = ls.LogSupermodularDensity(n_components=3, random_state=seed).fit(two_kinds(seed))
    states = oracles.enumerate_x(6)
    expected = 0.0
    for weight, model in zip(density.weights_, density.models_, strict=True):
        energy = np.asarray(model.f(states))
        expected = expected + weight * np.exp(-energy) / np.exp(-energy).sum()
    lower, upper = density.score_samples(states, return_bracket=True)
    truth = np.log(expected)
    np.testing.assert_allclose(lower, truth, atol=1e-9)
    assert (lower <= truth + 1e-12).all() and (truth <= upper + 1e-12).all()
    assert expected.sum() == pytest.approx(1.0) and density.weights_.sum() == pytest.approx(1.0)
    assert density.score(states) == pytest.approx(lower.mean())
    # unknown entries are summed over, component by component
    row = np.array([[1.0, np.nan, 0.0, np.nan, 1.0, 0.0]])
    agree = ((states == row) | np.isnan(row)).all(axis=1)
    assert density.score_samples(row)[0] == pytest.approx(np.log(expected[agree].sum()), abs=1e-9)


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("components", [1, 2, 5])
def test_no_iteration_is_worse_than_the_one_before(seed, components, holes):
    rows = with_holes(two_kinds(seed, 150), seed, holes)
    lines = []
    found = fit_mixture(
        rows,
        components,
        rng=np.random.default_rng(seed),
        n_init=2,
        tol=1e-5,
        callback=lines.append,
    )
    starts = np.flatnonzero([line.step == 1 for line in lines])
    assert len(starts) == (2 if components > 1 else 1)
    for run in np.split(lines, starts[1:]):
        values = [line.objective for line in run]
        assert np.diff(values).max() < 1e-10
    # the best start is kept
    assert found.converged
    assert found.history[-1].objective == min(line.objective for line in lines)


def test_the_objective_is_the_likelihood_with_its_prior(seed):
    rows, prior = two_kinds(seed, 80), 3.0
    found = fit_mixture(rows, 2, rng=np.random.default_rng(seed), prior=prior)
    q = (rows.sum(axis=0) + 0.5) / 81.0
    states = oracles.enumerate_x(6)
    chance = np.where(states == 1, q, 1 - q).prod(axis=1)
    total = found.log_likelihood(rows).sum()
    for weight, forest in zip(found.weights, found.forests, strict=True):
        total += prior * (np.log(weight) + chance @ forest.log_likelihood(Rows.of(states * 1.0)))
    assert found.history[-1].objective == pytest.approx(-total / 80, abs=1e-10)


def test_one_component_is_the_single_field(seed):
    X = two_kinds(seed)
    single = ls.LogSupermodularDensity("forest", n_components=1).fit(X)
    mixture = fit_mixture(X, 1, rng=np.random.default_rng(0))
    states = oracles.enumerate_x(6)
    np.testing.assert_allclose(
        single.score_samples(states), mixture.log_likelihood(states.astype(float)), atol=1e-9
    )
    assert single.weights_.tolist() == [1.0] and single.models_ == (single.model_,)
    assert single.brackets_ == (single.bracket_,)


def test_a_known_mixture_is_recovered(seed):
    chain, star = [(i, i + 1) for i in range(7)], [(0, i) for i in range(1, 8)]
    odd = np.arange(8) % 2
    truth = [
        ls.LogSupermodular(ls.Cut(8, chain, 1.0) - ls.Modular(1.5 - 3.0 * odd)),
        ls.LogSupermodular(ls.Cut(8, star, 0.8) - ls.Modular(3.0 * odd - 1.5)),
    ]
    X = np.vstack([truth[0].sample(1500, seed=seed), truth[1].sample(500, seed=seed + 1)])
    density = ls.LogSupermodularDensity(n_components=2, random_state=seed).fit(X)
    np.testing.assert_allclose(np.sort(density.weights_), [0.25, 0.75], atol=0.03)
    states = oracles.enumerate_x(8)
    law = 0.75 * np.exp(truth[0].log_prob(states)) + 0.25 * np.exp(truth[1].log_prob(states))
    # about half a nat for each of 31 parameters, over 2000 rows
    assert law @ (np.log(law) - density.score_samples(states)) < 0.025
    # and "auto" comes to it
    auto = ls.LogSupermodularDensity(random_state=seed).fit(X)
    assert len(auto.weights_) > 1
    assert law @ (np.log(law) - auto.score_samples(states)) < 0.05


def test_samples_are_of_the_mixture():
    density = ls.LogSupermodularDensity(n_components=2).fit(two_kinds(0))
    p = np.exp(density.score_samples(oracles.enumerate_x(6)))
    drawn = density.sample(20_000, random_state=1)
    assert drawn.shape == (20_000, 6) and drawn.dtype == np.uint8
    counts = np.bincount(drawn @ (1 << np.arange(6)), minlength=64)
    assert ((counts - 20_000 * p) ** 2 / (20_000 * p)).sum() < 120  # 63 degrees of freedom
    np.testing.assert_array_equal(drawn, density.sample(20_000, random_state=1))
    assert density.sample(1).shape == (1, 6)


def test_unknown_entries_cost_little(seed):
    X = two_kinds(seed, 600)
    whole = ls.LogSupermodularDensity(n_components=2).fit(X)
    partial = ls.LogSupermodularDensity(n_components=2).fit(with_holes(X, seed))
    assert partial.score(X) > whole.score(X) - 0.05


@pytest.mark.parametrize("rows", [np.zeros((30, 4)), np.eye(4)[np.arange(30) % 2], np.eye(4)])
def test_few_distinct_rows(rows):
    density = ls.LogSupermodularDensity(n_components=4).fit(rows)
    assert (density.weights_ > 0).all() and np.isfinite(density.score(rows))
    assert np.exp(density.score_samples(oracles.enumerate_x(4))).sum() == pytest.approx(1.0)


def test_one_feature_and_rows_without_a_known_entry():
    rows = np.array([[0.0], [1.0], [np.nan], [1.0]])
    density = ls.LogSupermodularDensity(n_components=2).fit(rows)
    assert np.exp(density.score_samples([[0], [1]])).sum() == pytest.approx(1.0)


# --------------------------------------------------------------------- the number of components


def four_kinds(rng, count=500):
    """Return rows of four kinds that exclude each other, with a tenth of the zeros set."""
    kinds = np.repeat(np.eye(4, dtype=int), 3, axis=1)
    return (rng.random((count, 12)) < 0.1).astype(int) | kinds[rng.integers(4, size=count)]


def test_the_number_of_components_is_chosen_by_rows_that_are_held_out():
    rng = np.random.default_rng(0)
    X, fresh = four_kinds(rng), four_kinds(rng)
    density = ls.LogSupermodularDensity().fit(X)
    assert len(density.weights_) == 5
    single = ls.LogSupermodularDensity(n_components=1).fit(X)
    assert density.score(fresh) > single.score(fresh) + 1.0
    # few rows cannot tell
    assert ls.LogSupermodularDensity().fit(X[:49]).weights_.tolist() == [1.0]


@pytest.mark.parametrize(
    ("scores", "best", "tried"),
    [
        ([-3.0, -2.0, -4.0, -1.0, -2.0, -0.5], 3, 5),  # worse than the mixture before: the last one
        ([-3.0, -2.0, -4.0, -5.0, -1.0, -1.0], 1, 4),
        ([-1.0, -2.0, -5.0, -4.0, -3.0, -2.0], 0, 6),
        ([-6.0, -5.0, -4.0, -3.0, -2.0, -1.0], 5, 6),
    ],
)
def test_the_best_candidate_is_taken(scores, best, tried):
    candidates = [Candidate("counts"), *(Candidate("forest", c) for c in (1, 2, 5, 10, 20))]
    rows, asked = np.arange(120.0).reshape(60, 2), []

    def score(candidate, train, test, key):
        assert len(train) == 48 and key == 7
        assert sorted([*train[:, 0], *test[:, 0]]) == rows[:, 0].tolist()
        asked.append(candidate)
        return scores[candidates.index(candidate)]

    assert most_likely(candidates, rows, 7, score) is candidates[best]
    assert asked == candidates[:tried]
    asked.clear()
    for few in (rows[:49], rows[:, :1], np.full((60, 2), np.nan)):
        assert most_likely(candidates, few, 7, score) is candidates[0]
    assert most_likely(candidates[3:4], rows, 7, score) is candidates[3] and not asked


@pytest.mark.parametrize(
    ("operations", "tried"),
    [
        (1e9, [1, 2, 5, 10, 5]),  # the last one is fitted to all rows
        (10 * 500 * 12**2 - 1, [1, 2, 5, 5]),
        (2 * 500 * 12**2, [1, 2, 2]),
        (1, [1]),
    ],
)
def test_larger_mixtures_are_not_tried_in_vain(monkeypatch, operations, tried):
    found = []
    monkeypatch.setattr(
        "logsuper.estimators._density.fit_mixture",
        lambda rows, count, **options: found.append(count) or fit_mixture(rows, count, **options),
    )
    monkeypatch.setattr("logsuper.estimators._candidates._OPERATIONS", operations)
    X = four_kinds(np.random.default_rng(0)).astype(float)
    ls.LogSupermodularDensity("forest").fit(X)
    assert found == tried
    if operations == 2 * 500 * 12**2:  # rows with unknown entries take longer
        found.clear()
        X[:, 0] = np.nan
        ls.LogSupermodularDensity("forest").fit(X)
        assert found == [1]


@pytest.mark.parametrize(
    "params",
    [
        {"functions": "counts"},
        {"functions": [ls.Cut(6, [(0, 1)])]},
        {"penalty": 0.1},
        {"modular": "shared"},
        {"learner": "pseudo"},
        {"options": {"method": "sums"}},
    ],
    ids=str,
)
def test_other_arguments_mean_a_single_field(params):
    X = two_kinds(0, 100)
    assert len(ls.LogSupermodularDensity(**params).fit(X).models_) == 1
    (name,) = params
    with pytest.raises(ValueError, match=f"n_components = 2 needs {name} to be .* got "):
        ls.LogSupermodularDensity(n_components=2, **params).fit(X)


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1, got 0"),
        ({"n_components": 1.5}, TypeError, "n_components must be an integer"),
        ({"n_components": "many"}, ValueError, "n_components must be 'auto' or an integer >= 1"),
        ({"n_components": 4}, ValueError, "n_components = 4, but X has n_samples = 3; give"),
        ({"n_components": 2, "n_init": 0}, ValueError, "n_init must be at least 1"),
        ({"n_components": 2, "tol": 0}, ValueError, "tol must be positive"),
        ({"n_components": 2, "max_iter": 0}, ValueError, "max_iter must be at least 1"),
    ],
)
def test_one_clear_error(params, kind, message):
    with pytest.raises(kind, match=message):
        ls.LogSupermodularDensity(**params).fit(np.eye(3))


def test_what_only_a_single_field_has():
    X = two_kinds(0)
    density = ls.LogSupermodularDensity(n_components=2)
    for name in ("model_", "alpha_", "models_", "brackets_"):
        with pytest.raises(NotFittedError):
            getattr(density, name)
    density.fit(X)
    for name in ("model_", "bracket_", "alpha_", "modular_", "functions_", "parameters_"):
        assert not hasattr(density, name)
        with pytest.raises(AttributeError, match=f"{name} is that of a single field.* of 2"):
            getattr(density, name)
    with pytest.raises(AttributeError, match="model_ is that of a single field"):
        density.bracket()
    with pytest.raises(AttributeError, match="has no attribute 'magic_'"):
        density.magic_
    # and back again
    density.set_params(n_components=1).fit(X)
    assert density.models_ == (density.model_,) and density.bracket_.width < 1e-9
    assert density.set_params(n_components=3).fit(X).weights_.shape == (3,)
    assert not hasattr(density, "model_")


def test_too_few_iterations_warn():
    X = two_kinds(0)
    for most in (1, 2, 5):
        density = ls.LogSupermodularDensity(n_components=3, max_iter=most, tol=1e-12)
        with pytest.warns(ls.ConvergenceWarning, match=f"still gains after {most} iterations"):
            density.fit(X)
        assert density.n_iter_ == most and not density.converged_
        assert any(len(model.f.terms()) > 1 for model in density.models_)  # couplings too


def test_callbacks_hear_and_stop():
    lines = []
    density = ls.LogSupermodularDensity(n_components=2, n_init=1, callback=lines.append)
    density.fit(two_kinds(0))
    assert tuple(lines) == density.history_ and density.n_iter_ == len(lines)
    before = density.score_samples(np.eye(6))

    def stop(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        density.set_params(callback=stop, n_components=1).fit(two_kinds(1))
    np.testing.assert_array_equal(density.score_samples(np.eye(6)), before)


# ------------------------------------------------------------------------- scikit-learn and files


def test_grid_search_and_clones():
    X = two_kinds(0)
    search = GridSearchCV(ls.LogSupermodularDensity(n_init=1), {"n_components": [1, 2]}, cv=3)
    assert search.fit(X).best_params_ == {"n_components": 2}
    again = clone(search.best_estimator_).fit(X)
    np.testing.assert_array_equal(again.score_samples(X), search.best_estimator_.score_samples(X))
    copy = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(copy.score_samples(X), again.score_samples(X))


def test_files_hold_mixtures(tmp_path):
    X = two_kinds(0)
    X[:, 5] = np.random.default_rng(0).integers(0, 2, len(X))
    density = ls.LogSupermodularDensity(n_components=3).fit(X)
    density.save(tmp_path / "model")
    loaded = ls.LogSupermodularDensity.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.weights_, density.weights_)
    np.testing.assert_array_equal(loaded.score_samples(X), density.score_samples(X))
    np.testing.assert_array_equal(loaded.sample(9, 0), density.sample(9, 0))
    assert repr(loaded.history_) == repr(density.history_) and not hasattr(loaded, "model_")
    assert clone(loaded).fit(X).weights_.shape == (3,)


def test_files_with_other_contents_are_refused(tmp_path):
    path = tmp_path / "model"
    ls.LogSupermodularDensity(n_components=2).fit(two_kinds(0)).save(path)
    header, arrays = load_arrays(path, "model", 1)
    name = header["fitted"]["weights_"]["parts"]
    single = tmp_path / "single"
    ls.LogSupermodularDensity([ls.Cut(6, [(0, 1)])]).fit(two_kinds(0)).save(single)
    other, more = load_arrays(single, "model", 1)
    renamed = {f"other {key}": value for key, value in more.items()}

    def rename(value):
        if not isinstance(value, dict):
            return [rename(part) for part in value] if isinstance(value, list) else value
        if value.get("is") == "array":
            return {"is": "array", "parts": f"other {value['parts']}"}
        return {key: rename(part) for key, part in value.items()}

    both = {key: rename(other["fitted"][key]) for key in ("parameters_", "functions_")}
    fitted = header["fitted"]
    for change, changed in (
        ({}, {name: np.array([0.5, 0.6])}),
        ({}, {name: np.array([1.5, -0.5])}),
        ({}, {name: np.array([np.nan, 1.0])}),
        ({}, {name: np.array([0.2, 0.3, 0.5])}),
        ({"n_features_in_": 5}, {}),
        ({"_energies": {"is": "tuple", "parts": []}}, {}),
        (both, renamed),
    ):
        new = {**header, "fitted": {**fitted, **change}}
        save_arrays(path, "model", 1, new, {**arrays, **changed})
        with pytest.raises(ValueError, match="malformed"):
            ls.load_model(path)
    new = {**header, "fitted": {key: fitted[key] for key in fitted if key != "_energies"}}
    save_arrays(path, "model", 1, new, arrays)
    with pytest.raises(ValueError, match="malformed"):
        ls.load_model(path)


def test_loading_a_mixture_does_not_infer(tmp_path, monkeypatch):
    density = ls.LogSupermodularDensity(n_components=2).fit(two_kinds(0))
    density.save(tmp_path / "model")
    calls = []
    monkeypatch.setattr(ls.LogSupermodular, "bracket", lambda *a, **k: calls.append(1))
    ls.load_model(tmp_path / "model")
    assert not calls


def test_starts_do_not_warn():
    """Seeds may coincide, and components may have no row of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_mixture(np.zeros((5, 3)), 5, rng=np.random.default_rng(0))
