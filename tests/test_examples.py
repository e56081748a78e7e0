"""What the documentation tells people to run, runs."""

import re
import runpy
import tempfile
from pathlib import Path

import matplotlib
import pytest

import logsuper as ls
from logsuper.io import write_image

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


def test_readme_code_runs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 3
    names = {}
    exec("\n".join(blocks), names)
    assert (names["restored"] != names["clean"]).mean() < 0.04
    assert (names["smaller"] <= names["larger"]).all()


def test_page_on_folders_of_masks_runs(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "denoise.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    noisy = ls.Flips(0.1).sample(ls.make_silhouettes(4, (20, 20), seed=0), seed=1)
    for k, mask in enumerate(noisy):
        write_image(tmp_path / "masks" / f"{k}.png", mask > 0)
    exec(block, {})
    assert len(list((tmp_path / "clean").glob("*.png"))) == 4


def test_learning_page_runs(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 2
    monkeypatch.chdir(tmp_path)
    names = {}
    exec("\n".join(blocks), names)
    assert abs(names["denoiser"].noise_ - 0.1) < 0.02 and names["fit"].converged


def test_page_on_fields_runs(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "crf.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    names = {}
    exec("\n".join(blocks), names)
    assert (tmp_path / "crf.npz").exists() and names["loss"].shape == (12,)


def test_links_lead_somewhere():
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").glob("*.md"),
    ]
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
