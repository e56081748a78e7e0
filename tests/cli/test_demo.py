import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from logsuper.cli import main


def run(*arguments):
    return CliRunner().invoke(main, ["demo", *map(str, arguments)])


def test_prints_a_table_and_saves_the_pictures(tmp_path):
    result = run("--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert "Wrong pixels" in result.stdout
    assert "mean" in result.stdout
    with Image.open(tmp_path / "new" / "demo.png") as picture:
        pixels = np.asarray(picture)
    assert pixels.shape[0] > 600 and pixels.shape[1] > 600
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cleaning_cleans(tmp_path, seed):
    result = run("--out", tmp_path, "--seed", seed, "--count", 5, "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    noisy, cleaned = np.array(figures["noisy"]), np.array(figures["cleaned"])
    assert len(noisy) == len(cleaned) == 5
    assert np.all(np.abs(noisy - 0.1) < 0.04)
    assert np.all(cleaned < 0.5 * noisy)
    assert cleaned.mean() < 0.3 * noisy.mean()


def test_same_seed_same_picture(tmp_path):
    for folder in ("one", "two"):
        assert run("--out", tmp_path / folder, "--size", 32, "--count", 1).exit_code == 0
    one, two = ((tmp_path / folder / "demo.png").read_bytes() for folder in ("one", "two"))
    assert one == two


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    result = run("--out", tmp_path / "file" / "below")
    assert result.exit_code == 2
    assert "--out: cannot write" in result.stderr
    assert result.stderr.count("\n") == 1
