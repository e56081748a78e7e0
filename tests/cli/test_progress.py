"""What is shown while a fit runs: what is being done, and how much of a known amount."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import numpy as np
import pytest
from cli.masks import CLEAN, NOISY, write_masks

import logsuper as ls
from logsuper.cli._progress import Listener


class Stages:
    """Records what a listener shows."""

    def __init__(self):
        self.shown = []

    def begin(self, name, total):
        steps = []
        self.shown.append((name, total, steps))
        return steps.append


def test_what_a_fit_is_doing():
    stages = Stages()
    ls.MaskDenoiser(context="filter", callback=Listener(stages.begin)).fit(NOISY)
    names = [name for name, _, _ in stages.shown]
    assert names == ["Learning: estimating the noise", "Learning"]


def test_fits_that_are_compared_are_counted():
    clean = ls.make_silhouettes(20, (72, 72), seed=0)
    noisy = ls.Flips(0.1).sample(clean, seed=1)
    stages = Stages()
    model = ls.MaskDenoiser(callback=Listener(stages.begin), n_jobs=2).fit(noisy)
    assert len(model.selection_) == 2
    names = [name for name, _, _ in stages.shown]
    assert names[1] == "Learning: training trees" and names[2].startswith("Learning: 5 fits")
    _, total, steps = stages.shown[2]
    assert total == 5 and steps == [1, 2, 3, 4]


@pytest.mark.parametrize("labelled", [False, True])
def test_who_listens_changes_nothing(labelled):
    found = []
    for listener in (None, Listener(Stages().begin)):
        model = ls.MaskDenoiser(callback=listener).fit(NOISY, CLEAN if labelled else None)
        found.append(model.predict_proba(NOISY))
    assert np.array_equal(*found)


def test_on_a_terminal(tmp_path):
    write_masks(tmp_path / "in")
    command = [sys.executable, "-m", "logsuper", "denoise", "in", "--out", "out"]
    upper, lower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        command, stderr=lower, stdout=subprocess.DEVNULL, cwd=tmp_path, env=environment
    )
    os.close(lower)
    text = b""
    while True:
        try:
            part = os.read(upper, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(upper)
    assert process.wait(60) == 0
    shown = text.decode()
    for name in ("Reading images to learn from", "Learning: estimating the noise", "Cleaning"):
        assert name in shown
    assert "Warning" not in shown and "Traceback" not in shown
