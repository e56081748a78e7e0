"""The structured support vector machine against all labellings listed."""

import numpy as np
import pytest
from learning_oracles import LEARNABLE, Enumerated, all_statistics, small_examples

import logsuper as ls
from logsuper._base._warnings import ConvergenceWarning
from logsuper.learning import Examples, Penalty, make_examples
from logsuper.learning import _decoding as decoding
from logsuper.learning._max_margin import max_margin

TIGHT = 1e-11


def listed(data: Examples, penalty: Penalty, weights: np.ndarray | float = 1.0) -> Enumerated:
    """Return the objective with every labelling listed."""
    (group,) = data.groups
    slopes, constants, y = all_statistics(data)
    wrong = np.abs(y[None] - group.labels[:, None])  # (N, 2^n, n)
    loss = (wrong * np.broadcast_to(weights, group.labels.shape)[:, None]).sum(axis=2)
    return Enumerated(data, penalty, slopes, constants + loss)


def weigh(data: Examples, seed: int) -> Penalty:
    rng = np.random.default_rng(seed)
    return Penalty(0.05 + rng.exponential(size=data.layout.size), data.layout.fill())


@pytest.mark.parametrize("family", LEARNABLE)
def test_the_optimum_is_that_of_a_generic_solver(family: str, seed: int) -> None:
    data = small_examples(family, seed)
    penalty = weigh(data, seed)
    problem = listed(data, penalty)
    _, optimum = problem.solve()
    found = max_margin(data, penalty, tol=TIGHT)
    last = found.history[-1]
    assert found.converged
    assert last.objective == pytest.approx(problem.value(found.theta), rel=1e-10, abs=1e-10)
    assert last.objective == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    assert last.objective <= optimum + 1e-9 * abs(optimum)
    assert found.details["residual"] < 1e-6 and abs(found.details["slack"]) < 1e-8


@pytest.mark.parametrize(
    "options",
    [
        {"observed": False},
        {"scale": False},
        {"modular": "shared", "features": 2},
        {"modular": "none"},
        {"factors": "image"},
        {"factors": "function", "features": 2},
        {"factors": "image", "observed": False},
    ],
    ids=str,
)
def test_the_optimum_whatever_is_learned(options: dict, seed: int) -> None:
    data = small_examples("cut", seed, **options)
    penalty = weigh(data, seed)
    found = max_margin(data, penalty, tol=TIGHT)
    optimum = listed(data, penalty).solve()[1]
    assert found.history[-1].objective == pytest.approx(optimum, rel=1e-6, abs=1e-6)


def test_pixels_may_weigh_differently(seed: int) -> None:
    data = small_examples("cut", seed)
    rng = np.random.default_rng(seed)
    penalty = weigh(data, seed)
    for shape in [(4,), (3, 4)]:
        weights = rng.exponential(size=shape) * (rng.random(shape) < 0.8)
        found = max_margin(data, penalty, loss=weights, tol=TIGHT)
        optimum = listed(data, penalty, weights).solve()[1]
        assert found.history[-1].objective == pytest.approx(optimum, rel=1e-6, abs=1e-6)


