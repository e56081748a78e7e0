"""The mode *clean*: a noisy mask or grey image, a model with weights, and its posterior."""

from __future__ import annotations

import copy
import dataclasses
import io
import threading
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logsuper._base import FloatArray
from logsuper.bounds import Bracket, Marginals, TooLarge
from logsuper.channels import Channel, Flips
from logsuper.datasets import corrupt, make_silhouettes
from logsuper.estimators import MaskDenoiser
from logsuper.functions import Modular, grid_cuts
from logsuper.model import LogSupermodular
from logsuper.sampling import NotCoalesced
from logsuper.studio._desk import Check
from logsuper.studio._limits import Refusal
from logsuper.studio._sources import Source, as_observed, encode_png

__all__ = ["Cleaning", "Weights", "describe"]

# Silhouettes to learn from; none of them is shown.
_TRAIN, _TRAIN_SEED = 8, 100
_NOISE_SEED = 0
# Columns per window of marginals: while a slider moves, and then.
_QUICK, _BEST = 5, 10
# Operations for the bracket on log Z, and for samples, of about a nanosecond each.
_BRACKET, _SAMPLING = 1e9, 2e10
SAMPLES = 16
"""Exact samples that are drawn at a time."""

# Warnings are caught for the whole process, by one thread at a time.
_LISTENING = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Weights:
    """The numbers that the sliders show.

    Attributes
    ----------
    horizontal, vertical : float
        Weights of the cuts between neighbours.
    bias : float
        Added to the log-odds of each pixel.
    """

    horizontal: float = 1.0
    vertical: float = 1.0
    bias: float = 0.0


