from __future__ import annotations

import itertools

import numpy as np
import pytest

import logsuper as ls
from benchmarks import (
    exact_marginals,
    lfield,
    report,
    same,
    same_cases,
    sampling_speed,
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


def test_page_names_its_command_but_no_folder(tmp_path):
    table = Table("Times", ["what", "measured"], [["fit", "1 s"]])
    path = tmp_path / "page.md"
    given = ["--data", "/home/somebody", "--jobs", "2"]
    tables.write_page(path, "Page", "benchmarks.x", given, "Text.", [table])
    text = path.read_text()
    assert "`python -m benchmarks.x --data DIR --jobs 2`" in text
    assert "| fit | 1 s |" in text and "somebody" not in text


def test_wide_brackets_are_estimated(capsys):
    assert wide.main(["--images", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("mean") >= 2 and "silhouette 0" in out and "14x40" in out


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