def test_pixels_of_images_of_different_shapes_may_weigh_differently(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = [(2, 3), (3, 3), (2, 3)]
    x = [rng.integers(0, 2, shape) for shape in shapes]
    weights = [rng.exponential(size=shape) for shape in shapes]

    def least(which: list[int], loss: object) -> float:
        data = make_examples(ls.grid_cuts, labels=[x[i] for i in which], modular="shared")
        penalty = Penalty.of(data.layout, alpha=0.3, modular=0.3)
        found = max_margin(data, penalty, loss=loss, tol=TIGHT)  # type: ignore[arg-type]
        return found.history[-1].objective

    # the order of the images does not matter, their own weights do
    found = least([0, 1, 2], weights)
    assert least([1, 2, 0], [weights[i] for i in (1, 2, 0)]) == pytest.approx(found, rel=1e-9)
    assert least([0, 1, 2], [weights[2], weights[1], weights[0]]) != pytest.approx(found, rel=1e-6)
    ones = [np.ones(shape) for shape in shapes]
    assert least([0, 1, 2], ones) == pytest.approx(least([0, 1, 2], "hamming"), rel=1e-9)
    with pytest.raises(ValueError, match="a list of 3 arrays, one per image"):
        least([0, 1, 2], weights[:2])
    with pytest.raises(ValueError, match=r"loss\[1\] has shape \(2, 3\), but .* \(3, 3\)"):
        least([0, 1, 2], [weights[0]] * 3)


def silhouettes(seed: int, count: int = 8, modular: str = "pixel") -> Examples:
    x = ls.make_silhouettes(count, shape=(16, 16), seed=seed)
    z = ls.Flips(0.1).sample(x, seed=seed)
    return make_examples(
        ls.grid_cuts((16, 16)),
        labels=x,
        observed=z,
        channel=ls.Flips(0.1),
        modular=modular,
        scale=True,
    )


def test_the_loss_bounds_the_error_of_the_mode(seed: int) -> None:
    """At the mode the margin is at most 0, so that the hinge is at least the Hamming distance."""
    data = silhouettes(seed)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    found = max_margin(data, penalty)
    x = data.groups[0].labels.reshape(8, 16, 16)
    wrong = (decoding.modes(data, found.theta) != x).sum(axis=(1, 2)).mean()
    hinge = found.history[-1].objective - penalty.value(found.theta)
    assert wrong <= hinge + 1e-9
    assert wrong < 0.6 * 25.6  # and the noise flips 25.6 pixels


def test_the_gap_of_images_goes_to_a_millionth(seed: int) -> None:
    data = silhouettes(seed)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    found = max_margin(data, penalty, tol=1e-6)
    assert found.converged and found.history[-1].gap <= 1e-6 * found.history[-1].objective


def test_a_scaled_problem_has_the_scaled_solution() -> None:
    """Loss and odds times c, the penalty divided by it: theta times c."""
    x = ls.make_silhouettes(4, shape=(16, 16), seed=0)
    z = ls.Flips(0.1).sample(x, seed=0)
    one = make_examples(
        ls.grid_cuts((16, 16)), labels=x, modular="shared", observed=z, channel=ls.Flips(0.1)
    )
    # odds of 2 logit(.1) are those of the rate .01 / .82
    two = one.with_channel(ls.Flips(0.01 / 0.82))
    small = max_margin(one, Penalty.of(one.layout, alpha=0.1, modular=0.1), tol=1e-10)
    large = max_margin(
        two,
        Penalty.of(two.layout, alpha=0.05, modular=0.05),
        loss=np.full((16, 16), 2.0),
        tol=1e-10,
    )
    np.testing.assert_allclose(large.theta, 2.0 * small.theta, rtol=1e-4)


def test_nothing_to_learn_is_learned_at_once() -> None:
    """With observations beyond reasonable doubt all margins are met by alpha = 0, t = 0, w = 1."""
    x = ls.make_silhouettes(3, shape=(16, 16), seed=0)
    data = make_examples(ls.grid_cuts((16, 16)), labels=x, observed=x, channel=ls.Flips(1e-3))
    found = max_margin(data, Penalty.of(data.layout, alpha=1.0, modular=1.0))
    assert found.converged and len(found.history) == 1
    np.testing.assert_array_equal(found.theta, 0.0)


def test_threads_do_not_matter() -> None:
    data = silhouettes(0)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    one, two = (max_margin(data, penalty, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.theta, two.theta)
    assert one.history == two.history


def test_horses_come_out_cleaner(horses: np.ndarray) -> None:
    z = ls.datasets.corrupt(horses, ls.Flips(0.1), seed=0)
    data = make_examples(
        ls.grid_cuts((50, 50)), labels=horses, observed=z, channel=ls.Flips(0.1), scale=True
    )
    train, test = data.subset(np.arange(5)), data.subset(np.arange(5, 10))
    found = max_margin(train, Penalty.of(data.layout, alpha=0.01, modular=1.0, scale=0.01))
    assert np.mean(decoding.modes(test, found.theta) != horses[5:]) < 0.025


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("zero-one", "'hamming'"),
        (np.ones((3, 3)), r"loss has shape \(3, 3\)"),
        (np.full((16, 16), -1.0), r"loss\[0, 0\] = -1 is negative"),
        (np.full((16, 16), np.nan), "not finite"),
    ],
    ids=["name", "shape", "negative", "nan"],
)
def test_a_bad_loss_is_named(loss: object, message: str) -> None:
    data = silhouettes(0)
    with pytest.raises(ValueError, match=message):
        max_margin(data, Penalty.of(data.layout, alpha=1.0, modular=1.0, scale=1.0), loss=loss)


def test_partial_labels_are_refused() -> None:
    labels = np.array([[0.0, 1.0, np.nan]])
    data = make_examples([ls.Cut(3, [(0, 1), (1, 2)])], labels=labels)
    with pytest.raises(ValueError, match="max_margin needs a label for every pixel"):
        max_margin(data, Penalty.of(data.layout, alpha=1.0, modular=1.0))


def test_a_gap_that_is_left_is_told() -> None:
    data = silhouettes(0)
    penalty = Penalty.of(data.layout, alpha=0.01, modular=0.1, scale=0.01)
    with pytest.warns(ConvergenceWarning, match="max_margin left a gap"):
        assert not max_margin(data, penalty, max_iter=2).converged
