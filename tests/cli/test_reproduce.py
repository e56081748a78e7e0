import csv
import functools
import os
import re
import sys
import types

import pytest
from click.testing import CliRunner
from objective_oracles import long

from logsuper import experiments
from logsuper.cli import main
from logsuper.experiments import figure1
from logsuper.report import Section, Table

IMAGES = ("figure2", "table1", "table2", "calibration", "all")


def run(*arguments):
    return CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


@pytest.fixture
def small(monkeypatch, few_trees):
    """A tenth of the points, few and tiny images, so that a command takes seconds."""
    monkeypatch.setattr(figure1, "QUICK_COUNTS", (1, 5))
    few = functools.partial(figure1.compute, points=5, n_samples=20)
    monkeypatch.setattr(figure1, "compute", few)
    tiny = functools.partial(experiments.load_setting, train=8, test=4, shape=(16, 16))
    monkeypatch.setattr(experiments, "load_setting", tiny)


@pytest.fixture
def stand_ins(monkeypatch):
    """Tables that take no time; returns what they were called with."""
    calls = {}

    def stand_in(name):
        def experiment(setting, job):
            calls[name] = {"setting": setting, "job": job}
            job.progress(0, 2)
            job.progress(2, 2)
            table = Table(f"Errors of {name}", ("noise", "error"), (("1 %", "0.2"),), name=name)
            return Section(name, f"The title of {name}", ("Text.",), (table,), seeds=(7,))

        module = types.ModuleType(f"logsuper.experiments.{name}")
        module.run = experiment
        monkeypatch.setitem(sys.modules, module.__name__, module)

    for name in ("table1", "table2", "calibration"):
        stand_in(name)
    return calls


