"""The benchmarks of tiles run, and compare what they claim to compare."""

import json

import numpy as np
import pytest

from benchmarks import machines, tile_cases, tile_hard, tiles


def test_speeds_are_measured_on_equal_labels(tmp_path, capsys):
    page = tmp_path / "tiles.md"
    sizes = ["--speed-size", "512", "--marginals-size", "16", "--repeat", "1"]
    arguments = ["speed", "hard", "scale", "marginals", *sizes, "--out", str(page)]
    assert tiles.main(arguments) == 0
    assert "tiles, 2" in capsys.readouterr().out
    assert "Limits missed: none" in page.read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8").count("| True |") == len(tile_hard.KINDS)
    assert "10^12 pixels" in page.read_text(encoding="utf-8")


def test_a_missed_limit_is_told(monkeypatch, capsys):
    measure = tiles.measure_scale
    monkeypatch.setattr(
        tiles, "measure_scale", lambda size: (tiles.limit(False, "too slow"), measure(size))[1]
    )
    assert tiles.main(["scale", "--speed-size", "512"]) == 1
    assert "MISSED: too slow" in capsys.readouterr().out


def test_random_cases_are_counted(capsys):
    assert tile_cases.main(15) == 0
    assert "15 of 15 cases" in capsys.readouterr().out
    assert tile_cases.attack(20) == 0
    assert "20 of 20 cases of white noise" in capsys.readouterr().out


def test_the_picture_is_drawn(tmp_path):
    assert tiles.main(["--picture", str(tmp_path / "tiles.png")]) == 0
    assert (tmp_path / "tiles.png").stat().st_size > 10_000


def test_learning_from_files_is_measured(tmp_path, capsys):
    for i in range(4):
        np.save(tmp_path / f"{i}.npy", tiles.blobs(slice(0, 128), slice(128 * i, 128 * i + 128)))
    for what in ("windows", "all", "MaskCRF"):
        tiles.fit(str(tmp_path), what, 3, 2e4)
        assert set(json.loads(capsys.readouterr().out)) == {"cpu", "peak", "noise"}


@pytest.mark.filterwarnings("ignore::logsuper.ConvergenceWarning")
def test_jobs_of_machines():
    found = {job: machines.prepare(job, 21)() for job in ("saa", "proba", "map")}
    assert found["saa"].shape == (2,) and found["proba"].shape == (21, 128, 128)
    assert found["map"].shape == (21, 512, 512)
