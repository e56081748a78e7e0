"""The benchmark of blind-spot trees: its rows, numbers and tables."""

import numpy as np
import pytest

import logsuper as ls
from benchmarks import blind_spot, consistency, defaults
from benchmarks.denoising import RATES
from logsuper.estimators import _blind_spot


def made_up(error):
    numbers = {"loss": 0.1, "calibration": 0.2, "seconds": 3.0, "stopped": 0.0}
    return [{"error": error + 0.1 * seed, **numbers} for seed in range(3)]


def test_errors_are_compared_with_limits_and_with_trees_that_saw_labels():
    rows = [blind_spot.OURS, blind_spot.TREES]
    found = {(row, rate): made_up(5.0 - k) for k, row in enumerate(rows) for rate in RATES}
    errors, *_, gaps = blind_spot.tabulate(found, rows, RATES)
    assert "ABOVE" in errors.rows[0][1] and "ABOVE" not in "".join(errors.rows[1])
    assert gaps.rows[0][1] == "+1.000 +- 0.000" and gaps.rows[1][1] == "+0.000 +- 0.000"
    assert set(blind_spot.WANTED) <= set(blind_spot.ROWS)
    (one, *_) = blind_spot.tabulate(found, rows[:1], RATES[1:2])
    assert len(one.rows[0]) == 4  # name, error, seconds, fits that did not converge


def test_a_row_is_fitted_and_measured():
    images = ls.make_silhouettes(12, shape=(20, 20), seed=0)
    held = np.arange(12) >= 6
    name = "filter, by moments"
    found, own = (blind_spot.run(images, name, 0.1, 0, held, own) for own in (False, True))
    assert 0 < found["error"] < 10 and 0 < found["calibration"] < 10
    assert found["error"] != own["error"]


def test_choices_change_one_thing_at_a_time(monkeypatch):
    seen, names = [], ("LEVELS", "_CERTAIN", "PIXELS", "FOLDS", "_HIDDEN")

    def look(**settings):
        def run(*_):
            trees = _blind_spot.trees(0)
            constants = [getattr(_blind_spot, name) for name in names]
            seen.append((settings, trees.get_params(), *constants))

        return run

    monkeypatch.setattr(blind_spot, "denoise", look)
    for run in blind_spot.CHOICES.values():
        run(np.zeros((50, 4, 4)), None, None, 0)
    usual, *others = seen
    assert usual[0] == {"context": "trees"}
    assert all(sum(a != b for a, b in zip(usual, one, strict=True)) == 1 for one in others)
    assert len({repr(one) for one in seen}) == len(blind_spot.CHOICES)
    assert _blind_spot.LEVELS == usual[2]  # all is as it was
    # regularisers are multiples of the default ones
    assert seen[2][0]["penalty"]["modular"] == pytest.approx(0.3 * 30 / 50)


def test_slopes_of_consistency():
    rng, counts = np.random.default_rng(0), np.array([10, 100, 1000])
    found = 3.0 * counts[:, None] ** -0.5 * np.exp(0.1 * rng.normal(size=(3, 5)))
    steep, error = consistency.slope(counts, found)
    assert abs(steep + 0.5) < 3 * error < 0.1


@pytest.mark.filterwarnings("ignore::logsuper.ConvergenceWarning")
def test_defaults_are_changed_one_at_a_time(monkeypatch, tmp_path):
    seen = []

    def look(**settings):
        return lambda *_: seen.append(settings)

    monkeypatch.setattr(defaults, "denoise", look)
    for labelled in (False, True):
        names = [*defaults.SETTINGS, *defaults.OTHER_LEARNERS[labelled]]
        for name in names:
            defaults.vary(labelled, name)(np.zeros((50, 4, 4)))
        assert len({repr(one) for one in seen}) == len(names)
        assert all(one.pop("labelled") == labelled for one in seen)
        assert [one.pop("context") for one in seen if one.get("context") == "filter"]
        usual, *others = seen
        assert usual == {} and all(len(one) == 1 for one in others)
        # regularisers are the default ones but for one kind
        weights = [one["penalty"] for one in others if "penalty" in one]
        assert len(weights) == 8 and all(len(weight) == 4 for weight in weights)
        assert weights[0]["alpha"] == pytest.approx(0.01 / 50)
        seen.clear()
    monkeypatch.undo()
    monkeypatch.setattr(defaults, "load_silhouettes", lambda *_: ls.make_silhouettes(12, (24, 24)))
    monkeypatch.setattr(defaults, "SETTINGS", {defaults.DEFAULT: {}, "no filter": {"context": 0}})
    monkeypatch.setattr(defaults, "OTHER_LEARNERS", {False: (), True: ("pseudo",)})
    page = tmp_path / "page.md"
    words = ["--seeds", "1", "--rates", "0.1", "--jobs", "1", "--markdown", str(page)]
    assert defaults.main(words) == 0
    assert page.read_text().count("no filter") == 8
