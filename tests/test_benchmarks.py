from __future__ import annotations

import io
import itertools
import warnings

import numpy as np
import pytest
from PIL import Image

import logsuper as ls
from benchmarks import (
    denoising,
    density,
    exact_marginals,
    folders,
    grey,
    large,
    learning,
    lfield,
    moments,
    noise_rate,
    probabilities,
    report,
    same,
    same_cases,
    sampling_speed,
    selection,
    tables,
    tuning,
    wide,
)
from benchmarks.__main__ import main
from benchmarks.measure import Settings
from benchmarks.outcome import Outcome
from benchmarks.runs import ENTRIES, select
from benchmarks.tuning import Setting, fastest
from benchmarks.workloads import OFFSETS_4, grid_graph, noisy_silhouettes, row_marginals
from logsuper.estimators._doubts import _explain
from logsuper.learning import Residuals
from logsuper.learning._light import Extreme
from logsuper.report import Table

SETTINGS = Settings(repeat=1, chunk_seconds=0.001, clock="cpu", quick=True)


def test_row_marginals_are_those_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    theta, alpha = rng.normal(size=(3, 4)), rng.uniform(0.2, 2.0, size=2)
    states = np.array(list(itertools.product([0, 1], repeat=12)), dtype=np.uint8)
    graph = grid_graph((3, 4), OFFSETS_4, alpha)
    weight = np.exp(graph.energies(np.tile(theta.ravel(), (len(states), 1)), states))
    expected = weight @ states / weight.sum()
    np.testing.assert_allclose(row_marginals(theta, alpha).ravel(), expected, rtol=1e-12)


def test_fastest_is_chosen_for_each_level_and_none_where_none_is_accurate(monkeypatch):
    seconds = {"rough": 1.0, "fine": 4.0, "direct": 3.0}
    answers = {"rough": 0.05, "fine": 1e-5, "direct": 1e-4}
    settings = {
        name: Setting(name, lambda t, value=value: t + value) for name, value in answers.items()
    }

    def timed(call, clock):
        found = call()
        name = min(answers, key=lambda key: abs(answers[key] - found[0][0]))
        return found, seconds[name]

    monkeypatch.setattr(tuning, "timed", timed)
    ladders = [[settings["rough"], settings["fine"]], [settings["direct"]]]
    found = fastest(ladders, lambda x: float(np.max(x)), np.zeros((2, 1)), [0.1, 1e-3, 1e-9], "cpu")
    assert {level: setting.name for level, setting in found.items()} == {
        0.1: "rough",
        1e-3: "direct",
    }


class _Denoiser:
    """A peer that is off by a given amount in one pixel of the optimum."""

    name = "denoiser"
    package = "numpy"
    off = 0.0

    def __init__(self, shape, alpha, graph):
        self._cut = ls.Cut(graph.n, graph.edges, graph.weights)

    def default(self):
        def solve(t):
            w = -ls.min_norm_point(self._cut, theta=t).s
            w[0] += self.off
            return w

        return Setting("graph", solve)

    def ladders(self):
        yield iter([self.default()])


@pytest.mark.parametrize("off", [0.0, 0.5])
def test_lfield_measures_the_gap_of_a_peer(monkeypatch, off):
    monkeypatch.setattr(_Denoiser, "off", off)
    monkeypatch.setattr(lfield, "TV_PEERS", [_Denoiser])
    outcome = Outcome()
    lfield.run_lfield(noisy_silhouettes("lfield-1", np.array([1.05, 2.2]), 2), SETTINGS, outcome)
    assert not outcome.failures
    names = [row.comparison.peer for row in outcome.accuracies]
    assert names[0] == "denoiser as it comes"
    assert ("denoiser to 1e-06" in names) == (off == 0.0)
    assert outcome.accuracies[0].error <= 1e-10
    assert (outcome.accuracies[0].peer_error > 1e-6) == (off != 0.0)


def test_missing_and_broken_peers_are_reported_and_skipped(monkeypatch):
    class Broken(_Denoiser):
        def __init__(self, shape, alpha, graph):
            raise ImportError("no such library")

    class Missing(_Denoiser):
        package = "no-such-package"

    monkeypatch.setattr(lfield, "TV_PEERS", [Missing, Broken])
    outcome = Outcome()
    lfield.run_lfield(noisy_silhouettes("lfield-1", np.ones(2), 2), SETTINGS, outcome)
    assert not outcome.failures and not outcome.accuracies
    assert [limit.note for limit in outcome.limits] == [
        "not compared: no-such-package is not installed",
        "not compared: ImportError: no such library",
    ]
    assert "not installed" in report.markdown({}, outcome, [])


def test_sampling_speed_compares_the_same_samples(monkeypatch, capsys):
    assert sampling_speed.main(["--quick", "--samples", "2"]) == 0
    shown = capsys.readouterr().out
    for name in ("facility location", "log-det", "coverage", "Gaussian information"):
        assert name in shown
    [case, *_] = sampling_speed.cases(0, 0.1)
    other = sampling_speed.slow_scan(case.f - ls.Modular(np.full(case.f.n, 9.0)))
    monkeypatch.setattr(sampling_speed, "slow_scan", lambda f: other)
    with pytest.raises(AssertionError, match="the samples differ"):
        sampling_speed.measure(case, 1, 20.0, 0.01)


def test_markdown_says_which_command_printed_it():
    text = report.markdown({"clock": "cpu"}, Outcome(), ["--only", "a b", "--quick"])
    assert "Printed by `python -m benchmarks --only 'a b' --quick`." in text


