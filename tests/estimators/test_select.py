"""Arguments that a fit chooses by what is held out."""

import math
import warnings

import numpy as np
import pytest
from denoisers import make_pairs, quick
from objective_oracles import long

import logsuper as ls
from logsuper.estimators import _select
from logsuper.estimators._select import PENALTIES, Setting
from logsuper.learning import make_examples
from logsuper.learning._score import Score, score, score_labels

NOISY, CLEAN = make_pairs(10)


@pytest.fixture(autouse=True)
def _short():
    """Whether a learner converged is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.ConvergenceWarning)
        yield


def chosen(model):
    """Return the row of what was chosen."""
    (best,) = [row for row in model.selection_ if row["behind"] == 0.0]
    assert best["score"] == max(row["score"] for row in model.selection_)
    return best


@pytest.mark.parametrize("labelled", [False, True])
def test_penalty_is_chosen_among_documented_ones_and_used(labelled, seed):
    noisy, clean = make_pairs(10, seed=seed)
    model = quick(penalty="select", random_state=seed).fit(noisy, clean if labelled else None)
    rows = model.selection_
    assert sorted(row["penalty"] for row in rows) == sorted(PENALTIES)
    assert {row["context"] for row in rows} == {0} and {row["scale"] for row in rows} == {True}
    assert all(row["behind"] >= 0 and row["stderr"] >= 0 for row in rows)
    # the winner, fitted to everything, is what that penalty gives
    learner = ls.learning.LEARNERS[model.learner_]
    factor = chosen(model)["penalty"] / len(noisy)
    penalty = {
        "alpha": factor * learner.alpha,
        "scale": factor * learner.alpha,
        "modular": factor * learner.modular,
        "filter": factor * learner.beta,
    }
    same = quick(penalty=penalty, random_state=seed).fit(noisy, clean if labelled else None)
    np.testing.assert_array_equal(model.alpha_, same.alpha_)
    assert same.selection_ == ()


@pytest.mark.parametrize("labelled", [False, True])
def test_scores_are_those_of_held_out_images(labelled, monkeypatch):
    seen = {}
    fit, held_score = _select.Selector._fit, _select.Selector._score

    def keep_fit(self, examples, setting):
        seen["train"] = examples.count
        return fit(self, examples, setting)

    def keep_score(self, unseen, learned):
        seen["score"] = unseen, learned.theta
        return held_score(self, unseen, learned)

    monkeypatch.setattr(_select.Selector, "_fit", keep_fit)
    monkeypatch.setattr(_select.Selector, "_score", keep_score)
    model = quick(temperature="select").fit(NOISY, CLEAN if labelled else None)
    unseen, theta = seen["score"]
    assert seen["train"] == 8 and unseen.count == 2
    again = (
        score_labels(unseen, theta, seed=model._key)
        if labelled
        else score(unseen, theta, seed=model._key)
    )
    (row,) = model.selection_
    assert row["score"] == pytest.approx(again.value, rel=1e-12)


def test_labels_are_scored_by_their_log_loss(seed):
    x = ls.make_silhouettes(3, (16, 16), seed=seed).astype(float)
    z = ls.Flips(0.1).sample(x, seed)
    x[0, 3] = np.nan
    data = make_examples(ls.grid_cuts((16, 16)), labels=x, observed=z, channel=ls.Flips(0.1))
    theta = data.layout.fill(alpha=0.8)
    p = ls.learning.means(data, theta, method="logistic", n_samples=32, seed=4)
    known = ~np.isnan(x)
    loss = -np.log(np.where(x == 1, p, 1 - p)[known]).mean()
    assert -score_labels(data, theta, seed=4).value == pytest.approx(loss, rel=1e-9)


@long
def test_what_is_clearly_better_is_chosen():
    # far too weak and far too strong are in the grid; scores and labels agree that neither is good
    noisy, clean = make_pairs(30, shape=(40, 40))
    model = ls.MaskDenoiser(context="select", scale="select", penalty="select", tol=1e-2)
    model.fit(noisy[:20])
    rows = model.selection_
    assert len(rows) == 8  # 3 contexts, one with and without trees, one more scale, 3 penalties
    assert chosen(model)["penalty"] < 100
    strong = max(rows, key=lambda row: row["penalty"])
    assert strong["behind"] > strong["stderr"] > 0
    assert model.filter_.shape == (2 * chosen(model)["context"] + 1,) * 2
    assert model.score(noisy[20:], clean[20:]) > 0.95


def test_arguments_are_chosen_one_after_the_other(monkeypatch):
    order = []

    def fake(self, examples, setting):
        order.append(setting)
        return type("Fit", (), {"theta": None, "channel": None})()

    better = {
        (2, True, 1.0, True): 0.9,
        (2, True, 1.0, False): 1.0,
        (1, True, 1.0, False): 3.0,
        (0, True, 1.0, False): 2.0,
        (1, False, 1.0, False): 0.0,
        (1, True, 0.1, False): 4.0,
        (1, True, 10.0, False): 0.5,
        (1, True, 100.0, False): 0.1,
    }
    monkeypatch.setattr(_select.Selector, "_fit", fake)

    def score(self, unseen, fit):
        return Score((np.full((2, 3), better[tuple(order[-1])]),))

    monkeypatch.setattr(_select.Selector, "_score", score)
    large, _ = make_pairs(8, shape=(64, 64))
    model = quick(context="select", scale="select", penalty="select", max_iter=1).fit(large)
    assert [tuple(setting) for setting in order] == list(better)
    assert chosen(model) == {
        **Setting(1, True, 0.1)._asdict(),
        "score": 4.0,
        "behind": 0.0,
        "stderr": 0.0,
    }
    assert model._design["context"] == 1 and not model._design["trees"]
    assert model.surroundings_ is None and model.learner_ == "resample"


def test_windows_of_few_large_images_are_held_out_and_whole_ones_of_many():
    few = np.repeat([0, 1], 10)
    ((train, test),) = _select._hold_out(few, 0, 0.2)
    assert (
        len(test) == 4 and not set(train) & set(test) and set(train) | set(test) == set(range(20))
    )
    many = np.repeat(np.arange(10), 4)
    ((train, test),) = _select._hold_out(many, 0, 0.2)
    assert len(test) == 8 and not set(many[train]) & set(many[test])
    one, other = _select._hold_out(many, 0, None)
    assert len(one[0]) == len(one[1]) == 20 and not set(many[one[0]]) & set(many[one[1]])
    assert all(np.array_equal(*pair) for pair in zip(one, other[::-1], strict=True))


def test_latent_has_neither_context_nor_scale_to_choose():
    model = quick(learner="latent", context="select", scale="select", noise=0.1).fit(NOISY[:4])
    (row,) = model.selection_
    assert (row["context"], row["scale"]) == (0, False)


# ------------------------------------------------------------------------------------- temperature


def test_temperature_divides_log_odds_and_changes_no_mask():
    plain = quick().fit(NOISY, CLEAN)
    warm = quick(temperature=2.0).fit(NOISY, CLEAN)
    p, q = (model.predict_proba(NOISY) for model in (plain, warm))
    inside = (p > 1e-3) & (p < 1 - 1e-3)
    odds = [np.log(r / (1 - r))[inside] for r in (p, q)]
    np.testing.assert_allclose(odds[1], odds[0] / 2, atol=1e-9)
    np.testing.assert_array_equal(plain.predict(NOISY), warm.predict(NOISY))
    assert plain.temperature_ == 1.0 and warm.temperature_ == 2.0
    assert warm.score(NOISY) != plain.score(NOISY)  # the score is of what predict_proba gives


def test_temperature_is_chosen_and_makes_up_for_a_rate_that_is_too_small():
    # a channel that claims too little noise makes probabilities too sure
    noisy, clean = make_pairs(20, rate=0.2)
    options = {"noise": 0.02, "modular": "none", "scale": False, "penalty": 1.0}
    plain = quick(**options).fit(noisy[:10], clean[:10])
    warm = quick(temperature="select", **options).fit(noisy[:10], clean[:10])
    assert warm.temperature_ > 1.2
    p, q = (model.predict_proba(noisy[10:]) for model in (plain, warm))
    x = clean[10:]
    losses = [-np.log(np.where(x == 1, r, 1 - r)).mean() for r in (p, q)]
    assert losses[1] < losses[0]


def test_what_was_chosen_is_saved(tmp_path):
    model = quick(penalty="select", temperature="select").fit(NOISY, CLEAN)
    model.save(tmp_path / "model.npz")
    loaded = ls.load_model(tmp_path / "model.npz")
    assert loaded.selection_ == model.selection_ and loaded.temperature_ == model.temperature_
    assert loaded.get_params()["penalty"] == "select"
    np.testing.assert_array_equal(loaded.predict_proba(NOISY), model.predict_proba(NOISY))


def test_models_without_a_temperature_are_read(tmp_path, monkeypatch):
    model = quick().fit(NOISY, CLEAN)
    before = [name for name in model._FITTED if name not in model._OPTIONAL]
    monkeypatch.setattr(ls.MaskDenoiser, "_FITTED", tuple(before))
    model.save(tmp_path / "old.npz")
    monkeypatch.undo()
    loaded = ls.load_model(tmp_path / "old.npz")
    assert (loaded.temperature_, loaded.selection_) == (1.0, ())
    np.testing.assert_array_equal(loaded.predict_proba(NOISY), model.predict_proba(NOISY))


# ----------------------------------------------------------------------------------- signs of life


def test_the_callback_hears_every_fit():
    lines = []
    quick(penalty="select", callback=lines.append).fit(NOISY[:6], CLEAN[:6])
    starts = sum(line.step == 0 and not math.isnan(line.objective) for line in lines)
    assert starts >= len(PENALTIES) + 1


def test_same_seed_same_choice():
    first, second = (quick(penalty="select").fit(NOISY) for _ in range(2))
    assert first.selection_ == second.selection_
    threads = quick(penalty="select", n_jobs=2).fit(NOISY)
    assert threads.selection_ == first.selection_


def test_checkpoints_belong_to_the_last_fit_alone(tmp_path):
    options = {"checkpoint": str(tmp_path / "state.npz")}
    model = quick(penalty="select", options=options).fit(NOISY, CLEAN)
    again = quick(penalty="select", options=options).fit(NOISY, CLEAN)  # goes on from it
    np.testing.assert_array_equal(model.alpha_, again.alpha_)
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"penalty": "best"}, ValueError, "penalty must be a number, a dict or 'select'"),
        ({"scale": "yes"}, TypeError, "scale must be True, False or 'select'"),
        (
            {"context": "wide"},
            ValueError,
            "context must be an integer >= 0, 'auto', 'filter', 'trees'",
        ),
        ({"temperature": "hot"}, ValueError, "temperature must be a number or 'select'"),
        ({"temperature": 0.0}, ValueError, "temperature must be positive"),
        (
            {"penalty": "select", "learner": "max_margin"},
            ValueError,
            "compares probabilities, and those of learner='max_margin'",
        ),
    ],
)
def test_refusals(settings, error, message):
    with pytest.raises(error, match=message):
        quick(**settings).fit(NOISY, CLEAN)


def test_one_small_image_cannot_be_held_out():
    with pytest.raises(ValueError, match="holds images out to compare models, but"):
        quick(0.1, penalty="select").fit(NOISY[:1])
