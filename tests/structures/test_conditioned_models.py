"""Brackets, marginals and samples of conditioned images, and one model given in several ways."""

from __future__ import annotations

import numpy as np
import pytest
from bounds.grids import ENGINES, brute, use_engine
from hypothesis import given
from hypothesis import strategies as st
from oracles import brute_log_partition, check_bracket
from sampling_oracles import BUILDS, p_value, use
from structures.models import contrast, edges_of, make_functions, to_few

import logsuper as ls
from logsuper.bounds import _strips, _transfer
from logsuper.functions import SubmodularFunction, split_modular
from logsuper.sampling import sample, sample_fields
from logsuper.sampling._scan import HoledScan, PairwiseScan, Sweeps, make_scan
from logsuper.structures import image_of, structure_of

SHAPES = [(4, 4), (3, 5), (5, 3), (2, 7), (7, 2), (8, 8)]
STYLES = ["uniform", "contrast", "cut"]
CASES = [
    *((shape, style) for shape in SHAPES for style in STYLES),
    *((shape, style) for shape in [(1, 9), (9, 1)] for style in STYLES[:2]),
]


def conditioned(
    rng: np.random.Generator,
    shape: tuple[int, int],
    style: str,
    most: int,
    weight: float = 1.0,
    field: float = 1.0,
) -> SubmodularFunction:
    """Return an image with all but some pixels fixed: uniform or contrast weights, and a field."""
    n = shape[0] * shape[1]
    total: SubmodularFunction = ls.Modular(field * rng.normal(size=n))
    if style == "cut":
        edges = edges_of(shape)
        total = total + ls.Cut(n, edges, weight * rng.exponential(size=len(edges)))
    else:
        for cut in ls.grid_cuts(shape):
            total = total + weight * (cut if style == "uniform" else contrast(rng, cut, 0.1))
    # in one piece, so that edges are left, but not those around it
    corner = int(rng.integers(0, n - most + 1))
    inside = np.arange(corner, corner + most)
    fixed = {int(d): int(rng.integers(2)) for d in np.setdiff1d(np.arange(n), inside)}
    return total.condition(to_few(rng, n, fixed, most))[0]


# --------------------------------------------------------------------------- brackets, marginals


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape, style", CASES)
def test_brackets_hold_the_exact_values(
    monkeypatch: pytest.MonkeyPatch, engine: str, style: str, shape: tuple[int, int]
) -> None:
    use_engine(monkeypatch, engine)
    rng = np.random.default_rng([*shape, ENGINES.index(engine)])
    for weight, field in ((1.0, 1.0), (0.3, 2.0), (20.0, 15.0)):
        f = conditioned(rng, shape, style, 6, weight, field)
        image = image_of(f)
        assert image is not None and image.fixed == shape[0] * shape[1] - 6
        exact, mean = brute(f)
        slack = 1e-13 * (1.0 + abs(exact))
        for window in (1, 2, None):
            low, high = _strips.log_partition(f, window=window).interval
            assert low - slack <= exact <= high + slack
            found = _strips.marginals(f, window=window)
            check_bracket(found, mean, 1.0, 1e-12)
        assert high - low <= 1e-9 * (1.0 + abs(exact))  # a window of ten columns holds them all
        bound = _transfer.log_partition(f)
        assert bound.value == pytest.approx(exact, abs=1e-11 * (1.0 + abs(exact)))
        assert bound.interval[0] - slack <= exact <= bound.interval[1] + slack
        check_bracket(_transfer.marginals(f), mean, 1e-9, 1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(2, 5), st.integers(1, 5))
def test_any_small_image_with_any_holes(number: int, rows: int, columns: int, window: int) -> None:
    rng = np.random.default_rng(number)
    weight, field = 10.0 ** rng.uniform(-2, 3, 2)
    total = ls.Modular(field * rng.normal(size=rows * columns))
    for cut in ls.grid_cuts((rows, columns)):
        total = total + weight * contrast(rng, cut, 0.2)
    n = rows * columns
    fixed = {int(d): int(rng.integers(2)) for d in np.flatnonzero(rng.random(n) < 0.3)}
    f = total.condition(to_few(rng, n, fixed, 9))[0] if n > len(fixed) else total
    exact, mean = brute(f)
    slack = 1e-13 * (1.0 + abs(exact))
    bracket = ls.LogSupermodular(f).bracket()
    assert bracket.lower - slack <= exact <= bracket.upper + slack
    if image_of(f) is None:  # no edge is left
        assert structure_of(f).kind == "modular"
        return
    low, high = _strips.log_partition(f, window=window).interval
    assert low - slack <= exact <= high + slack
    assert _transfer.log_partition(f).value == pytest.approx(exact, abs=100 * slack)
    check_bracket(_strips.marginals(f, window=window), mean, 1.0, 1e-12)


