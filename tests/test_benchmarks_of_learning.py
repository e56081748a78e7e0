from __future__ import annotations

import io
import itertools
import warnings

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression

import logsuper as ls
from benchmarks import (
    denoising,
    density,
    folders,
    grey,
    large,
    learning,
    moments,
    noise_rate,
    probabilities,
    selection,
    tree_sums,
    trees,
    trees_by_size,
)
from benchmarks.measure import Settings
from logsuper.estimators._doubts import _explain
from logsuper.learning import Residuals
from logsuper.learning._light import Extreme

SETTINGS = Settings(repeat=1, chunk_seconds=0.001, clock="cpu", quick=True)


def test_learning_runs_and_draws(tmp_path, capsys):
    path = tmp_path / "curves.png"
    assert learning.main(["--quick", "--only", "curves", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert all(method.name in printed for method in learning.METHODS)


def test_learning_with_a_peer_takes_the_same_steps():
    pytest.importorskip("maxflow")
    problem = learning.make_problem(ls.make_silhouettes(10, shape=(16, 16), seed=0))
    _, ours = learning.time_steps(problem, problem.start("adaptive"), None, 3)
    _, theirs = learning.time_steps(problem, problem.start("adaptive"), "PyMaxflow", 3)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_learning_counts_the_time_in_the_kernels():
    problem = learning.make_problem(ls.make_silhouettes(10, shape=(16, 16), seed=0))
    seconds, share, fit = learning.time_fit(problem, 1)
    assert fit.converged and seconds > 0 and 0 < share < 1
    assert learning.Prepared.perturb.__name__ == "perturb"  # all is as it was


def test_large_images_are_measured_and_cleaned(tmp_path, capsys):
    page = tmp_path / "large.md"
    arguments = ["--count", "2", "--size", "96", "--jobs", "1", "--markdown", str(page)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # two images are few
        assert large.main(arguments) == 0
    assert "96 x 96" in capsys.readouterr().out
    text = page.read_text()
    assert "| fit | " in text and "| predict | " in text
    *_, before, after, _ = text.splitlines()[-1].split("|")
    assert 0 < float(after.strip(" %")) < 0.5 * float(before.strip(" %"))


def test_slope_is_that_of_a_power():
    cuts = np.geomspace(10, 1e4, 7)
    curve = learning.Curve(learning.METHODS[0], 1.0, cuts, 3.0 / np.sqrt(cuts))
    assert curve.slope == pytest.approx(-0.5)


def test_denoising_compares_with_its_ceilings():
    results = [{"error": 1.0}, {"error": 2.0}]
    assert denoising.cell(results, None) == "1.50 +- 0.50"
    assert denoising.cell(results, 1.6).endswith("(<= 1.6)")
    assert "ABOVE" in denoising.cell(results, 1.4)
    assert set(denoising.CEILINGS) <= set(denoising.ROWS)


def test_denoising_fits_and_scores():
    found = denoising.run(
        ls.make_silhouettes(12, shape=(20, 20), seed=0), denoising.UNKNOWN, 0.1, 0
    )
    assert 0 < found["error"] < 10 and abs(found["noise"] - 0.1) < 0.05


def test_probabilities_are_compared(tmp_path, capsys):
    page, figure = tmp_path / "page.md", tmp_path / "figure.png"
    arguments = ["--quick", "--only", "test", "--markdown", str(page), "--figure", str(figure)]
    assert probabilities.main(arguments) == 0
    text = page.read_text()
    assert text.count("| predict\\_proba |") == 2 and "figure.png" in text
    assert "inf" in capsys.readouterr().out


def test_the_choice_names_the_default_and_the_best():
    found = {way: np.array([[0.05, 0.01, 0.02, 0.001]]) for way in probabilities.WAYS}
    best = next(way for way in found if "3 rounds" in way)
    found[best] = np.array([[0.03, 0.01, 0.02, 0.001]])
    table, good = probabilities._compare(found, "one setting")
    assert not good
    assert [line[0] for line in table.rows if "least" in line[0]] == [f"{best} (least log loss)"]
    assert sum("(default)" in line[0] for line in table.rows) == 1


def test_scores_of_probabilities():
    found = probabilities.score(np.array([0.0, 1.0, 0.25, 1.0]), np.array([0, 1, 1, 0]))
    assert found.log_loss == np.inf and found.sure == 0.75 and found.lost == 0.25
    assert found.brier == (0.75**2 + 1.0) / 4 and found.error == 0.5


def test_coverage_of_the_estimated_noise_is_checked(monkeypatch, tmp_path, capsys):
    cell = noise_rate.Cell("discs", list(noise_rate.discs(6, seed=0)), True)
    monkeypatch.setattr(noise_rate, "cells", lambda data: iter([cell]))
    for name, value in {"RATES": (0.1,), "COUPLINGS": (0.4,), "SIZES": (60,)}.items():
        monkeypatch.setattr(noise_rate, name, value)
    page = tmp_path / "page.md"
    command = ["--draws", "8", "--jobs", "1", "--markdown", str(page)]
    monkeypatch.setattr(noise_rate, "LEAST", 0.0)
    monkeypatch.setattr(noise_rate, "WIDEST", np.inf)
    assert noise_rate.main(command) == 0
    assert page.read_text().count("| discs | 0.10 |") == 1
    assert "Ising fields" in capsys.readouterr().out
    monkeypatch.setattr(noise_rate, "LEAST", 1.1)
    assert not noise_rate.coverage(None, draws=2, jobs=1)[1]


def test_rates_by_the_score_are_compared(monkeypatch, capsys):
    monkeypatch.setattr(noise_rate, "REFINED", {"silhouettes": ls.make_silhouettes})
    monkeypatch.setattr(noise_rate, "CASES", ((3, 24),))
    monkeypatch.setattr(noise_rate, "FLIPS", (0.1,))
    assert noise_rate.main(["--refine", "--draws", "2", "--jobs", "1"]) == 0
    assert "3 silhouettes, 24x24" in capsys.readouterr().out


def test_densities_are_compared(monkeypatch, tmp_path, capsys):
    rows = density.digits().rows[:240, 24:36]
    monkeypatch.setattr(density, "SETS", {"middles": lambda: density.Data(rows, (2, 6))})
    page = tmp_path / "page.md"
    assert density.main(["--folds", "2", "--markdown", str(page)]) == 0
    text = page.read_text()
    assert text.count("one field") == 5 and text.count("n\\_components=") == 5
    assert "python -m benchmarks.density --folds 2" in text
    assert "Middles, 240 rows" in capsys.readouterr().out
    # a default that loses to simpler models is an error
    monkeypatch.setattr(ls, "LogSupermodularDensity", lambda *a, **k: density.Bernoullis())
    assert density.main(["--folds", "2"]) == 1
    with pytest.raises(SystemExit):
        density.main(["--only", "nothing"])


def test_mixture_of_bernoullis_has_the_density_of_enumeration():
    rows = (np.random.default_rng(0).random((60, 4)) < 0.3).astype(int)
    states = np.array(list(itertools.product([0, 1], repeat=4)))
    found = density.Bernoullis(3).fit(rows)
    total = sum(np.exp(found.score(state[None])) for state in states)
    assert total == pytest.approx(1.0)
    p = (rows.sum(axis=0) + 0.5) / 61.0
    single = density.Bernoullis().fit(rows).score(rows)
    expected = np.where(rows == 1, np.log(p), np.log(1 - p)).sum(axis=1).mean()
    assert single == pytest.approx(expected)


def test_warnings_of_grey_images_have_short_forms():
    place = Extreme(1.0, 0, (3, 4))
    light = Residuals(0.7, 0.01, light=0.2, near=0.5, lowest=place, highest=place)
    levels = Residuals(0.7, 0.01, far=0.7)
    said = [grey.shorten(text) for found in (light, levels) for text in _explain(found)]
    assert said == ["uneven light", "correlated", "levels"]
    assert grey.shorten("a b c d e f g h") == "a b c d e f"


def test_warnings_of_grey_images_are_judged():
    assert grey.is_right([], ()) and grey.is_right([grey.UNSETTLED], ())
    assert not grey.is_right(["levels"], ())
    assert grey.is_right(["clumps"], ("clumps", "correlated"))
    assert not grey.is_right([grey.UNSETTLED], ("levels",))
    assert grey.is_right(["levels"], None) and not grey.is_right([], None)


@pytest.mark.parametrize("name", grey.DRAWN)
def test_drawn_grey_images(name):
    drawn = grey.DRAWN[name](64, 0)
    assert drawn.picture.shape == drawn.mask.shape == (64, 64)
    assert set(drawn.due) <= set(grey.CODES.values())


def test_sheet_of_grey_images(monkeypatch):
    monkeypatch.setattr(grey, "SIZE", 64)
    drawn = grey.holds(100, 0)
    done = [
        (
            grey.Case("two levels", drawn.picture, drawn.mask, ()),
            grey.Outcome(ls.MaskDenoiser(), 0.9 * drawn.mask, 1.0, []),
        )
    ]
    with Image.open(io.BytesIO(grey.draw(3 * done))) as picture:
        assert picture.format == "PNG" and picture.width > 6 * 200 > picture.height


@pytest.mark.parametrize("limit", [0.0, 1e6])
def test_times_state_their_limits_and_miss_them_by_the_exit_code(limit, monkeypatch, capsys):
    small = ls.make_silhouettes(50, (24, 24), seed=0)
    monkeypatch.setattr(folders, "blobs", lambda *args, **options: small[:3])
    monkeypatch.setattr(folders.ls, "make_silhouettes", lambda *args, **options: small[:2])
    monkeypatch.setattr(folders, "MOST_SECONDS", dict.fromkeys(folders.MOST_SECONDS, limit))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = folders.main(["--times", "--jobs", "1"])
    said = capsys.readouterr().out
    assert "limit" in said and "CPU" in said
    assert (code, said.count("misses a limit")) == ((1, 2) if limit == 0.0 else (0, 0))


def test_trees_are_compared_on_other_images_and_on_their_own(monkeypatch, tmp_path, capsys):
    quick = {"max_iter": 3}
    classifier = LogisticRegression(C=0.1, max_iter=500)
    ways = {way: {"context": 1} for way in ("without", "chosen", "default")}
    ways["with"] = {"context": classifier}
    monkeypatch.setattr(trees, "WAYS", {name: {**way, **quick} for name, way in ways.items()})
    clean = list(ls.make_silhouettes(8, (24, 24), seed=0))
    few = folders.Folder("few", lambda seed: (clean[:5], clean[5:]))
    monkeypatch.setattr(trees, "folders", lambda data: iter([folders.Folder("5 few", few.load)]))
    monkeypatch.setattr(trees, "SHAPES", ((20, 24), (30, 16), (24, 24)))
    path = tmp_path / "page.md"
    assert trees.main(["--seeds", "2", "--only", "few", "--markdown", str(path)]) == 0
    page = path.read_text()
    assert page.count("| 5 few | 10% |") == 10 and "| chosen |" in page
    # the same model: no difference, and no trees
    (line,) = [line for line in page.splitlines() if "| chosen |" in line]
    assert line.count("+0.0 ± 0.0") == 2 and "0 of 2" in line
    # training images that are not recognised are judged by classifiers that have seen them
    own, averaged = (
        [line.split("|")[7] for line in page.splitlines() if f"| {kind} |" in line]
        for kind in (trees.OWN, trees.AVERAGED)
    )
    assert own != averaged
    monkeypatch.setattr(trees, "MOST", 0.5)
    assert trees.main(["--seeds", "1", "--only", "64x64"]) == 1
    assert "misses the limit: 3 silhouettes" in capsys.readouterr().out


def test_moments_are_compared_as_they_are_and_within_their_error_bars(
    monkeypatch, tmp_path, capsys
):
    clean = list(ls.make_silhouettes(6, (24, 24), seed=0))
    monkeypatch.setattr(moments, "cases", lambda data: iter([moments.Case("few", clean, 0.1)]))
    assert moments.main(["--markdown", str(tmp_path / "page.md")]) == 0
    page = (tmp_path / "page.md").read_text()
    assert page.count("| few") == 3 and "relax=0" in page
    assert "resample" in capsys.readouterr().out


def test_selection_is_compared_with_defaults(monkeypatch, tmp_path, capsys):
    images = ls.make_silhouettes(12, (20, 20), seed=0)
    monkeypatch.setattr(selection, "kinds", lambda data: {"few": images})
    monkeypatch.setattr(selection, "COUNT", 6)
    page = tmp_path / "page.md"
    assert selection.main(["--jobs", "1", "--rates", "0.1", "--markdown", str(page)]) == 0
    assert page.read_text().count("few, 10%") == 2
    capsys.readouterr()


def test_sums_of_trees_are_compared_with_scikit_learn(capsys):
    assert tree_sums.main(["--leaves", "3", "--images", "2", "--repeat", "2"]) == 0
    printed = capsys.readouterr().out
    assert "120 trees of 3 leaves, 58 features" in printed
    assert all(name in printed for name in (tree_sums.KERNEL, "NumPy", "scikit-learn, 2 threads"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_trees_are_compared_by_the_number_of_images(monkeypatch, tmp_path):
    ways = {way: {"context": 1, "max_iter": 3} for way in ("without", "with", "default")}
    ways["with"] = {"context": LogisticRegression(C=0.1, max_iter=500), "max_iter": 3}
    monkeypatch.setattr(trees_by_size, "WAYS", ways)
    beside = {name: {**ways["without"], "learner": name} for name in trees_by_size.BESIDE}
    monkeypatch.setattr(trees_by_size, "BESIDE", beside)
    monkeypatch.setattr(trees_by_size, "COUNTS", (3, 5))
    monkeypatch.setattr(trees_by_size, "TEST", 3)
    sets = {name: ls.make_silhouettes(8, (20, 20), seed=k) for k, name in enumerate("ab")}
    monkeypatch.setattr(trees_by_size, "kinds", lambda data, seed: sets)
    path = tmp_path / "page.md"
    assert trees_by_size.main(["--rates", "0.1", "0.2", "--markdown", str(path)]) == 0
    page = path.read_text()
    means = [line for line in page.splitlines() if line.count("|") == 10 and "±" in line]
    # the default is what it is without trees; with trees something else
    assert len(means) == 4 and all(line.count("+0.0 ± 0.0") == 2 for line in means)
    assert "by the learner beside them" in page and page.count("| a |") == 4


def test_errors_of_differences_are_those_of_sets_of_images():
    def result(with_trees):
        return {"without": {"error": 1.0}, "with": {"error": with_trees}}

    found = {("a", rate, 0, 5, False): result(x) for rate, x in ((0.1, 0.8), (0.2, 0.9))} | {
        ("b", rate, 0, 5, False): result(x) for rate, x in ((0.1, 1.1), (0.2, 1.2))
    }
    np.testing.assert_allclose(trees_by_size.gaps(found, "error"), [-15.0, 15.0])
    assert trees_by_size.cell(np.array([-15.0, 15.0])) == "+0.0 ± 15.0"
