"""With --json, a failure is one JSON object with "error", beside the line on the standard error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.masks import NOISY, run

from logsuper.io import write_image


@pytest.mark.parametrize(
    "line",
    [
        ("denoise", "none", "--out", "out", "--json"),
        ("denoise", "--json"),
        ("denoise", "broken", "--out", "out", "--json"),
        ("denoise", "grey", "--out", "out", "--noise", "0.1", "--json"),
        ("fit", "broken", "--save-model", "m.npz", "--json"),
        ("apply", "grey", "--model", "none", "--out", "out", "--json"),
        ("info", "none", "--json"),
        ("bounds", "none", "--json"),
        ("bounds", "broken/x.png", "--json"),
    ],
)
def test_failures(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "x.png").write_bytes(b"no image")
    write_image(tmp_path / "grey" / "g.png", np.arange(100, dtype=np.uint8).reshape(10, 10))
    done = run(*line)
    assert done.exit_code == 2 and done.stdout.count("\n") == 1
    content = json.loads(done.stdout)
    assert done.stderr.endswith(f"Error: {content['error']}\n")
    if "broken" in line:
        [one] = content["left_out"]
        assert one["input"].endswith("x.png") and "not an image" in one["reason"]
    without = run(*(word for word in line if word != "--json"))
    assert without.exit_code == 2 and without.stdout == "" and "Error: " in without.stderr


def test_images_that_could_not_be_cleaned(tmp_path, model):
    write_image(tmp_path / "in" / "x.png", np.arange(100, dtype=np.uint8).reshape(10, 10))
    line = ("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out", "--json")
    done = run(*line)
    content = json.loads(done.stdout)
    assert done.exit_code == 2 and content["error"] == "none of the images could be cleaned"
    assert len(content["left_out"]) == 1 and content["files"] == []


@pytest.mark.parametrize(
    ("dtype", "levels", "missing", "named"),
    [
        (np.float32, (0, 1), -9999, "-9999.0"),
        (np.float32, (0, 1), float(np.finfo(np.float32).min), None),
        (np.float64, (0, 255), 1e20, "1e+20"),
        (np.int16, (0, 100), -32768, "-32768"),
        (np.uint16, (0, 1), 65535, "65535"),
        (np.uint16, (0, 65535), 40000, "40000"),
    ],
)
def test_no_data_values(tmp_path, model, dtype, levels, missing, named):
    pixels = np.where(NOISY[0] > 0, levels[1], levels[0]).astype(dtype)
    pixels[3:6, 4:9] = missing
    write_image(tmp_path / "in" / "x.tif", pixels)
    line = ("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out", "--json")
    refused = run(*line)
    assert refused.exit_code == 2 and "has the 3 levels" in refused.stderr
    assert named is None or f"--missing {named}" in refused.stderr
    done = run(*line, "--missing", repr(missing))
    assert done.exit_code == 0, done.output
    [one] = json.loads(done.stdout)["files"]
    assert one["pixels"] - one["observed"] == 15


def test_infinite_pixels_may_be_missing(tmp_path, model):
    pixels = NOISY[0].astype(np.float32)
    pixels[2, 3] = np.inf
    write_image(tmp_path / "in" / "x.npy", pixels)
    line = ("apply", "--model", model[0], tmp_path / "in", "--out", tmp_path / "out", "--json")
    done = run(*line, "--missing", "inf")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["files"][0]["observed"] == pixels.size - 1
    assert found["files"][0]["shares"] == found["all"]  # of the only file
