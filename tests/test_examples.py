"""The examples run; the code in the pages is in test_pages.py."""

import runpy
import tempfile
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script, tmp_path, monkeypatch, capsys):
    """It runs without a warning, prints something and draws pictures."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.close("all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures
    for figure in figures:
        assert figure.axes
        figure.draw_without_rendering()  # lays it out: no warning here either
    plt.close("all")


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_belongs_to_the_gallery(script):
    assert script.name.startswith("plot_")
    assert (script.parent / "GALLERY_HEADER.rst").exists()
    title, line, gap, *text = script.read_text(encoding="utf-8").removeprefix('"""\n').splitlines()
    assert line == "=" * len(title) and gap == "" and text[0]


def test_there_are_examples():
    assert len(EXAMPLES) >= 16
    assert not list((ROOT / "examples").glob("*.py"))  # none outside of a section
