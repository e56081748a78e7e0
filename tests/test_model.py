"""The distribution itself: constants, conditioning, probabilities, dispatch, brackets."""

import pickle

import numpy as np
import pytest
from oracles import FAMILIES, brute_log_partition, enumerate_x

import logsuper as ls
from logsuper.bounds import METHODS

N = 7


def random_model(name, seed, constant=0.0):
    f = FAMILIES[name](np.random.default_rng(seed), N)
    return ls.LogSupermodular(f, constant)


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def test_constant_is_added(family):
    m = random_model(family, 0, constant=-3.5)
    expected = brute_log_partition(m.f) - 3.5
    assert m.log_partition().value == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_mode_maximises(family, seed):
    m = random_model(family, seed)
    assert m.f(m.mode()) == pytest.approx(m.f(enumerate_x(N)).min(), abs=1e-9)


def test_probabilities_sum_to_one(family, seed):
    m = random_model(family, seed, constant=1.0)
    total = np.logaddexp.reduce(m.log_prob(enumerate_x(N)))
    assert total == pytest.approx(0.0, abs=1e-9)


def test_conditioning_splits_the_sum(family, seed):
    m = random_model(family, seed, constant=0.7)
    whole = m.log_partition().value
    for d in (0, N - 1):
        parts = [m.condition({d: value}).log_partition().value for value in (0, 1)]
        assert np.logaddexp(*parts) == pytest.approx(whole, rel=1e-10, abs=1e-9)
        odds = m.marginals("exact").values.flat[d]
        assert np.exp(parts[1] - whole) == pytest.approx(odds, abs=1e-9)


def test_conditioning_twice_is_conditioning_once():
    m = random_model("cut", 3)
    twice = m.condition({5: 1}).condition({2: 0, 5: 1})
    once = m.condition({2: 0, 5: 1})
    assert twice.fixed == once.fixed == {5: 1, 2: 0}
    assert twice.free.tolist() == [0, 1, 3, 4, 6]
    assert twice.log_partition().value == pytest.approx(once.log_partition().value)
    with pytest.raises(ValueError, match="fixed to 1 before"):
        once.condition({5: 0})


def test_marginals_samples_and_mode_keep_the_length():
    m = random_model("grid", 1)
    m = ls.LogSupermodular(m.f, shape=(N,)).condition({0: 1, 3: 0})
    values = m.marginals()
    assert values.shape == (N,) and values[0] == 1 and values[3] == 0
    assert values.lower is None or (values.lower[0], values.upper[3]) == (1, 0)
    sampled = m.marginals("sampling", n_samples=50, seed=0)
    assert sampled.stderr.shape == (N,) and sampled.stderr[0] == 0
    X = m.sample(20, seed=0)
    assert X.shape == (20, N) and X.dtype == np.uint8
    assert (X[:, 0] == 1).all() and (X[:, 3] == 0).all()
    assert m.mode()[[0, 3]].tolist() == [1, 0]
    assert m.log_prob(m.mode()) > -np.inf
    assert m.log_prob(np.zeros(N)) == -np.inf


def test_everything_fixed_is_legal():
    m = ls.LogSupermodular(ls.Cut(2, [(0, 1)], 3.0), constant=1.0).condition({0: 1, 1: 0})
    assert m.log_partition().value == m.log_partition("lfield").value == -2.0
    assert (m.bracket().lower, m.bracket().upper) == (-2.0, -2.0)
    np.testing.assert_array_equal(m.marginals(), [1, 0])
    np.testing.assert_array_equal(m.sample(3, seed=0), [[1, 0]] * 3)
    np.testing.assert_array_equal(m.mode(), [1, 0])
    assert m.log_prob([1, 0]) == 0 and m.log_prob([0, 0]) == -np.inf
    for method, options in [("bethe", {}), ("sampling", {"confidence": 0.9, "seed": 0})]:
        found = m.marginals(method, **options)
        np.testing.assert_array_equal([found.values, found.lower, found.upper], [[1, 0]] * 3)
    for name in ("log_partition", "marginals"):
        with pytest.raises(ValueError, match="method must be one of"):
            getattr(m, name)("bete")
        with pytest.raises(TypeError, match="lfield has no option 'sample'"):
            getattr(m, name)("lfield", sample=3)


