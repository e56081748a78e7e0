"""Paths with warm starts, and cross-validation against its definition."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.model_selection import KFold, ShuffleSplit

import logsuper as ls
from logsuper.learning import Examples, Learned, Penalty, make_examples
from logsuper.learning import _decoding as decoding
from logsuper.learning._frank_wolfe import saa
from logsuper.learning._max_margin import max_margin
from logsuper.learning._selection import cross_validate, path, score_map, score_mean


def silhouettes(seed: int = 0, count: int = 6) -> Examples:
    x = ls.make_silhouettes(count, shape=(16, 16), seed=seed).astype(float)
    z = ls.Flips(0.1).sample(x, seed=seed)
    return make_examples(
        ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1), scale=True
    )


def penalties(data: Examples, weights: tuple[float, ...] = (10.0, 1.0)) -> list[Penalty]:
    return [Penalty.of(data.layout, alpha=0.01, modular=m, scale=0.01) for m in weights]


@pytest.mark.parametrize("learner", [max_margin, saa])
def test_a_path_starts_each_fit_where_the_last_ended(learner) -> None:
    data = silhouettes()
    listed = penalties(data)
    fits = path(learner, data, listed, tol=1e-5)
    for penalty, fit in zip(listed, fits, strict=True):
        cold = learner(data, penalty, tol=1e-5)
        assert fit.history[-1].objective == pytest.approx(cold.history[-1].objective, rel=2e-5)
    again = learner(data, listed[1], start=fits[0].theta, tol=1e-5)
    np.testing.assert_array_equal(again.theta, fits[1].theta)


def test_scores_are_those_of_fits_on_the_other_folds() -> None:
    data = silhouettes()
    listed = penalties(data)
    found = cross_validate(max_margin, data, listed, folds=KFold(3))
    for column, (train, test) in enumerate(KFold(3).split(np.zeros(6))):
        fits = path(max_margin, data.subset(train), listed)
        x = data.groups[0].labels[test].reshape(-1, 16, 16)
        right = [np.mean(decoding.modes(data.subset(test), f.theta) == x) for f in fits]
        np.testing.assert_allclose(found.scores[:, column], right, atol=1e-12)
    assert found.chosen == int(found.mean.argmax())
    assert found.penalty is listed[found.chosen]
    np.testing.assert_array_equal(
        found.learned.theta, path(max_margin, data, listed[: found.chosen + 1])[-1].theta
    )


def test_folds_are_drawn_from_the_seed_and_processes_do_not_matter() -> None:
    data = silhouettes()
    listed = penalties(data)
    one = cross_validate(max_margin, data, listed, folds=2, seed=4)
    with joblib.parallel_config("threading"):  # processes take seconds to start
        two = cross_validate(max_margin, data, listed, folds=2, seed=4, n_jobs=2)
    np.testing.assert_array_equal(one.scores, two.scores)
    np.testing.assert_array_equal(one.learned.theta, two.learned.theta)
    other = cross_validate(max_margin, data, listed, folds=2, seed=5)
    assert not np.array_equal(one.scores, other.scores)


def test_what_a_process_is_sent_arrives() -> None:
    data = silhouettes(count=3)
    learner, copy = pickle.loads(pickle.dumps((max_margin, data)))
    (penalty,) = penalties(data, (1.0,))
    np.testing.assert_array_equal(learner(copy, penalty).theta, max_margin(data, penalty).theta)


def test_one_standard_error_takes_the_strongest_that_is_good_enough() -> None:
    data = silhouettes(count=4)
    listed = penalties(data, (100.0, 10.0, 1.0, 0.1))
    table = {100.0: (0.0, 0.1), 10.0: (0.5, 0.7), 1.0: (0.6, 0.8), 0.1: (0.3, 0.4)}

    def learn(examples: Examples, penalty: Penalty, **options: object) -> Learned:
        theta = examples.layout.fill(modular=penalty.weights[5])
        return Learned(examples.layout.unpack(theta), theta, True, ())

    def score(examples: Examples, learned: Learned) -> float:
        first = examples.groups[0].observed[0].sum()  # tells the two folds apart
        order = sorted([data.subset(np.array([i])).groups[0].observed.sum() for i in (0, 2)])
        return table[learned.theta[5]][order.index(first)]

    folds = KFold(2)
    best = cross_validate(learn, data, listed, folds=folds, score=score)
    assert best.chosen == 2
    np.testing.assert_allclose(best.mean, [0.05, 0.6, 0.7, 0.35])
    np.testing.assert_allclose(best.stderr, [0.05, 0.1, 0.1, 0.05])
    strong = cross_validate(
        learn, data, listed, folds=folds, score=score, rule="one_standard_error"
    )
    assert strong.chosen == 1  # .6 is .7 less one standard error of .1


def test_pixels_without_a_label_do_not_count() -> None:
    x = ls.make_silhouettes(3, shape=(16, 16), seed=0).astype(float)
    z = ls.Flips(0.1).sample(x, seed=0)
    half = x.copy()
    half[:, :8] = np.nan
    cuts = ls.grid_cuts((16, 16))
    data = make_examples(cuts, labels=half, observed=z, channel=ls.Flips(0.1), modular="none")
    theta = np.array([1.0, 1.0])
    learned = Learned(data.layout.unpack(theta), theta, True, (), ls.Flips(0.1))
    assert repr(learned) == "<Learned alpha=[1, 1], 2 parameters, converged>"
    right = np.mean(decoding.modes(data, theta)[:, 8:] == x[:, 8:])
    assert score_map(data, learned) == pytest.approx(right, abs=1e-12)
    probabilities = decoding.means(data, theta, method="logistic")[:, 8:]
    assert score_mean(data, learned) == pytest.approx(np.mean((probabilities > 0.5) == x[:, 8:]))


def test_the_channel_that_was_learned_is_the_one_to_decode_with() -> None:
    data = silhouettes(count=2)
    theta = data.layout.fill(alpha=1.0)
    noisy = Learned(data.layout.unpack(theta), theta, True, (), ls.Flips(0.4999))
    # observations that say nothing, and no modular term: one constant image
    flat = decoding.modes(data.with_channel(ls.Flips(0.4999)), theta)
    assert score_map(data, noisy) == np.mean(flat == data.groups[0].labels.reshape(2, 16, 16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalties": []}, "penalties is empty"),
        ({"folds": 1}, "folds"),
        ({"folds": 10}, "folds = 10, but there are only 6"),
        ({"folds": ShuffleSplit(1)}, "two at least"),
        ({"score": "accuracy"}, "map, mean"),
        ({"score": lambda examples, learned: float("nan")}, "NaN"),
        ({"rule": "worst"}, "best, one_standard_error"),
    ],
    ids=["penalties", "one", "many", "splitter", "score", "nan", "rule"],
)
def test_bad_arguments_are_named(options: dict, message: str) -> None:
    data = silhouettes()
    arguments = {"penalties": penalties(data, (10.0,)), **options}
    with pytest.raises(ValueError, match=message):
        cross_validate(max_margin, data, **arguments)


def test_labels_are_needed_to_compare_with_them() -> None:
    data = make_examples(
        [ls.Cut(2, [(0, 1)])], observed=[[0, 1]] * 4, channel=ls.Flips(0.1), modular="none"
    )
    with pytest.raises(ValueError, match="labels, which are missing"):
        cross_validate(saa, data, [Penalty.of(data.layout, alpha=1.0)])


def test_subsets_hold_what_was_asked_for() -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (2, 2), (3, 4), (2, 5), (3, 4)]
    x = [rng.integers(0, 2, shape) for shape in shapes]
    phi = [rng.normal(size=(*shape, 2)) for shape in shapes]
    data = make_examples(
        ls.grid_cuts,
        labels=x,
        observed=x,
        channel=ls.Flips(0.2),
        modular="shared",
        features=phi,
    )
    order = np.array([4, 1, 0])
    part = data.subset(order)
    assert part.count == 3 and len(part.groups) == 2
    theta = np.array([0.3, 0.2, 0.5, 1.0, -1.0])
    whole, mine = decoding.means(data, theta), decoding.means(part, theta)
    for place, i in enumerate(order):
        np.testing.assert_allclose(mine[place], whole[i], atol=1e-12)
