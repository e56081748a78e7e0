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