def test_larger_images_with_holes(seed: int) -> None:
    """Strips against transfer, and transfer against elimination, which knows of no image."""
    rng = np.random.default_rng(seed)
    f = sum(0.8 * contrast(rng, cut) for cut in ls.grid_cuts((9, 12))) - ls.Modular(
        rng.normal(size=108)
    )
    fixed = {int(d): int(rng.integers(2)) for d in rng.permutation(108)[:20]}
    model = ls.LogSupermodular(f, shape=(108,)).condition(fixed)
    exact = model.log_partition("transfer")
    assert exact.value == pytest.approx(model.log_partition("elimination").value, abs=1e-10)
    mean = model.marginals("transfer")
    assert np.allclose(mean, model.marginals("elimination"), rtol=0, atol=1e-10)
    assert np.array_equal(mean[list(fixed)], list(fixed.values()))
    widths = []
    for window in (1, 3, 6):
        low, high = model.log_partition("strips", window=window).interval
        assert low <= exact.value <= high
        widths.append(high - low)
        found = model.marginals("strips", window=window)
        assert np.all((found.lower <= mean + 1e-12) & (mean <= found.upper + 1e-12))
    assert widths[2] < widths[1] < widths[0] and widths[2] < 0.1


# ------------------------------------------------------------------------------------------ samples


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("style", STYLES)
def test_samples_have_the_law_of_the_model(
    monkeypatch: pytest.MonkeyPatch, build: str, style: str, seed: int
) -> None:
    use(monkeypatch, build)
    f = conditioned(np.random.default_rng([seed, 8]), (3, 4), style, 5, 0.7)
    scan = make_scan(f)
    assert isinstance(scan, HoledScan) and scan.n == 5
    assert p_value(sample(f, 3000, "cftp", seed=seed), f) > 1e-4
    if seed == 0:  # one that is not exact, after enough steps for the strongest edge
        assert p_value(sample(f, 2000, "gibbs", seed=seed, burn_in=200), f) > 1e-4
        X = sample(f, 2000, "swendsen_wang", seed=seed, burn_in=30, sweeps=1)
        assert p_value(X, f) > 1e-4


def test_samples_of_volumes_and_diagonals_with_holes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for shape, neighbors in (((3, 4), 8), ((2, 2, 3), 26)):
        f = 0.5 * make_functions(rng, shape, neighbors, "sum")[0]
        g, _ = f.condition(to_few(rng, 12, {}, 5))
        assert p_value(sample(g, 2000, "cftp", seed=seed), g) > 1e-4


def test_a_broken_condition_would_be_noticed() -> None:
    """The law of the samples is not that of a model with one fixed pixel turned over."""
    f = sum(ls.grid_cuts((2, 3)))
    g, h = (f.condition({0: a, 5: 1})[0] for a in (0, 1))
    assert isinstance(make_scan(g), HoledScan)
    assert (
        p_value(sample(g, 3000, "cftp", seed=0), h)
        < 1e-4
        < p_value(sample(h, 3000, "cftp", seed=0), h)
    )


def test_one_sample_for_each_field_of_a_conditioned_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = conditioned(rng, (3, 4), "uniform", 4, 0.6)
    theta = rng.normal(size=(2, 4))
    X = sample_fields(f, np.repeat(theta, 2000, axis=0), seed=seed, n_jobs=2)
    for k in range(2):
        assert p_value(X[2000 * k : 2000 * (k + 1)], f - ls.Modular(theta[k])) > 1e-4


@pytest.mark.parametrize("build", BUILDS)
def test_sweeps_over_holes_do_not_see_them(
    monkeypatch: pytest.MonkeyPatch, build: str, seed: int
) -> None:
    """Whatever the holes do, elements are swept as by the gains of the function."""
    use(monkeypatch, build)
    rng = np.random.default_rng(seed)
    f = conditioned(rng, (6, 7), "contrast", 20)
    scan = make_scan(f)
    assert isinstance(scan, HoledScan)
    states = rng.integers(0, 2, (5, 20), dtype=np.uint8)
    g, t = split_modular(f)
    assert np.allclose(scan.energy(states), g(states), atol=1e-12)
    assert np.array_equal(scan.modular, t)
    # one chain of two that start together stays with the other, and chains stay ordered
    pair = np.sort(rng.integers(0, 2, (6, 2, 20), dtype=np.uint8), axis=1)
    alone = np.ascontiguousarray(pair[:, :1])
    problems = np.arange(6, dtype=np.uint64)
    scan.run(pair, t[None], Sweeps(3, problems, range(4)))
    scan.run(alone, t[None], Sweeps(3, problems, range(4)))
    assert np.array_equal(pair[:, 0], alone[:, 0])
    assert np.all(pair[:, 0] <= pair[:, 1])
    # strong fields decide, pixel by pixel
    strong = 1e6 * np.where(rng.random((6, 20)) < 0.5, -1.0, 1.0)
    scan.run(pair, strong, Sweeps(3, problems, range(1)))
    assert np.array_equal(pair, np.repeat(strong[:, None] > 0, 2, axis=1))