def test_log_prob_has_sides(seed):
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts((16, 16))
    m = ls.LogSupermodular(sum(cuts) - ls.Modular(rng.normal(size=256)))
    X = m.sample(4, seed=rng)
    lower, exact, upper = (
        m.log_prob(X, side, **options)
        for side, options in [("lower", {"budget": 1e6}), ("exact", {}), ("upper", {"budget": 1e6})]
    )
    assert (lower < exact).all() and (exact < upper).all()
    assert isinstance(m.log_prob(X[0]), float)


def test_bracket_names_its_methods_and_obeys_its_budget(seed):
    rng = np.random.default_rng(seed)
    cuts = ls.grid_cuts((16, 16))
    m = ls.LogSupermodular(1.5 * sum(cuts) - ls.Modular(rng.normal(size=256)), constant=5.0)
    exact = m.log_partition().value
    widths = []
    for budget in (1.0, 3e5, 3e6, 3e7, 1e9):
        b = m.bracket(budget)
        assert b.lower <= exact + 1e-9 and exact - 1e-9 <= b.upper
        assert b.below.certified and b.above.certified and b.confidence is None
        widths.append(b.width)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 1e-9 and widths[0] > 1
    assert m.bracket(1.0).above.method == m.bracket(np.int64(1)).above.method == "lfield"


def test_bracket_hands_its_budget_to_exact_inference(monkeypatch):
    # a grid of 24 columns takes 1.6e10 operations, above what exact inference takes unasked
    seen = []

    def record(f, method, **options):
        seen.append((method, options))
        return ls.Bound(0.0, "exact", method, certified=True)

    monkeypatch.setattr("logsuper.bounds._methods.log_partition", record)
    ls.LogSupermodular(sum(ls.grid_cuts((40, 24)))).bracket(1e11)
    assert seen == [("exact", {"budget": 1e11})]


def test_bracket_may_use_luck_if_asked():
    cuts = ls.grid_cuts((12, 12), neighbors=8)
    m = ls.LogSupermodular(0.2 * sum(cuts))
    b = m.bracket(1.0, confidence=0.9, seed=0)
    assert b.confidence == 0.9 and b.above.method == "logistic" and b.above.certified
    assert b.upper < m.bracket(1.0).upper
    assert b.upper == m.bracket(1.0, confidence=0.9, seed=0).upper


def test_bracket_of_what_is_not_pairwise():
    m = random_model("sum without a graph", 0)
    exact = m.log_partition().value
    b = m.bracket(budget=10.0)
    assert b.lower <= exact <= b.upper
    assert (b.below.method, b.above.method) == ("superdifferential", "lfield")


