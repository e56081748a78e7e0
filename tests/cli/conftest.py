"""Models that commands have learned, and a folder of noisy masks."""

from __future__ import annotations

import json

import pytest
from cli.masks import NOISY, run, write_masks

import logsuper as ls


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Return a model of images, and what the command said about it."""
    folder = tmp_path_factory.mktemp("model")
    done = run("fit", write_masks(folder / "in"), "--save-model", folder / "m.npz", "--json")
    assert done.exit_code == 0, done.output
    return folder / "m.npz", json.loads(done.stdout)


@pytest.fixture(scope="session")
def density(tmp_path_factory):
    """Return a model of another kind."""
    path = tmp_path_factory.mktemp("density") / "density.npz"
    ls.LogSupermodularDensity(n_components=1).fit(NOISY.reshape(8, -1)[:, :4]).save(path)
    return path


@pytest.fixture
def noisy(tmp_path):
    return write_masks(tmp_path / "noisy")