def test_entries_are_selected_by_name_prefix_or_wildcard(capsys):
    assert select(["lfield"]) == ["lfield-1", "lfield-2"]
    assert select(["strips-2", "logistic"]) == ["logistic", "strips-2"]
    assert select([]) == list(ENTRIES)
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "no entry matches 'nothing'" in capsys.readouterr().err


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


def test_page_names_its_command_but_no_folder(tmp_path):
    table = Table("Times", ["what", "measured"], [["fit", "1 s"]])
    path = tmp_path / "page.md"
    given = ["--data", "/home/somebody", "--jobs", "2"]
    tables.write_page(path, "Page", "benchmarks.x", given, "Text.", [table])
    text = path.read_text()
    assert "`python -m benchmarks.x --data DIR --jobs 2`" in text
    assert "| fit | 1 s |" in text and "somebody" not in text


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


def test_wide_brackets_are_estimated(capsys):
    assert wide.main(["--images", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("mean") >= 2 and "silhouette 0" in out and "14x40" in out


def test_densities_are_compared(monkeypatch, tmp_path, capsys):
    rows = density.digits().rows[:240, 16:48]
    monkeypatch.setattr(density, "SETS", {"middles": lambda: density.Data(rows, (4, 8))})
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


def test_results_are_kept_and_compared(monkeypatch, tmp_path, capsys):
    kept, page = tmp_path / "kept.npz", tmp_path / "page.md"
    command = ["--only", "datasets"]
    assert same.main([*command, "--write", str(kept)]) == 0
    assert same.main([*command, "--against", str(kept)]) == 0
    assert "Differences" not in capsys.readouterr().out
    with np.load(kept) as stored:
        rows = {name: stored[name] for name in stored.files}
    rows["datasets/corrupted"][5] += 0.25
    del rows["datasets/silhouettes"]
    rows["datasets/lost"] = np.zeros(2)
    np.savez(kept, **rows)
    assert same.main([*command, "--against", str(kept), "--markdown", str(page)]) == 1
    lines = [line for line in page.read_text().splitlines() if "NOT EXPECTED" in line]
    assert [line.split(" | ")[0] for line in lines] == [
        "| datasets/corrupted", "| datasets/lost", "| datasets/silhouettes",
    ]  # fmt: skip
    assert " 0.25 " in lines[0] and "1 of 512 numbers" in lines[0]
    assert "missing" in lines[1] and "new" in lines[2]
    monkeypatch.setitem(same.EXPECTED, "datasets/[cls]*", "for this test")
    assert same.main([*command, "--against", str(kept)]) == 0


def test_differences_are_found_to_the_bit():
    x = np.array([1.0, np.nan, 0.0])
    assert same.differs(x, np.array([1.0, -np.nan, 0.0])) == []
    assert same.differs(x, np.array([1.0, np.nan, -0.0]))[2] == "1 of 3 numbers"
    assert same.differs(x, np.array([np.nextafter(1.0, 2.0), np.nan, 0.0]))[0] == "2.22e-16"
    assert same.differs(x, x[:2])[2] == "3 numbers -> 2"
    value, key = (same.raised(error("of", "this")) for error in (ValueError, KeyError))
    assert same.differs(value, same.raised(ValueError("in other words"))) == []
    assert same.differs(value, key)[2].startswith("raises ValueError -> raises KeyError")
    assert same.differs(value, x)[2].startswith("raises ValueError -> numbers")
    image = same.flatten([np.eye(2), (True, None)])
    np.testing.assert_array_equal(image, [1.0, 0.0, 0.0, 1.0, 1.0, np.nan])


def test_what_stops_a_group_of_rows_is_a_row(monkeypatch):
    def broken():
        yield "first", lambda: 1
        raise AttributeError("gone")

    monkeypatch.setitem(same.GROUPS, "broken", broken)
    rows = same.compute(["broken"])
    assert rows["broken/first"] == 1
    assert rows["broken/... after first"][1] == "AttributeError"


def test_arguments_are_given_by_the_names_that_a_function_has():
    def inner(*, samples, seed=0):
        return samples, seed

    def outer(**options):
        return inner(**options)

    assert same_cases.call(inner, n_samples=3) == (3, 0)
    assert same_cases.call(outer, n_samples=3, seed=1) == (3, 1)
    assert same_cases.call(lambda count, key: (count, key), n_samples=3, seed=1) == (3, 1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        same_cases.call(outer, n_samples=3, other=1)


def test_grids_are_compared_however_they_are_given(tmp_path, capsys):
    from benchmarks import grids

    page = tmp_path / "grids.md"
    code = grids.main(["--sides", "16", "--repeat", "1", "--markdown", str(page)])
    printed = capsys.readouterr().out
    assert code in (0, 1) and "UAI file" in printed and "exact sample" in printed
    rows = [line.split("|")[2:4] for line in page.read_text().splitlines() if "Cut |" in line]
    assert rows and all(float(cell) < 1e-6 for row in rows for cell in row)


def test_exact_marginals_are_measured(monkeypatch):
    monkeypatch.setattr(exact_marginals, "SIDE", 16)
    monkeypatch.setattr(exact_marginals, "TRAINING", 3)
    found = exact_marginals.measure(2, 0.1)
    assert all(found[key] > 0 for key in ("cpu1", "cpu2", "wall1", "wall2", "loop"))
    assert 0 < found["sum"] < 2 * 16 * 16
    assert 0 <= found["width"] <= found["widest"] < 1e-9  # a window covers these images
    rows = exact_marginals.compare_windows()
    assert len(rows) == len(exact_marginals.RATES) * len(exact_marginals.WINDOWS)
    wide = {tuple(map(int, row[1:4])): float(row[4]) for row in rows[: len(rows) // 2]}
    assert wide[10, 6, 2] <= wide[10, 6, 3]


# --------------------------------------------------------------------- learning without labels


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