def test_repr_and_pickle():
    m = random_model("cut", 0, constant=0.5).condition({1: 1})
    assert repr(m).startswith("LogSupermodular(") and "1 fixed" in repr(m)
    again = pickle.loads(pickle.dumps(m))
    assert again.fixed == m.fixed
    assert again.log_partition().value == m.log_partition().value


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: ls.LogSupermodular(3), TypeError, "f must be a submodular function"),
        (lambda m: ls.LogSupermodular(m.f, np.nan), ValueError, "constant must be finite"),
        (lambda m: m.log_partition("bete"), ValueError, "method must be one of auto, exact, enum"),
        (lambda m: m.marginals("bete"), ValueError, "method must be one of"),
        (lambda m: m.sample(1, "bete"), ValueError, "method must be one of"),
        (lambda m: m.log_partition("lfield", sample=3), TypeError, "lfield has no option 'sample'"),
        (lambda m: m.log_prob([0, 1]), ValueError, "X must have shape"),
        (lambda m: m.log_prob(np.zeros(N), side="left"), ValueError, "side must be"),
        (lambda m: m.bracket(budget=0), ValueError, "budget must be a positive number"),
        (lambda m: m.bracket(budget=np.inf), ValueError, "budget must be finite"),
        (lambda m: m.bracket(budget="1e9"), TypeError, "budget must be a real number"),
        (lambda m: m.bracket(confidence=1.5), ValueError, "confidence must lie strictly"),
        (lambda m: m.bracket(confidence="a"), TypeError, "confidence must be a real number"),
        (lambda m: m.condition({N: 1}), ValueError, "outside the ground set"),
        (lambda m: m.sample(-1), ValueError, "n_samples"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make(random_model("cut", 0))


@pytest.mark.parametrize("method", ["bethe", "trw", "elimination"])
def test_methods_refuse_by_name_what_they_are_not_valid_for(method):
    m = random_model("log-det", 0)
    with pytest.raises(ls.NotApplicable, match=f"{method} needs a pairwise function, got LogDet"):
        m.log_partition(method)


@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (1, 9)])
def test_what_conditioning_leaves_of_a_grid_is_still_a_grid(shape, seed):
    rng = np.random.default_rng(seed)
    size = shape[0] * shape[1]
    cuts = ls.grid_cuts(shape)
    f = sum(rng.exponential() * cut for cut in cuts) - ls.Modular(rng.normal(size=size))
    fixed = {int(d): int(rng.integers(2)) for d in rng.permutation(size)[:4]}
    m = (
        ls.LogSupermodular(f, constant=0.5)
        .condition(dict(list(fixed.items())[:2]))
        .condition(fixed)
    )
    exact = m.log_partition("enumeration").value
    assert m.log_partition("transfer").value == pytest.approx(exact, abs=1e-10)
    np.testing.assert_allclose(m.marginals("transfer"), m.marginals("enumeration"), atol=1e-10)
    for window in (1, 2, 20):
        low, high = m.log_partition("strips", window=window).interval
        assert low <= exact <= high
        mu, truth = m.marginals("strips", window=window), np.asarray(m.marginals("enumeration"))
        assert (mu.lower <= truth + 1e-12).all() and (truth <= mu.upper + 1e-12).all()
    assert high - low < 1e-9


def test_a_fixed_pixel_costs_no_certificate():
    image = ls.make_silhouettes(1, shape=(40, 40), seed=0)[0]
    fh, fv = ls.grid_cuts(image.shape)
    channel = ls.Flips(0.1)
    m = ls.LogSupermodular(1.05 * fh + 2.2 * fv).observe(channel, channel.sample(image, seed=0))
    parts = [m.condition({33: value}).bracket() for value in (0, 1)]
    assert all(part.width < 1e-3 and part.above.method == "strips" for part in parts)
    both = m.bracket()
    assert np.logaddexp(parts[0].lower, parts[1].lower) <= both.upper
    assert np.logaddexp(parts[0].upper, parts[1].upper) >= both.lower
    assert m.condition({33: 1}).marginals().method == "strips"


@pytest.mark.parametrize(
    "arguments",
    [{"budget": True}, {"budget": "1e9"}, {"budget": 0}, {"budget": np.nan}, {"confidence": "x"}],
)
def test_bracket_refuses_what_is_no_number(arguments):
    with pytest.raises((TypeError, ValueError), match=next(iter(arguments))):
        random_model("cut", 0).bracket(**arguments)


def test_bracket_takes_numbers_of_numpy():
    m = random_model("cut", 0)
    assert m.bracket(np.int64(10**9)) == m.bracket(1e9)


