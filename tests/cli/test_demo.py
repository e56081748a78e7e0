import functools
import json
import os

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from logsuper.cli import _demo, main

learn_once = functools.cache(_demo._run)


def run(*arguments):
    return CliRunner().invoke(main, ["demo", *map(str, arguments)])


def test_prints_a_summary_and_saves_a_page_and_a_picture(tmp_path):
    result = run("--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    for words in ("60 noisy images, no clean one", "20 other images", "as estimated", "time to"):
        assert words in result.stdout
    with Image.open(tmp_path / "new" / "demo.png") as picture:
        pixels = np.asarray(picture)
    assert pixels.shape[0] > 600 and pixels.shape[1] > 600
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 2
    page = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 3
    assert "http://" not in page and "https://" not in page and "<script" not in page
    assert "logsuper demo --count 20 --size 50 --noise 0.1 --seed 0" in page
    assert str(tmp_path / "new" / "report.html") in result.stdout
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["demo.png", "report.html"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cleaning_cleans_without_clean_images(tmp_path, seed):
    result = run("--out", tmp_path, "--seed", seed, "--size", 24, "--count", 10, "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    noisy, cleaned, expected = (np.array(figures[k]) for k in ("noisy", "cleaned", "expected"))
    assert len(noisy) == len(cleaned) == len(expected) == 10
    assert np.all(np.abs(noisy - 0.1) < 0.06)
    assert np.all(cleaned < 0.8 * noisy)
    assert cleaned.mean() < 0.4 * noisy.mean()
    assert abs(figures["noise_estimated"] - 0.1) < 0.015
    assert abs(expected.mean() - cleaned.mean()) < 0.01
    assert figures["converged"] and figures["learning_seconds"] > 0


def test_same_seed_same_picture(tmp_path):
    for folder in ("one", "two"):
        assert run("--out", tmp_path / folder, "--size", 16, "--count", 1).exit_code == 0
    one, two = ((tmp_path / folder / "demo.png").read_bytes() for folder in ("one", "two"))
    assert one == two


# at 40 % the estimate itself may say that there is hardly anything but noise
@pytest.mark.filterwarnings("ignore:observed looks like hardly anything")
@pytest.mark.parametrize("noise", [1e-6, 0.2, 0.4])
def test_hardly_any_noise_and_a_lot(tmp_path, noise):
    result = run("--out", tmp_path, "--size", 16, "--noise", noise, "--count", 2)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""


@pytest.mark.parametrize("name", ["[/x]", "[bold]", ":smile:", "a`b<c>"])
def test_names_are_printed_as_they_are(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_demo, "_run", learn_once)
    result = run("--out", name, "--size", 16, "--count", 1)
    assert result.exit_code == 0, result.output
    assert f"Report: {name}/report.html\n" in result.stdout


@pytest.fixture
def no_work(monkeypatch):
    monkeypatch.setattr(_demo, "_run", lambda *arguments: pytest.fail("work was done"))


def test_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path, no_work):
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "demo.png").mkdir(parents=True)
    outs = [tmp_path / "file" / "below", tmp_path / "taken", tmp_path / ("x" * 300), "/proc/new"]
    for out in outs:
        result = run("--out", out)
        assert result.exit_code == 2
        assert "--out: cannot write" in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_without_permission_is_refused_before_any_work(tmp_path, no_work):
    tmp_path.chmod(0o500)
    result = run("--out", tmp_path)
    assert result.exit_code == 2 and "--out: cannot write" in result.stderr
