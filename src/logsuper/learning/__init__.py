"""Learning the parameters of log-supermodular models.

A learner takes `Examples` and a `Penalty` and returns `Learned`; decoders take `Examples` and the
parameters. `logsuper.MaskDenoiser` and `logsuper.LogSupermodularDensity` put all of it behind the
interface of scikit-learn.
"""

# for other rooms
from logsuper.learning._checkpoint import State
from logsuper.learning._contrast import contrast_weights
from logsuper.learning._costs import check_cost as check_cost
from logsuper.learning._decoding import METHODS as METHODS
from logsuper.learning._decoding import SAMPLES as SAMPLES
from logsuper.learning._decoding import best_factor, means, modes, samples
from logsuper.learning._decoding import make_function as make_function
from logsuper.learning._decoding import make_model as make_model
from logsuper.learning._descent import descend, logistic
from logsuper.learning._engines import Engine, Exact, FixedNoise, FreshNoise, Strips
from logsuper.learning._evidence import bracket_log_evidence, log_evidence
from logsuper.learning._exact import exact
from logsuper.learning._examples import Examples
from logsuper.learning._features import Context
from logsuper.learning._features import Judge as Judge
from logsuper.learning._frank_wolfe import saa
from logsuper.learning._latent import latent
from logsuper.learning._layers import (
    PerturbedLoss,
    PerturbedMeans,
    TotalVariation,
    perturbed_loss,
    perturbed_means,
    total_variation,
)
from logsuper.learning._layout import Layout, Parameters
from logsuper.learning._lazy_images import BINARY as BINARY
from logsuper.learning._lazy_images import LazyImages as LazyImages
from logsuper.learning._lazy_images import count_images as count_images
from logsuper.learning._lazy_images import is_lazy as is_lazy
from logsuper.learning._lazy_images import shapes_of as shapes_of
from logsuper.learning._learned import Callback as Callback
from logsuper.learning._learned import Learned, Record
from logsuper.learning._learned import Pulse as Pulse
from logsuper.learning._learners import LEARNERS, Learner, choose_exact, choose_learner
from logsuper.learning._lfield import lfield
from logsuper.learning._light import Place
from logsuper.learning._make_examples import join_examples as join_examples
from logsuper.learning._make_examples import make_examples
from logsuper.learning._marginal import marginal
from logsuper.learning._max_margin import max_margin
from logsuper.learning._moment_targets import moment_targets
from logsuper.learning._moments import HEAVY as HEAVY
from logsuper.learning._moments import heaviest as heaviest
from logsuper.learning._moments import moments
from logsuper.learning._noise_level import CLUMPED as CLUMPED
from logsuper.learning._noise_level import estimate_noise
from logsuper.learning._noise_level import find_rate as find_rate
from logsuper.learning._noise_level import find_rate_errors as find_rate_errors
from logsuper.learning._objective import Loss, Objective, Penalty
from logsuper.learning._pseudo import pseudo
from logsuper.learning._resample import resample
from logsuper.learning._residuals import Residuals, examine_residuals, neighbour_correlation
from logsuper.learning._score import PART as PART
from logsuper.learning._score import Score, score
from logsuper.learning._score import check_temperature as check_temperature
from logsuper.learning._score import score_labels as score_labels
from logsuper.learning._selection import Selection, cross_validate, path
from logsuper.learning._smooth import minimize
from logsuper.learning._stochastic import Descent, make_steps
from logsuper.learning._team import count_workers as count_workers
from logsuper.learning._temperature import best_temperature, soften

__all__ = [
    "LEARNERS",
    "Context",
    "Descent",
    "Engine",
    "Exact",
    "Examples",
    "FixedNoise",
    "FreshNoise",
    "Layout",
    "Learned",
    "Learner",
    "Loss",
    "Objective",
    "Parameters",
    "Penalty",
    "PerturbedLoss",
    "PerturbedMeans",
    "Place",
    "Record",
    "Residuals",
    "Score",
    "Selection",
    "State",
    "Strips",
    "TotalVariation",
    "best_factor",
    "best_temperature",
    "bracket_log_evidence",
    "choose_exact",
    "choose_learner",
    "contrast_weights",
    "cross_validate",
    "descend",
    "estimate_noise",
    "exact",
    "examine_residuals",
    "latent",
    "lfield",
    "log_evidence",
    "logistic",
    "make_examples",
    "make_steps",
    "marginal",
    "max_margin",
    "means",
    "minimize",
    "modes",
    "moment_targets",
    "moments",
    "neighbour_correlation",
    "path",
    "perturbed_loss",
    "perturbed_means",
    "pseudo",
    "resample",
    "saa",
    "samples",
    "score",
    "soften",
    "total_variation",
]
