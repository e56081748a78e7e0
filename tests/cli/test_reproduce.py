import csv
import functools
import sys

import pytest
from click.testing import CliRunner

from logsuper.cli import _reproduce, main
from logsuper.experiments import figure1


def run(*arguments):
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


@pytest.fixture
def small(monkeypatch):
    """A tenth of the points, so that the command takes a second."""
    counts = (1, 5)
    monkeypatch.setattr(_reproduce, "_QUICK_COUNTS", counts)
    monkeypatch.setattr(figure1, "run", functools.partial(figure1.run, points=5, samples=20))


def test_figure1(small, tmp_path):
    out = tmp_path / "new" / "folder"
    result = run("figure1", "--out", out, "--quick", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "Bounds on log Z, c = 1, 2 data sets" in result.stdout
    assert "L-field" in result.stdout
    for ending in ("png", "csv", "md"):
        assert (out / f"figure1.{ending}").stat().st_size > 500
    assert len(list((out / "partial").iterdir())) == 2
    rows = list(csv.DictReader((out / "figure1.csv").read_text().splitlines()))
    assert {(row["decay"], row["k"]) for row in rows} == {(c, k) for c in "13" for k in "15"}


def test_more_data_sets_add_to_those_that_are_there(small, tmp_path, monkeypatch):
    assert run("figure1", "--out", tmp_path, "--quick", "--seeds", 1, "--jobs", 1).exit_code == 0
    kept = {path: path.read_bytes() for path in (tmp_path / "partial").iterdir()}
    computed = []
    model = figure1._model
    monkeypatch.setattr(
        figure1, "_model", lambda *arguments: computed.append(arguments[1]) or model(*arguments)
    )
    result = run("figure1", "--out", tmp_path, "--quick", "--seeds", 2, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert set(computed) == {1}
    assert all(path.read_bytes() == content for path, content in kept.items())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["figure1"], "--out"),
        (["figure1", "--out", "x", "--seeds", "0"], "--seeds"),
        (["figure1", "--out", "x", "--jobs", "0"], "--jobs"),
        (["figure1", "--out", "x", "--jobs", "two"], "--jobs"),
        (["figure9"], "No such command 'figure9'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    result = run("figure1", "--out", tmp_path / "file" / "below", "--quick")
    assert result.exit_code == 2
    assert "--out: cannot write" in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_matplotlib_it_says_so_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("figure1", "--out", tmp_path / "new")
    assert result.exit_code == 2
    assert result.stderr == "Error: drawing needs matplotlib: pip install 'logsuper[plot]'\n"
    assert not (tmp_path / "new").exists()


def test_help_explains_each_option():
    assert "figure1" in run("--help").stdout
    text = run("figure1", "--help").stdout
    for parameter in main.commands["reproduce"].commands["figure1"].params:
        assert parameter.help
        assert parameter.opts[0] in text