def test_figure1(small, tmp_path):
    out = tmp_path / "new" / "folder"
    result = run("figure1", "--out", out, "--quick", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "Bounds on log Z in nats, c = 1" in result.stdout
    assert "L-field" in result.stdout
    copy = (out / "report.md").read_text(encoding="utf-8")
    assert "seeds: 0, 1" in copy and "silhouettes" not in copy
    assert len(list((out / "partial").iterdir())) == 4  # two data sets, two decays
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


def test_all_in_one_report(small, stand_ins, tmp_path):
    result = run("all", "--out", tmp_path, "--quick", "--seeds", 2, "--jobs", 1)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    copy = (tmp_path / "report.md").read_text(encoding="utf-8")
    places = [page.index(f'<section id="{name}">') for name in experiments.EXPERIMENTS]
    assert places == sorted(places)
    assert page.count("data:image/png;base64,") == 5
    command = f"logsuper reproduce all --out {tmp_path} --seeds 2 --quick"
    assert command in page and command in copy
    assert "seeds: figure1 0, 1; figure2 0; table1 7; table2 7; calibration 7" in copy
    for name in ("figure1", "figure1_c3", "figure1_order", "figure2", "table1", "calibration"):
        assert (tmp_path / f"{name}.csv").exists()
        assert f"[{name}.csv]({name}.csv)" in copy
    assert "The title of table2" in result.stdout and re.search(r"\d ms │", result.stdout)
    assert "Errors of table1" in result.stdout
    assert str(tmp_path / "report.html") in result.stdout.splitlines()
    assert "reproduced (quick run" in page and "reproduced (quick run" in copy
    for call in stand_ins.values():
        job = call["job"]
        assert job.seeds == (0, 1)
        assert job.quick is True and job.n_jobs == 1
        assert job.partial == tmp_path / "partial"


def test_a_second_run_does_nothing_again(small, stand_ins, tmp_path, monkeypatch):
    from logsuper.experiments import figure2

    assert run("all", "--out", tmp_path, "--quick", "--jobs", 1).exit_code == 0
    names = ("figure1.csv", "figure1.png", "figure2.csv", "figure2_10_missing.png")
    before = {name: (tmp_path / name).read_bytes() for name in names}
    monkeypatch.setattr(figure1, "_model", lambda *arguments: pytest.fail("done again"))
    monkeypatch.setattr(figure2, "_work", lambda **arguments: pytest.fail("done again"))
    result = run("all", "--out", tmp_path, "--quick", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert {name: (tmp_path / name).read_bytes() for name in names} == before


@long
def test_everything_for_real(small, tmp_path):
    first = run("all", "--out", tmp_path, "--quick", "--jobs", 1)
    assert first.exit_code == 0, first.output
    copy = (tmp_path / "report.md").read_text(encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")}
    assert all(f"[{name}]({name})" in copy for name in before) and len(before) > 10
    for title in ("Figure 1", "Figure 2", "Table 1", "Table 2", "Calibration"):
        assert f"\n## {title}" in copy
    assert " nan" not in copy and "± 0.00" not in copy
    parts = sorted(path.name for path in (tmp_path / "partial").iterdir())
    again = run("all", "--out", tmp_path, "--quick", "--jobs", 1)
    assert again.exit_code == 0, again.output
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")} == before
    assert sorted(path.name for path in (tmp_path / "partial").iterdir()) == parts


def test_one_section_alone(small, stand_ins, tmp_path):
    result = run("table1", "--out", tmp_path, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert set(stand_ins) == {"table1"}
    assert stand_ins["table1"]["job"].seeds == (0, 1, 2, 3, 4)
    assert not stand_ins["table1"]["job"].quick
    assert "quick" not in (tmp_path / "report.md").read_text().splitlines()[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report.html",
        "report.md",
        "table1.csv",
    ]


def test_images_from_a_folder(stand_ins, tmp_path, monkeypatch):
    from PIL import Image

    folder = tmp_path / "data" / "figure_ground"
    folder.mkdir(parents=True)
    for i in range(200):
        Image.new("L", (6, 5), 255 * (i % 2)).save(folder / f"horse{i:03d}.jpg")
    result = run("table2", "--data", tmp_path / "data", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    setting = stand_ins["table2"]["setting"]
    assert not setting.shipped and setting.masks.images.shape == (200, 50, 50)
    copy = (tmp_path / "out" / "report.md").read_text()
    assert "Weizmann horse database; 100 images" in copy
    assert f"--data {tmp_path / 'data'}" in copy


def test_wide_tables_are_not_squeezed(stand_ins, small, tmp_path, monkeypatch):
    head = tuple(f"column{k}" for k in range(30))
    table = Table("A wide one", head, (tuple(range(30)),), name="wide")
    section = Section("table1", "Table 1", (), (table,))
    module = sys.modules["logsuper.experiments.table1"]
    monkeypatch.setattr(module, "run", lambda setting, job: section)
    result = run("table1", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "A wide one: too wide for this terminal, see wide.csv" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *([[name], "--out"] for name in ("figure1", *IMAGES)),
        (["figure1", "--out", "x", "--seeds", "0"], "--seeds"),
        (["figure1", "--out", "x", "--jobs", "0"], "--jobs"),
        (["figure1", "--out", "x", "--jobs", "two"], "--jobs"),
        (["all", "--out", "x", "--jobs", "0"], "--jobs"),
        (["figure2", "--out", "x", "--data", "nowhere"], "--data: no pictures *.jpg in nowhere"),
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


def test_folder_with_too_few_pictures(tmp_path):
    from PIL import Image

    Image.new("L", (6, 5)).save(tmp_path / "horse.jpg")
    result = run("table1", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--data: train + test = 200, but there are only 1 images" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_folder_that_cannot_be_written_is_refused_before_any_work(stand_ins, small, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "report.md").mkdir(parents=True)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "partial").touch()
    for out in (tmp_path / "file" / "below", tmp_path / "taken", tmp_path / "half"):
        result = run("table1", "--out", out, "--quick")
        assert result.exit_code == 2
        assert "--out: cannot write" in result.stderr
        assert result.stderr.count("\n") == 1
    assert not stand_ins


def test_a_picture_that_claims_to_be_huge_is_one_line(tmp_path):
    from PIL import Image

    folder = tmp_path / "figure_ground"
    folder.mkdir()
    Image.new("1", (20_000, 20_000)).save(folder / "horse.jpg")
    result = run("table1", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--data: " in result.stderr and "not a picture that can be read" in result.stderr
    assert result.stderr.count("\n") == 1


def test_many_processes_are_as_many_as_there_are_processors(stand_ins, small, tmp_path):
    run("table1", "--out", tmp_path, "--jobs", 1000)
    assert 1 <= stand_ins["table1"]["job"].n_jobs <= os.cpu_count()


def test_odd_names_in_a_report(stand_ins, small, tmp_path):
    out = tmp_path / "a`<b>"
    result = run("table1", "--out", out, "--jobs", 1)
    assert result.exit_code == 0, result.output
    copy = (out / "report.md").read_text(encoding="utf-8")
    assert f"- command: `` logsuper reproduce table1 --out '{out}' ``" in copy
    assert str(out / "report.html") in result.stdout.splitlines()


@pytest.mark.parametrize("name", ["figure1", "all"])
def test_without_matplotlib_it_says_so_before_any_work(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(name, "--out", tmp_path / "new")
    assert result.exit_code == 2
    assert result.stderr == "Error: drawing needs matplotlib: pip install 'logsuper[plot]'\n"
    assert not (tmp_path / "new").exists()


def test_help_explains_each_option():
    assert "figure1" in run("--help").stdout
    assert run().stdout == run("--help").stdout and run().exit_code == 0
    for name in ("figure1", *IMAGES):
        text = run(name, "--help").stdout
        for parameter in main.commands["reproduce"].commands[name].params:
            assert parameter.help
            assert parameter.opts[0] in text
