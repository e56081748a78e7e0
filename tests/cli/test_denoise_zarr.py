"""Zarr stores in, zarr stores out."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from cli.masks import NOISY, run

from logsuper.io import read_image, write_image

pytest.importorskip("zarr", reason="zarr is not installed")


@pytest.fixture
def stores(tmp_path):
    for k in range(3):
        write_image(tmp_path / "in" / f"m{k}.zarr", NOISY[k] * np.uint16(300))
    write_image(tmp_path / "in" / "v.zarr", NOISY[3:6] * np.uint16(300))
    return tmp_path / "in"


def test_zarr_out(tmp_path, stores, model):
    out = tmp_path / "out"
    line = ("apply", "--model", model[0], stores, "--out", out, "--probabilities", "--json")
    done = run(*line)
    assert done.exit_code == 0, done.output
    names = ["m0.zarr", "m1.zarr", "m2.zarr", "v.zarr"]
    assert set(os.listdir(out)) == {".logsuper", *names, "probabilities"}
    images = tmp_path / "images"
    for name in names:
        found = read_image(out / name)
        assert found.dtype == np.uint16 and set(np.unique(found)) <= {0, 300}
        write_image(images / name.replace("zarr", "tif"), read_image(stores / name))
    assert run("apply", "--model", model[0], images, "--out", tmp_path / "tif").exit_code == 0
    for name in names:  # the same as of other formats
        other = read_image(tmp_path / "tif" / name.replace("zarr", "tif"))
        assert np.array_equal(read_image(out / name), other)
    again = json.loads(run(*line).stdout)
    assert all(one["finished_before"] for one in again["files"])


def test_a_store_that_was_changed_is_not_replaced(tmp_path, stores, model):
    line = ("apply", "--model", model[0], stores, "--out", tmp_path / "out")
    assert run(*line).exit_code == 0
    write_image(tmp_path / "out" / "m1.zarr", NOISY[0] * np.uint16(300), force=True)
    done = run(*line)
    assert done.exit_code == 2 and "m1.zarr is there already" in done.stderr
    assert np.array_equal(read_image(tmp_path / "out" / "m1.zarr") > 0, NOISY[0] > 0)
    assert run(*line, "--force").exit_code == 0
    assert not np.array_equal(read_image(tmp_path / "out" / "m1.zarr") > 0, NOISY[0] > 0)
    shutil.rmtree(tmp_path / "out" / "m0.zarr")
    assert run(*line).exit_code == 0 and (tmp_path / "out" / "m0.zarr").is_dir()


def test_an_input_is_never_replaced(tmp_path, stores, model):
    line = ("apply", "--model", model[0], stores / "m0.zarr", "--force")
    before = read_image(stores / "m0.zarr")
    for out in (stores, stores / "m0.zarr"):
        done = run(*line, "--out", out)
        assert done.exit_code == 2, done.output
    assert np.array_equal(read_image(stores / "m0.zarr"), before)
