"""A new channel, learner or command is one definition: nothing else needs to know its name."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from denoisers import make_pairs, quick

import logsuper as ls
from logsuper.channels import CHANNELS
from logsuper.cli import main
from logsuper.learning import LEARNERS, Learner, logistic

pytestmark = pytest.mark.usefixtures("stopped_early")


@pytest.fixture
def laplace() -> Iterator[type[ls.Channel]]:
    """A channel with noise of Laplace's law around the levels 0 and 1."""

    class Laplace(ls.Channel, kind="laplace"):
        estimable = True

        def __init__(self, width: float) -> None:
            self.width = np.asarray(width)

        @property
        def noise(self) -> float:
            return float(self.width)

        def _log_likelihoods(self, observed):
            return tuple(-np.abs(observed - x) / self.width - np.log(self.width) for x in (0, 1))

        def _draw(self, x, rng):
            return x + rng.laplace(scale=self.width, size=x.shape)

        def _unbiased(self, observed):
            return observed

        def _divergence(self, shape):
            return 1.0 / self.width + np.exp(-1.0 / self.width) - 1.0

        @classmethod
        def from_pairs(cls, noisy, clean):
            return cls(np.mean([np.abs(z - x).mean() for z, x in zip(noisy, clean, strict=True)]))

        @classmethod
        def from_images(cls, noisy):
            return cls(0.3)

        def __repr__(self) -> str:
            return f"Laplace({self.width:g})"

    yield Laplace
    del CHANNELS["laplace"]


def test_a_channel(laplace, tmp_path) -> None:
    _, clean = make_pairs(4)
    noisy = laplace(0.3).sample(clean, seed=1)
    for labels, error in ((clean, 0.03), (None, 1e-12)):
        denoiser = quick("laplace", max_iter=5).fit(noisy, labels)
        assert denoiser.noise_ == pytest.approx(0.3, abs=error)
        assert denoiser.score(noisy, clean) > ((noisy > 0.5) == clean).mean()
        denoiser.save(tmp_path / "model")
        same = ls.load_model(tmp_path / "model")
        assert repr(same.channel_) == repr(denoiser.channel_)
        np.testing.assert_array_equal(same.predict(noisy), denoiser.predict(noisy))
    with pytest.raises(ValueError, match=r"noise must be one of auto, .*, laplace, a rate"):
        quick("cauchy").fit(noisy)


def test_a_channel_without_a_kind_is_not_written(laplace) -> None:
    class Wider(laplace):
        pass

    with pytest.raises(TypeError, match=r"Laplace\(1\) has no kind"):
        Wider(1.0).to_dict()


def test_a_kind_is_taken_once(laplace) -> None:
    with pytest.raises(ValueError, match="kind = 'flips' is taken by Flips"):

        class Mine(ls.Channel, kind="flips"):
            pass

    assert CHANNELS["flips"] is ls.Flips


def test_estimators_name_a_learner_or_channel_only_as_a_default() -> None:
    found = {
        (file.name, node.value)
        for file in Path(ls.estimators.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in {*LEARNERS, *CHANNELS}
    }
    assert found == {
        ("_candidates.py", "exact"),  # the learner that a forest in closed form stands for
        ("_doubts.py", "logistic"),  # the method of inference, not the learner
        ("_noise.py", "flips"),
        ("_noise.py", "gaussian"),
    }


def test_a_learner(monkeypatch) -> None:
    def steep(examples, penalty, *, max_iter=3, **options):
        return logistic(examples, penalty, max_iter=max_iter, **options)

    module = types.ModuleType("steep_learner")
    module.steep = steep
    monkeypatch.setitem(sys.modules, module.__name__, module)
    learner = Learner("steep", module.__name__, partial=False, decode="map", marginals="auto")
    monkeypatch.setitem(LEARNERS, learner.name, learner)
    noisy, clean = make_pairs(3)
    denoiser = quick(0.1, "steep", max_iter=4).fit(noisy, clean)
    assert denoiser.learner_ == "steep" and denoiser.n_iter_ == 4
    by_mode = quick(0.1, "steep", max_iter=4, decode="map").fit(noisy, clean)
    assert by_mode.decode_factor_ == 1.0  # its parameters are made for the mode
    np.testing.assert_array_equal(denoiser.predict(noisy), by_mode.predict(noisy))
    with pytest.raises(ValueError, match="'steep' needs clean images"):
        quick(0.1, "steep").fit(noisy)


def test_what_learners_say_is_so() -> None:
    noisy, clean = make_pairs(2)
    some = np.where(np.arange(16) < 3, np.nan, clean)
    for name, learner in LEARNERS.items():
        assert learner.name == name and "max_iter" in inspect.signature(learner.learn).parameters
        if learner.labels and not learner.partial:
            with pytest.raises(ValueError, match="label"):
                quick(0.1, name).fit(noisy, some)
        elif learner.labels:
            quick(0.1, name, max_iter=2).fit(noisy, some)
        if learner.latent:
            with pytest.raises(ValueError, match=f"{name!r} models the observations"):
                quick(0.1, name, context=1).fit(noisy)


def test_a_command() -> None:
    for name, command in main.commands.items():
        assert isinstance(command, click.Command) and command.name == name
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0
