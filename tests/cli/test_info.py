"""What `logsuper info` says of saved models of every kind."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.masks import CLEAN, NOISY, run

import logsuper as ls

GREY = [np.clip(80 + 80 * mask, 0, 255).astype(np.uint8) for mask in CLEAN]
ROWS = NOISY.reshape(8, -1)[:, :4]
MODELS = {
    "denoiser": lambda: ls.MaskDenoiser(noise=0.1).fit(NOISY),
    "trees": lambda: ls.MaskDenoiser(noise=0.1, context="trees", neighbors=8).fit(NOISY),
    "grey": lambda: ls.MaskDenoiser(noise="gaussian").fit(
        [mask + 0.2 * np.random.default_rng(0).standard_normal(mask.shape) for mask in CLEAN]
    ),
    "volumes": lambda: ls.MaskDenoiser(noise=0.1).fit(np.stack([NOISY[:4]] * 2)),
    "crf": lambda: ls.MaskCRF(unary="linear").fit(GREY, CLEAN),
    "log-odds": lambda: ls.MaskCRF(unary="log_odds", edges="uniform").fit(
        [3.0 * mask - 1.5 for mask in NOISY], CLEAN
    ),
    "segmenter": ls.ScribbleSegmenter,
    "density": lambda: ls.LogSupermodularDensity(n_components=1).fit(ROWS),
    "mixture": lambda: ls.LogSupermodularDensity(n_components=2).fit(ROWS),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(tmp_path, name):
    model = MODELS[name]()
    model.save(tmp_path / "m.npz")
    done = run("info", tmp_path / "m.npz")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(str(tmp_path / "m.npz")) and "Model" in done.stdout
    done = run("info", tmp_path / "m.npz", "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content["kind"] == type(model).__name__
    if name == "mixture":
        assert content["shares"] == pytest.approx(list(model.weights_))
        assert [low for low, _ in content["log_partition"]] == pytest.approx(
            [bracket.lower for bracket in model.brackets_]
        )
    if name == "crf":
        assert np.allclose(content["weights"], model.alpha_)
    if name == "segmenter":
        assert set(content["constants"]) > {"coupling", "contrast"}