class Cleaning:
    """One noisy image and its model.

    Attributes
    ----------
    observed : ndarray of shape (H, W)
        0 and 1, or grey levels from 0 to 1.
    binary : bool
    rate : float
        Share of flipped pixels: of noise that is added to an image that ships, else as it is stated
        or learned.
    weights : Weights
    origin : {"silhouettes", "image", "hand"}
        Where they come from.
    """

    def __init__(self, source: Source) -> None:
        if source.colored:
            raise Refusal("clean is for masks and grey images; this one has colours: segment it")
        self.source = source
        self._pixels, self.binary, self._code = as_observed(source.pixels)
        self.observed = self._pixels
        self.rate = 0.1
        self.channel: Channel = Flips(self.rate)
        self.weights = Weights()
        self.origin = "hand"
        self.notes: list[str] = []
        self._denoiser: MaskDenoiser | None = None
        self.marginals: Marginals | None = None
        self.bracket: Bracket | None = None
        if source.truth is not None:
            self.set_noise(self.rate)

    def set_noise(self, rate: float) -> None:
        """Add this share of flips to an image that ships, or state that of another image."""
        if not self.binary:
            raise Refusal("the noise of grey images is learned from them")
        self.rate, self.channel = rate, Flips(rate)
        if self.source.truth is not None:
            self.observed = Flips(rate).sample(self._pixels, seed=_NOISE_SEED)

    # ------------------------------------------------------------------------------------ the work

    def learn(self, origin: str, rate: float | None, check: Check) -> None:
        """Learn the weights from silhouettes with this noise, or from the image itself.

        Parameters
        ----------
        origin : {"silhouettes", "image"}
        rate : float or None
            The share of flips, None if it is not known.
        check : callable
        """
        if origin == "silhouettes":
            if not self.binary:
                raise Refusal("silhouettes are masks; learn from this grey image itself")
            clean = make_silhouettes(_TRAIN, (120, 160), _TRAIN_SEED)
            noisy: Any = corrupt(clean, Flips(self.rate), seed=_NOISE_SEED)
            noise: Any = self.rate
        else:
            noisy, noise = [self.observed], "auto" if rate is None else rate
        denoiser = make_denoiser(noise).set_params(callback=lambda record: check())
        with _LISTENING, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            denoiser.fit(noisy)
        check()
        self.notes = [str(warning.message).split("; ")[0] for warning in caught][:1]
        self._denoiser, self.channel, self.origin = denoiser, denoiser.channel_, origin
        if self.binary:
            self.rate = float(denoiser.noise_)
        horizontal, vertical = (float(weight) for weight in denoiser.alpha_)
        self.weights = Weights(horizontal, vertical, float(denoiser.modular_))

    def set_weights(self, weights: Weights) -> None:
        """Use weights that were set by hand."""
        self.weights, self.origin = weights, "hand"

    def posterior(self) -> LogSupermodular:
        """Return the distribution of clean masks given what was observed."""
        across, down = grid_cuts(self.source.shape)
        weights = self.weights
        bias = Modular(np.full(across.n, weights.bias))
        f = weights.horizontal * across + weights.vertical * down - bias
        prior = LogSupermodular(f, shape=self.source.shape)
        return prior.observe(self.channel, self.observed)

    def infer(self, check: Check, window: int = _BEST) -> Marginals:
        """Return the probability of each pixel, with certified bounds."""
        self.marginals = None
        found = self.posterior().marginals(**self._method(window))
        check()
        self.marginals = found
        return found

    def _method(self, window: int = _BEST) -> dict[str, Any]:
        """Return how marginals are found; without weights, pixels are independent."""
        if self.weights.horizontal == self.weights.vertical == 0.0:
            return {"method": "exact"}
        return {"method": "strips", "window": window}

    def quick(self, check: Check) -> Marginals:
        """Return the same with narrow windows, while a slider moves."""
        return self.infer(check, _QUICK)

    def bound(self, check: Check) -> Bracket:
        """Return certified bounds on log Z."""
        self.bracket = self.posterior().bracket(_BRACKET)
        check()
        return self.bracket

    def sample(self, seed: int, check: Check) -> NDArray[np.uint8]:
        """Return exact samples of the posterior."""
        try:
            return self.posterior().sample(
                SAMPLES, seed=seed, budget=_SAMPLING, callback=lambda progress: check()
            )
        except (NotCoalesced, TooLarge):
            raise Refusal(
                "exact samples take too long at these weights; lower them, or state less noise"
            ) from None

    def doubt(self, found: Marginals) -> FloatArray:
        """Return the certified largest probability that each pixel of the mask is wrong."""
        assert found.lower is not None and found.upper is not None
        return np.where(found.values > 0.5, 1.0 - found.lower, found.upper)

    # ------------------------------------------------------------------------------------ exports

    def export(self, kind: str, check: Check) -> bytes:
        """Return a file: its bytes by its name."""
        if kind == "code.py":
            return self.code().encode()
        if kind == "model.npz":
            return self._model()
        if kind == "scribbles.png":
            raise Refusal("there are no scribbles in the mode clean", 404)
        p = self.infer(check).values
        images: dict[str, Any] = {
            "mask.png": np.where(p > 0.5, 255, 0).astype(np.uint8),
            "probability.png": np.round(65535.0 * p).astype(np.uint16),
        }
        return encode_png(self.source.enlarge(images[kind]))

    def _model(self) -> bytes:
        """Return a denoiser with these weights, as a file."""
        if self._denoiser is None:
            raise Refusal("learn a model first: it has the noise and the design of the file", 409)
        saved = copy.copy(self._denoiser)
        weights = self.weights
        saved.parameters_ = dataclasses.replace(
            saved.parameters_,
            alpha=np.array([weights.horizontal, weights.vertical]),
            modular=np.array([weights.bias]),
        )
        saved.channel_ = self.channel
        file = io.BytesIO()
        saved.save(file)
        return file.getvalue()

    def code(self) -> str:
        """Return a program that makes the same mask."""
        weights = self.weights
        method = ", ".join(f"{name}={value!r}" for name, value in self._method().items())
        observed = [f"observed = {self._code}"]
        if self.source.truth is not None:
            observed = [f"observed = ls.Flips({self.rate!r}).sample(image, seed={_NOISE_SEED})"]
        lines = [
            '"""Made by logsuper studio: clean a noisy mask, with certified probabilities."""',
            "",
            "import numpy as np",
            "",
            "import logsuper as ls",
            "from logsuper.io import read_image, write_image",
            "",
            *self.source.code,
            *observed,
            "",
            f"shape = {self.source.shape}",
            "across, down = ls.grid_cuts(shape)",
            f"f = {weights.horizontal!r} * across + {weights.vertical!r} * down",
            f"f = f - ls.Modular(np.full(across.n, {weights.bias!r}))",
            "prior = ls.LogSupermodular(f, shape=shape)",
            f"posterior = prior.observe({_written(self.channel)}, observed)",
            "",
            f"found = posterior.marginals({method})  # found.lower, found.upper",
            "probability = found.values",
            "mask = probability > 0.5",
            f"print(posterior.bracket({_BRACKET:g}))",
            "samples = posterior.sample(4, seed=0)  # what it could also be",
            *self.source.code_of_results,
        ]
        return "\n".join(lines) + "\n"


def make_denoiser(noise: Any) -> MaskDenoiser:
    """Return a denoiser whose model is a prior on masks and a channel, nothing else."""
    return MaskDenoiser(noise, modular="shared", context=0, scale=False, marginals="exact")


def _written(channel: Channel) -> str:
    """Return the expression that makes a channel."""
    if isinstance(channel, Flips):
        return f"ls.Flips({float(channel.noise)!r})"
    mean, scale = (tuple(map(float, getattr(channel, name))) for name in ("mean", "scale"))
    return f"ls.Gaussian({mean!r}, {scale!r})"


def describe(channel: Channel) -> str:
    """Return the noise in words."""
    if isinstance(channel, Flips):
        return f"{100.0 * float(channel.noise):.3g} % of the pixels are flipped"
    (low, high), (a, b) = channel.mean, channel.scale  # type: ignore[attr-defined]
    return f"Black is {low:.2f} ± {a:.2f}, white {high:.2f} ± {b:.2f}, of grey levels from 0 to 1"