def test_models_on_a_grid_are_images():
    fh, fv = ls.grid_cuts((3, 4))
    t = np.random.default_rng(0).normal(size=12)
    m = ls.LogSupermodular(0.5 * fh + 0.8 * fv - ls.Modular(t), constant=1.0)
    flat = ls.LogSupermodular(m.f, constant=1.0, shape=(12,))
    assert (m.shape, flat.shape) == ((3, 4), (12,))
    for fixed in ({}, {(1, 2): 1, 0: 0}):
        a, b = m.condition(fixed), flat.condition({6: 1, 0: 0} if fixed else {})
        assert a.shape == (3, 4) and a.fixed == b.fixed
        np.testing.assert_array_equal(a.mode(), b.mode().reshape(3, 4))
        mine, other = (model.marginals("sampling", seed=0, confidence=0.9) for model in (a, b))
        for name in ("values", "lower", "upper", "stderr"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(other, name).reshape(3, 4))
        X = a.sample(5, seed=0)
        np.testing.assert_array_equal(X, b.sample(5, seed=0).reshape(5, 3, 4))
        for images in (X, X[0], X.reshape(1, 5, 3, 4)):
            rows = images.reshape(*images.shape[:-2], 12)
            expected = b.log_prob(rows)
            np.testing.assert_array_equal(a.log_prob(images), expected)
            np.testing.assert_array_equal(a.log_prob(rows), expected)
        start = a.sample(2, "gibbs", seed=1, burn_in=0, chains=2, start=X[:2])
        rows = b.sample(2, "gibbs", seed=1, burn_in=0, chains=2, start=X[:2].reshape(2, 12))
        np.testing.assert_array_equal(start, rows.reshape(2, 3, 4))
    posterior = m.observe(ls.Flips(0.1), np.ones((3, 4)))
    assert posterior.shape == (3, 4) and posterior.mode().shape == (3, 4)
    with pytest.raises(ValueError, match=r"observed has shape \(4, 3\), but the model has shape"):
        m.observe(ls.Flips(0.1), np.ones((4, 3)))


def test_what_is_not_made_as_a_grid_is_a_vector():
    fh, fv = ls.grid_cuts((2, 6))
    assert ls.LogSupermodular(ls.Cut(12, fh.edges)).shape == (12,)
    assert ls.LogSupermodular(fh + ls.grid_cuts((3, 4))[0]).shape == (12,)
    assert ls.LogSupermodular(ls.Cut(12, fh.edges), shape=(2, 6)).mode().shape == (2, 6)
    assert ls.LogSupermodular(2.0 * fv).condition({i: 0 for i in range(12)}).shape == (2, 6)
    for shape, message in [((2, 5), "has 10 elements, but f has 12"), ((2.0, 6), "shape")]:
        with pytest.raises((TypeError, ValueError), match=message):
            ls.LogSupermodular(fh, shape=shape)


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({(2, 0): 1}, r"the key \(2, 0\), which is not a place in \(2, 6\)"),
        ({(0,): 1}, "which is not a place"),
        ({(0, -1): 1}, "which is not a place"),
        ({(0, 0.5): 1}, "which is not a place"),
        ({(1, 0): 1, 6: 0}, "the element 6 twice"),
    ],
)
def test_bad_places_are_named(fixed, message):
    with pytest.raises(ValueError, match=message):
        ls.LogSupermodular(ls.grid_cuts((2, 6))[0]).condition(fixed)


def test_log_partition_is_never_too_large_by_default():
    fh, fv = ls.grid_cuts((40, 40))
    m = ls.LogSupermodular(0.4 * fh + 0.4 * fv, constant=2.0)
    bound, bracket = m.log_partition(), m.bracket()
    assert bound.interval == (bracket.lower, bracket.upper)
    assert bracket.lower < bound.value < bracket.upper
    assert (bound.target, bound.certified, bound.confidence) == ("estimate", True, None)
    x = np.zeros((2, 40, 40))
    assert (m.log_prob(x) == 2.0 - bound.value).all()
    for ask in (lambda: m.log_partition("exact"), lambda: m.log_prob(x, side="exact")):
        with pytest.raises(ls.TooLarge):
            ask()
    narrow = m.observe(ls.Flips(0.01), x[0]).log_partition()
    assert narrow.target == "exact" and np.ptp(narrow.interval) <= 1e-6


@pytest.mark.parametrize("name", [name for name in METHODS if name != "cardinality"])
def test_bounds_are_functions(name):
    fh, fv = ls.grid_cuts((2, 3))
    m = ls.LogSupermodular(fh + 0.5 * fv - ls.Modular([0.2] * 6), constant=3.0)
    options = {"seed": 0} if name in ("logistic", "power") else {}
    function = getattr(ls.bounds, name)
    assert function(m, **options) == m.log_partition(name, **options)
    assert function(m.f, **options).shifted(3.0) == m.log_partition(name, **options)
    assert function.__name__ == name and "Examples" in function.__doc__
    with pytest.raises(TypeError, match="has no option 'neighbours'"):
        function(m, neighbours=3)
    with pytest.raises(TypeError, match="LogSupermodular or a SubmodularFunction, got a int"):
        function(3)
