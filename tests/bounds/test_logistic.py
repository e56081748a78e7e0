"""The logistic bound against enumeration, closed forms and its own theory."""

import numpy as np
import pytest
from cases import each
from oracles import FAMILIES, brute_log_partition, brute_maximize, enumerate_x, random_cut
from scipy.special import expit

import logsuper as ls
from logsuper.bounds import TooLarge
from logsuper.bounds._draws import logit
from logsuper.bounds._logistic import log_partition, marginals, radius, without
from logsuper.functions import Cut, LogDet, Modular, PnPotts, grid_cuts

REDUCTIONS = ["auto", "none", "latin_hypercube", "regression"]


def sp(v):
    return np.logaddexp(0.0, v)


def noise(rng, *shape):
    return logit(rng.random(shape))


def two_nodes(w):
    """Return log Z and the logistic bound of one edge without fields."""
    return np.log(2) + sp(-w), 2 * sp(-w) + 2 * expit(w) - 1


# ----------------------------------------------------------------------------------- the bound


@each("family", FAMILIES)
def test_between_log_partition_and_lfield(family, seed):
    f = FAMILIES[family](np.random.default_rng(seed), 7)
    bound = log_partition(f, n_samples=400, seed=seed)
    slack = 5 * bound.stderr + 1e-9 * (1 + abs(bound.value))
    assert brute_log_partition(f) <= bound.value + slack
    assert bound.value - slack <= sp(-ls.min_norm_point(f).s).sum()
    assert bound.target == "upper"
    assert not bound.certified
    assert bound.solves == 400


@pytest.mark.parametrize("w", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("how", REDUCTIONS)
def test_one_edge(how, w, seed):
    bound = log_partition(Cut(2, [(0, 1)], w), n_samples=300, variance_reduction=how, seed=seed)
    exact, logistic = two_nodes(w)
    if w == 0:
        exact = logistic = 2 * np.log(2)
    assert exact <= logistic + 1e-12
    assert abs(bound.value - logistic) <= 5 * bound.stderr + 1e-9


def test_disjoint_edges_without_noise(seed):
    w = np.random.default_rng(seed).exponential(size=5)
    f = Cut(10, np.arange(10).reshape(5, 2), w)
    assert log_partition(f, seed=seed).value == pytest.approx(two_nodes(w)[1].sum(), abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 30])
def test_modular_is_exact(n, seed):
    t = np.random.default_rng(seed).normal(size=n) * 3
    for how in ("auto", "regression"):
        bound = log_partition(Modular(t), variance_reduction=how, seed=seed)
        assert bound.value == pytest.approx(sp(-t).sum(), abs=1e-10)
        assert bound.stderr < 1e-10


def test_any_edge_makes_both_inequalities_strict(seed):
    rng = np.random.default_rng(seed)
    f = Cut(4, [(0, 1)], 0.5) - Modular(rng.normal(size=4))
    bound = log_partition(f, n_samples=200, seed=seed)
    assert brute_log_partition(f) < bound.value - 1e-4
    assert bound.value + 1e-4 < sp(-ls.min_norm_point(f).s).sum()


@pytest.mark.parametrize("family", ["grid", "cardinality + modular", "log-det", "sum with a graph"])
def test_estimators_agree(family, seed):
    f = FAMILIES[family](np.random.default_rng(seed), 8)
    bounds = [
        log_partition(f, n_samples=400, variance_reduction=how, seed=seed + 10 * k)
        for k, how in enumerate(REDUCTIONS)
    ]
    for a in bounds:
        for b in bounds:
            assert abs(a.value - b.value) <= 5 * np.hypot(a.stderr, b.stderr) + 1e-9


