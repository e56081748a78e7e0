"""The options --trees and --no-trees."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.masks import CLEAN, NOISY, run, write_masks

import logsuper as ls
from logsuper.cli import _learning
from logsuper.io import read_image, write_image


@pytest.mark.parametrize(("option", "context"), [("--trees", "trees"), ("--no-trees", "filter")])
def test_the_same_as_the_estimator(tmp_path, noisy, option, context):
    done = run("denoise", noisy, "--out", tmp_path / "out", option, "--json")
    assert done.exit_code == 0, done.output
    model = ls.MaskDenoiser(context=context).fit(NOISY)
    for k, mask in enumerate(model.predict(NOISY)):
        assert np.array_equal(read_image(tmp_path / "out" / f"m{k}.png") > 0, mask > 0)
    found = json.loads(done.stdout)["model"]
    assert found["trees"] == (context == "trees")
    assert (found["trees_weight"] > 0) == (context == "trees")


@pytest.mark.parametrize("option", ["--trees", "--no-trees"])
def test_fit_info_and_apply(tmp_path, noisy, option):
    line = ("fit", noisy, "--save-model", tmp_path / "m.npz", option)
    done = run(*line)
    assert done.exit_code == 0, done.output
    assert ("Boosted trees look at" in done.stdout) == (option == "--trees")
    content = json.loads(run("info", tmp_path / "m.npz", "--json").stdout)
    assert content["trees"] == (option == "--trees")
    done = run("apply", "--model", tmp_path / "m.npz", noisy, "--out", tmp_path / "out")
    assert done.exit_code == 0
    run("denoise", noisy, "--out", tmp_path / "once", option)
    for k in range(8):
        found = [read_image(tmp_path / place / f"m{k}.png") for place in ("out", "once")]
        assert np.array_equal(*found)


def test_with_clean_masks(tmp_path, noisy):
    clean = write_masks(tmp_path / "clean", CLEAN)
    done = run("denoise", noisy, "--clean", clean, "--out", tmp_path / "out", "--trees", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["model"]["trees"]


def test_of_grey_images(tmp_path):
    rng = np.random.default_rng(0)
    for k, mask in enumerate(CLEAN):
        grey = np.clip(80 + 90 * mask + 30 * rng.standard_normal(mask.shape), 0, 255)
        write_image(tmp_path / "in" / f"{k}.png", grey.astype(np.uint8))
    done = run("fit", tmp_path / "in", "--save-model", tmp_path / "m.npz", "--trees", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["model"]
    assert found["trees"] and found["noise_kind"] == "gaussian"


def test_the_default_leaves_it_to_the_estimator(tmp_path, noisy, monkeypatch):
    asked = []

    class Recorder(ls.MaskDenoiser):
        def fit(self, *arguments):
            asked.append(self.context)
            return super().fit(*arguments)

    monkeypatch.setattr("logsuper.estimators.MaskDenoiser", Recorder)
    for option in ([], ["--trees"], ["--no-trees"]):
        line = ("fit", noisy, "--save-model", tmp_path / "m.npz", "--force", "--noise", 0.1)
        assert run(*line, *option).exit_code == 0
    assert asked == ["auto", "trees", "filter"]


def test_results_of_the_other_choice_are_not_taken_for_finished(tmp_path, noisy, monkeypatch):
    line = ("denoise", noisy, "--out", tmp_path / "out", "--noise", 0.1)
    assert run(*line, "--trees").exit_code == 0
    done = run(*line, "--no-trees")
    assert done.exit_code == 2 and "not from this command with these settings" in done.stderr
    learned = []
    learn = _learning.learn
    monkeypatch.setattr(_learning, "learn", lambda *a: learned.append(1) or learn(*a))
    assert run(*line, "--trees").exit_code == 0 and not learned
    assert run(*line, "--no-trees", "--force").exit_code == 0 and learned


@pytest.mark.parametrize("option", ["--trees", "--no-trees"])
def test_a_model_has_learned_already(tmp_path, noisy, model, option):
    done = run("denoise", noisy, "--model", model[0], "--out", tmp_path / "out", option)
    assert done.exit_code == 2 and f"{option} is for learning" in done.stderr
