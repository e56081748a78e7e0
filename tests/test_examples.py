"""What the documentation tells people to run, runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import logsuper as ls
from logsuper.io import write_image

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script, tmp_path):
    command = [sys.executable, "-W", "error", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_there_are_examples():
    assert EXAMPLES


def run_blocks(page, names=None):
    """Run the Python blocks of a page, one after the other, and return their names."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {} if names is None else names
    exec("\n".join(blocks), names)
    return len(blocks), names


def test_readme_code_runs():
    count, names = run_blocks("README.md")
    assert count >= 3
    assert (names["masks"] != names["clean"]).mean() < 0.03
    assert ((names["probabilities"] > 0.5) != names["clean"]).mean() < 0.03
    assert (names["cut"].mask != names["outlines"][0]).mean() < 0.1
    assert (names["best"] != names["clean"][0]).mean() < 0.04
    assert names["bracket"].lower <= names["bracket"].upper
    assert (names["mu"].lower <= names["mu"].upper).all()
    assert names["X"].shape == (10, 50, 50)


def test_readme_has_two_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


def test_page_on_many_problems_runs():
    count, names = run_blocks("docs/guides/many_problems.md")
    assert count >= 4
    assert (names["restored"] != names["clean"]).mean() < 0.04
    assert (names["smaller"] <= names["larger"]).all()
    assert ((names["frequency"] > 0.5) != names["clean"]).mean() < 0.04


def test_page_on_families_runs():
    count, names = run_blocks("docs/guides/families.md")
    assert count >= 1 and names["report"]


def test_closed_forms_of_the_theory_hold():
    count, names = run_blocks("docs/theory.md")
    assert count >= 1 and names["exact"] < names["logistic"] < names["above"]


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
        *(ROOT / "docs").glob("*/*.md"),
    ]
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