@pytest.mark.parametrize("family", ["cut", "grid", "coverage"])
def test_gumbel_forms(family, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[family](rng, 6)
    X = enumerate_x(6)
    exact = brute_log_partition(f)
    draws = 4000
    # one Gumbel number a state: the expected maximum is log Z
    full = (rng.gumbel(-np.euler_gamma, size=(draws, 64)) - f(X)).max(axis=1)
    assert abs(full.mean() - exact) <= 5 * full.std() / np.sqrt(draws)
    # one a variable and value: the logistic bound
    g = rng.gumbel(-np.euler_gamma, size=(2, draws, 6))
    factored = (g[1] @ X.T + g[0] @ (1 - X).T - f(X)).max(axis=1)
    bound = log_partition(f, n_samples=1000, seed=seed)
    error = np.hypot(factored.std() / np.sqrt(draws), bound.stderr)
    assert abs(factored.mean() - bound.value) <= 5 * error


def test_conditional_bounds_refine(seed):
    f = FAMILIES["grid"](np.random.default_rng(seed), 8)
    whole = log_partition(f, n_samples=4000, seed=seed)
    parts = []
    for value in (0, 1):
        g, constant = f.condition({3: value})
        parts.append(log_partition(g, n_samples=4000, seed=seed).shifted(-constant))
    errors = 5 * (whole.stderr + max(part.stderr for part in parts))
    refined = np.logaddexp(*(part.value for part in parts))
    assert brute_log_partition(f) - errors <= refined <= whole.value + errors


def test_entropy_of_the_maximisers_and_the_loss(seed):
    f = FAMILIES["cut"](np.random.default_rng(seed), 6)
    z = noise(np.random.default_rng(seed), 20_000, 6)
    y, values = ls.maximize(f, z)
    _, counts = np.unique(y, axis=0, return_counts=True)
    p = counts / counts.sum()
    assert -(p * np.log(p)).sum() <= (z * y).sum(axis=1).mean() + 0.05
    assert values.mean() + f(enumerate_x(6)).min() >= -0.05


# ------------------------------------------------------------------- pointwise properties of V


@each("family", FAMILIES)
def test_perturbed_maximum_is_convex_monotone_lipschitz(family, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[family](rng, 6)
    z, other = noise(rng, 2, 10, 6)
    up = z + rng.exponential(size=z.shape)
    (y, v), (_, v_other), (y_up, v_up) = (ls.maximize(f, x) for x in (z, other, up))
    slack = 1e-9 * (1 + np.abs(v) + np.abs(v_other))
    assert (ls.maximize(f, (z + other) / 2)[1] <= (v + v_other) / 2 + slack).all()
    assert (v - slack <= v_up).all()
    assert (v_up <= v + (up - z).sum(axis=1) + slack).all()
    assert (y <= y_up).all()


def test_symmetric_cut(seed):
    rng = np.random.default_rng(seed)
    f = random_cut(rng, 8)
    z = noise(rng, 30, 8)
    np.testing.assert_allclose(
        ls.maximize(f, -z)[1], ls.maximize(f, z)[1] - z.sum(axis=1), atol=1e-10
    )
    found = marginals(f, n_samples=400, seed=seed)
    assert (abs(found.values - 0.5) <= 5 * found.stderr + 1e-9).all()


@pytest.mark.parametrize("family", ["cut", "coverage", "sum with a graph"])
def test_complement(family, seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES[family](rng, 6)
    total = f(np.ones(6))
    flipped = ls.SetFunction(lambda x: f(1 - x) - total, 6)
    z = noise(rng, 10, 6)
    expected = ls.maximize(f, -z)[1] + z.sum(axis=1) + total
    np.testing.assert_allclose(ls.maximize(flipped, z)[1], expected, atol=1e-8)


def test_permutation_direction_and_components(seed):
    rng = np.random.default_rng(seed)
    z, order = noise(rng, 20, 6), rng.permutation(6)
    arcs = np.array([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5)])
    weights = rng.exponential(size=5)
    f = Cut.directed(6, arcs, weights)
    moved = Cut.directed(6, np.argsort(order)[arcs], weights)
    values = ls.maximize(f, z)[1]
    np.testing.assert_allclose(ls.maximize(moved, z[:, order])[1], values, atol=1e-10)
    parts = [Cut.directed(3, arcs[:3], weights[:3]), Cut.directed(3, arcs[3:] - 3, weights[3:])]
    apart = sum(ls.maximize(g, z[:, 3 * k : 3 * k + 3])[1] for k, g in enumerate(parts))
    np.testing.assert_allclose(apart, values, atol=1e-10)


def test_variance_bounds(seed):
    rng = np.random.default_rng(seed)
    z = noise(rng, 5000, 16)
    for f in (random_cut(rng, 16), 5.0 * grid_cuts((4, 4))[0], Modular(rng.normal(size=16))):
        values = ls.maximize(f, z)[1]
        assert values.var() <= 16 * np.pi**2 / 3
        assert (values - z.sum(axis=1) / 2).var() <= 16 * np.pi**2 / 12 * 1.1


# ------------------------------------------------------------------------ intervals and radius


@pytest.mark.parametrize("how", REDUCTIONS)
def test_intervals_cover(how):
    f = Cut(6, [(0, 1), (1, 2), (3, 4), (4, 5)], [1.0, 0.5, 0.7, 2.0]) - Modular([0.5] * 6)
    truth = log_partition(f, n_samples=200_000, seed=99).value
    runs, held = 300, 0
    for seed in range(runs):
        low, high = log_partition(f, n_samples=60, variance_reduction=how, seed=seed).interval
        held += low <= truth <= high
    # 95 % of 300 are 285; four standard deviations are 15
    assert 270 <= held <= 299


def test_variance_is_reduced():
    f = 1.05 * grid_cuts((10, 10))[0] + 2.2 * grid_cuts((10, 10))[1]
    f = f - Modular(2.0 * (np.arange(100) % 10 < 5) - 1.0)
    values = {
        how: np.var([log_partition(f, variance_reduction=how, seed=s).value for s in range(40)])
        for how in ("none", "auto")
    }
    assert values["auto"] * 4 <= values["none"]


def test_control_variates_leave_the_mean_alone(seed):
    rng = np.random.default_rng(seed)
    sizes = np.full(10, 9)
    means = []
    for _ in range(1000):
        controls = rng.exponential(size=(90, 2)) - 1.0
        values = controls @ [1.0, 3.0] + (controls[:, 0] ** 2 - 1.0) + 0.1 * rng.normal(size=90)
        means.append(without(values, controls, np.array([1.0, 0.0]), sizes).mean())
    assert abs(np.mean(means)) <= 5 * np.std(means) / np.sqrt(1000)


def test_rigorous_radius(seed):
    # about the Gaussian radius, which it approaches from above for many draws
    for n, samples in [(1, 10), (50, 100), (2500, 100), (2500, 1000)]:
        gauss = np.sqrt(n * np.pi**2 / 6 * np.log(20) / samples)
        assert gauss <= radius(n, samples, 0.95) <= 1.5 * gauss + 3 * np.log(20) / samples
    assert radius(2500, 100, 0.95) == pytest.approx(11.1, abs=0.05)
    assert radius(10, 50, 0.5) < radius(10, 50, 0.9) < radius(10, 50, 0.999999)


@pytest.mark.parametrize("family", ["cut", "log-det"])
def test_rigorous_bound_holds(family):
    f = FAMILIES[family](np.random.default_rng(5), 5)
    truth = log_partition(f, n_samples=20_000, seed=1)
    held = 0
    for seed in range(100):
        bound = log_partition(f, n_samples=10, rigorous=True, seed=seed)
        held += bound.value >= truth.value - 5 * truth.stderr
        assert bound.certified
        assert bound.confidence == 0.95
        assert bound.value == bound.details["mean"] + bound.details["radius"]
    assert held >= 95


# ------------------------------------------------------------------------------------ marginals


def slow_differences(f, z):
    """Return best value with y_d = 1 less best with y_d = 0, by enumeration, without z_d."""
    out = np.empty_like(z)
    for d in range(f.n):
        sides = []
        for fixed in (np.inf, -np.inf):
            theta = z.copy()
            theta[:, d] = fixed
            sides.append(brute_maximize(f, theta)[1])
        out[:, d] = sides[0] - sides[1]
    return out


@pytest.mark.parametrize("family", ["grid", "coverage", "log-det", "cardinality + modular"])
def test_forms_of_marginals(family, seed):
    f = FAMILIES[family](np.random.default_rng(seed), 6)
    plain = marginals(f, n_samples=600, seed=seed)
    smooth = marginals(f, n_samples=200, form="smoothed", seed=seed + 1)
    ratio = marginals(f, n_samples=200, form="ratio", seed=seed + 2)
    z = noise(np.random.default_rng(seed), 500, 6)
    y, _ = ls.maximize(f, z)
    delta = slow_differences(f, z)
    np.testing.assert_array_equal(y, z > -delta)
    for found, truth, error in [
        (plain, expit(delta).mean(0), expit(delta).std(0)),
        (smooth, expit(delta).mean(0), expit(delta).std(0)),
        (ratio, expit(delta.mean(0)), delta.std(0) / 4),
    ]:
        spread = np.hypot(found.stderr, error / np.sqrt(500))
        assert (abs(found.values - truth) <= 6 * spread + 0.01).all()
    assert plain.solves == 600
    assert ratio.solves == 200 * 7


def test_ratio_is_closer_to_exact_marginals():
    rng = np.random.default_rng(0)
    f = sum(grid_cuts((3, 3))[:]) * 0.6 - Modular(rng.normal(size=9))
    X = enumerate_x(9)
    p = np.exp(-f(X))
    exact = p @ X / p.sum()
    errors = {
        form: abs(marginals(f, n_samples=2000, form=form, seed=1).values - exact).mean()
        for form in ("plain", "smoothed", "ratio")
    }
    assert errors["ratio"] < 0.6 * errors["plain"]
    assert errors["ratio"] < 0.6 * errors["smoothed"]


def test_marginals_are_the_gradient_of_the_bound(seed):
    rng = np.random.default_rng(seed)
    f = FAMILIES["cut"](rng, 5)
    step = 0.05
    z = noise(rng, 20_000, 5)
    found = marginals(f, n_samples=4000, seed=seed)
    for d in range(5):
        shift = step * np.eye(5)[d]
        up, down = (ls.maximize(f, z + s)[1].mean() for s in (shift, -shift))
        assert (up - down) / (2 * step) == pytest.approx(found.values[d], abs=0.03)


def test_associated(seed):
    f = FAMILIES["grid"](np.random.default_rng(seed), 8)
    y, _ = ls.maximize(f, noise(np.random.default_rng(seed), 20_000, 8))
    assert np.cov(y.T).min() >= -0.01


def test_modular_marginals(seed):
    t = np.random.default_rng(seed).normal(size=5)
    for form in ("smoothed", "ratio"):
        np.testing.assert_allclose(
            marginals(Modular(t), n_samples=2, form=form, seed=seed).values, expit(-t), atol=1e-12
        )


# ----------------------------------------------------------------------- seeds, sizes, refusals


@pytest.mark.parametrize("how", REDUCTIONS)
def test_same_seed_same_result(how):
    f = sum(grid_cuts((6, 7))[:]) - Modular(np.linspace(-1, 1, 42))
    results = [
        log_partition(f, variance_reduction=how, seed=3, n_jobs=jobs) for jobs in (None, 1, 2, -1)
    ]
    assert len({bound.value for bound in results}) == 1
    assert results[0].value != log_partition(f, variance_reduction=how, seed=4).value
    two = [marginals(f, n_samples=20, form="ratio", seed=3, n_jobs=j).values for j in (1, 2)]
    np.testing.assert_array_equal(*two)


@pytest.mark.parametrize("samples", [2, 3, 19, 20, 21, 57])
def test_any_number_of_samples(samples, seed):
    for f in (
        PnPotts(3, [[0, 1, 2]], 1.0),
        LogDet([[2.0]]),
        random_cut(np.random.default_rng(seed), 9),
    ):
        for how in REDUCTIONS[: 4 if samples >= 20 else 3]:
            bound = log_partition(f, n_samples=samples, variance_reduction=how, seed=seed)
            assert np.isfinite([bound.value, bound.stderr, *bound.interval]).all()
            assert bound.solves == samples


def test_rare_events_do_not_pass_for_certainty(seed):
    # everything is 0 with probability 0.9998: no draw will show it, and log Z is above 0 still
    f = Cut(3, [(0, 1), (1, 2)]) + Modular([9.0] * 3)
    bound = log_partition(f, seed=seed)
    assert bound.value == pytest.approx(brute_log_partition(f), abs=1e-4)
    assert bound.stderr >= 1e-3
    assert log_partition(f, variance_reduction="none", seed=seed).stderr >= 1e-3


def test_huge_weights(seed):
    f = Cut(3, [(0, 1), (1, 2)], [1e12, 1e-9]) - Modular([1e6, -1e6, 0.5])
    for how in REDUCTIONS:
        bound = log_partition(f, n_samples=200, variance_reduction=how, seed=seed)
        assert np.isfinite([bound.value, bound.stderr]).all()
        assert bound.value + 5 * bound.stderr + 1e-3 >= brute_log_partition(f)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 1}, "n_samples must be at least 2"),
        ({"n_samples": 2.5}, "n_samples must be an integer"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0 and 1"),
        ({"confidence": float("nan")}, "confidence must be finite"),
        ({"variance_reduction": "best"}, "variance_reduction must be one of auto, none"),
        ({"n_samples": 19, "variance_reduction": "regression"}, "needs at least 20 samples"),
        ({"rigorous": True, "variance_reduction": "regression"}, "needs independent draws"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
    ],
)
def test_refusals(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        log_partition(Cut(3, [(0, 1)]), **options)


def test_refusals_of_marginals():
    f = Cut(3, [(0, 1)])
    with pytest.raises(ValueError, match="form must be one of plain, smoothed, ratio"):
        marginals(f, form="best")
    with pytest.raises(ValueError, match="variance_reduction must be one of auto, none, latin"):
        marginals(f, variance_reduction="regression")
    with pytest.raises(TooLarge, match="'ratio' needs 4e\\+09 minimisations"):
        marginals(f, n_samples=10**9, form="ratio")


def test_intervals_allow_for_rare_events_at_strong_coupling():
    # nearly all maximisers are 0 or 1 throughout: rare others are most of the error
    across, down = grid_cuts((4, 4))
    t = np.random.default_rng(7).normal(size=16)
    f = 2.5 * across + 2.5 * down - Modular(t)
    truth = log_partition(f, n_samples=200_000, seed=1).value
    found = [log_partition(f, n_samples=300, seed=i) for i in range(100)]
    covered = [low <= truth <= high for low, high in (bound.interval for bound in found)]
    assert np.mean(covered) >= 0.88


@pytest.mark.parametrize("size", [1e200, 1e300])
@pytest.mark.parametrize("name", ["logistic", "power"])
def test_numbers_without_finite_squares_are_refused(size, name, capfd):
    fh, fv = ls.grid_cuts((3, 3))
    model = ls.LogSupermodular(size * fh + fv - ls.Modular(size * np.arange(-4.0, 5.0)))
    with pytest.raises(ValueError, match=r"has no finite square; rescale f"):
        model.log_partition(name, seed=0)
    captured = capfd.readouterr()  # LAPACK would print to the standard output by itself
    assert captured.out == captured.err == ""