# ------------------------------------------------------------------------- one model, given thrice


@pytest.mark.parametrize("style", ["uniform", "contrast"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 2), (2, 5), (7, 9)])
@pytest.mark.parametrize("share", [0.0, 0.15])
def test_the_same_model_in_three_ways(tmp_path, style, shape, share, seed) -> None:
    rng = np.random.default_rng([seed, *shape])
    n = shape[0] * shape[1]
    t = ls.Modular(rng.normal(size=n))
    cuts = [
        0.7 * (cut if style == "uniform" else contrast(rng, cut)) for cut in ls.grid_cuts(shape)
    ]
    grid = ls.LogSupermodular(cuts[0] + cuts[1] - t, shape=(n,))
    parts = [(w * c.weights, c.edges) for f in cuts for w, c in f.terms()]
    weights, edges = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = rng.permutation(len(edges))
    cut = ls.LogSupermodular(ls.Cut(n, edges[order, ::-1], weights[order]) - t)
    ls.write_uai(grid, tmp_path / "model.uai")
    fixed = {int(d): int(rng.integers(2)) for d in np.flatnonzero(rng.random(n) < share)}
    models = [
        grid.condition(fixed),
        cut.condition(fixed),
        ls.read_uai(tmp_path / "model.uai", fixed),
    ]
    # through a file once more, with what is fixed in one of its own
    ls.write_uai(models[0], tmp_path / "again.uai", tmp_path / "again.evid")
    models.append(ls.read_uai(tmp_path / "again.uai", tmp_path / "again.evid"))
    ls.write_uai(models[0], tmp_path / "hard.uai")
    models.append(ls.read_uai(tmp_path / "hard.uai"))

    first = structure_of(models[0].f)
    assert first.kind == "grid" and first.grid.shape == (1, *shape)
    bracket, marginals = grid.condition(fixed).bracket(), models[0].marginals("strips", window=3)
    strips = models[0].log_partition("strips", window=2).interval
    X = rng.integers(0, 2, (20, models[0].f.n))
    for model in models[1:]:
        structure = structure_of(model.f)
        assert model.fixed == fixed and structure.kind == "grid"
        assert structure.grid.shape == (1, *shape) and structure.image_shape == shape
        assert np.array_equal(structure.image.pixels, first.image.pixels)
        assert np.allclose(model.f(X), models[0].f(X), rtol=0, atol=1e-12 * (1 + n))
        found = model.bracket()
        size = 1e-12 * max(1.0, abs(bracket.lower))
        assert found.lower == pytest.approx(bracket.lower, abs=size)
        assert found.upper == pytest.approx(bracket.upper, abs=size)
        low, high = model.log_partition("strips", window=2).interval
        assert (low, high) == pytest.approx(strips, abs=size)
        other = model.marginals("strips", window=3)
        for one, two in ((marginals, other), (marginals.lower, other.lower),
                         (marginals.upper, other.upper)):  # fmt: skip
            assert np.allclose(one, two, rtol=0, atol=1e-12)
        assert np.array_equal(model.mode(), models[0].mode())
    if n <= 16:
        exact = brute_log_partition(models[0].f) + models[0].constant
        assert bracket.lower - 1e-11 <= exact <= bracket.upper + 1e-11


def test_the_samples_of_an_image_do_not_depend_on_how_it_was_given(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cut = ls.grid_cuts((4, 5))
    f = 0.5 * cut[0] + 0.5 * cut[1] - ls.Modular(rng.normal(size=20))
    g = ls.Cut(20, edges_of((4, 5)), 0.5) - ls.Modular(-dict(enumerate(f.terms()))[2][1].t)
    for fixed in ({}, {3: 1, 11: 0}):
        one, two = (h.condition(fixed)[0] for h in (f, g))
        assert isinstance(make_scan(one), HoledScan if fixed else PairwiseScan)
        assert np.array_equal(sample(one, 50, seed=seed), sample(two, 50, seed=seed))
