"""A network trained through cuts: `python -m benchmarks.torch_horses --data DIR`.

A small convolutional network judges each pixel of a photograph of a horse. It is trained on the
first 100 photographs, once with cross-entropy, once through the perturbed loss of cuts whose edges
have contrast-sensitive weights, learned with it; with the same architecture, first weights, order
of the photographs, optimiser and number of epochs. Both are tested on the last 100. Nothing is
chosen on either. Needs the extra: ``pip install 'logsuper[torch]'``.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit

import logsuper as ls
from benchmarks.crf import TRAIN, calibration_error, judge, load
from benchmarks.tables import show, write_page
from logsuper.learning import contrast_weights
from logsuper.report import Table
from logsuper.torch import perturbed_loss

SHAPE = (32, 40)
SCALES = (0.3, 1.0, 3.0)
NEIGHBORS = 8
EPOCHS, BATCH, RATE = 40, 10, 3e-3
# Perturbations per photograph: of a step, and behind a probability.
SAMPLES, MANY = 8, 64
CHANNELS, DILATIONS = 16, (1, 2, 4, 8)


def make_network(seed: int) -> torch.nn.Module:
    """Return a network from colour and place to one number per pixel."""
    torch.manual_seed(seed)
    layers: list[torch.nn.Module] = []
    width = 5
    for d in DILATIONS:
        layers += [torch.nn.Conv2d(width, CHANNELS, 3, padding=d, dilation=d), torch.nn.ReLU()]
        width = CHANNELS
    return torch.nn.Sequential(*layers, torch.nn.Conv2d(width, 1, 1))


def make_inputs(photographs: list[Any]) -> torch.Tensor:
    """Return colours and places, (N, 5, H, W)."""
    colours = 2.0 * np.stack(photographs).transpose(0, 3, 1, 2) - 1.0
    steps = [np.linspace(-1.0, 1.0, side) for side in SHAPE]
    places = np.broadcast_to(np.meshgrid(*steps, indexing="ij"), (len(colours), 2, *SHAPE))
    return torch.tensor(np.concatenate([colours, places], axis=1), dtype=torch.float32)


class Model:
    """The network, and the weights of contrast at each scale."""

    def __init__(self, seed: int) -> None:
        self.network = make_network(seed)
        self.raw = torch.full((len(SCALES),), -1.0, requires_grad=True)

    def theta(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return one field per photograph, (N, H, W)."""
        return self.network(inputs)[:, 0]

    def weights(self, contrast: torch.Tensor) -> torch.Tensor:
        """Return the weights of the edges, (N, E), from contrasts (N, S, E)."""
        return torch.einsum("s,nse->ne", torch.nn.functional.softplus(self.raw), contrast)


def train(kind: str, inputs: Any, contrast: Any, masks: Any, seed: int) -> Model:
    """Return a trained model."""
    model = Model(seed)
    parameters = [*model.network.parameters(), model.raw]
    optimiser = torch.optim.Adam(parameters, lr=RATE)
    steps = EPOCHS * (len(inputs) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    rng = np.random.default_rng(seed)
    step = 0
    for _ in range(EPOCHS):
        for rows in np.split(rng.permutation(len(inputs)), len(inputs) // BATCH):
            theta = model.theta(inputs[rows])
            if kind == "cross-entropy":
                loss = torch.nn.functional.binary_cross_entropy_with_logits(theta, masks[rows])
            else:
                weights = model.weights(contrast[rows])
                options = {"shape": SHAPE, "neighbors": NEIGHBORS, "n_samples": SAMPLES}
                losses = perturbed_loss(theta, weights, masks[rows], seed=step, **options)
                loss = losses.mean() / masks[0].numel()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            step += 1
    return model


def decode(kind: str, model: Model, inputs: Any, contrast: Any) -> tuple[list[Any], list[Any]]:
    """Return probabilities and decisions: of each pixel alone, or by cuts."""
    with torch.no_grad():
        theta = model.theta(inputs).double().numpy()
        weights = model.weights(contrast).double().numpy()
    if kind == "cross-entropy":
        return list(expit(theta)), list(theta > 0)
    cuts = ls.prepare(ls.grid_cuts(SHAPE, NEIGHBORS))
    flat, ones = theta.reshape(len(theta), -1), np.ones(len(cuts.functions))
    p = cuts.conditional_means(flat, ones, MANY, 0, edge_weights=weights).reshape(theta.shape)
    if kind == "most probable mask":
        y = cuts.maximize(flat, ones, edge_weights=weights)[0].reshape(theta.shape)
        return list(p), list(y)
    return list(p), list(p > 0.5)


def check_gradients() -> str:
    """Compare the gradients of the loss with differences; return a line that says so, or raise."""
    rng = np.random.default_rng(0)
    shape = (3, 4)
    edges = ls.prepare(ls.grid_cuts(shape, NEIGHBORS)).edges
    theta = torch.tensor(rng.normal(scale=2.0, size=(2, *shape)), requires_grad=True)
    weights = torch.tensor(rng.uniform(0.2, 1.0, size=(2, len(edges))), requires_grad=True)
    y = torch.tensor(rng.integers(0, 2, (2, *shape)).astype(float))

    def loss(theta: Any, weights: Any) -> Any:
        options = {"shape": shape, "neighbors": NEIGHBORS, "n_samples": 4, "seed": 0}
        return perturbed_loss(theta, weights, y, **options)

    # the loss is piecewise linear: steps are small enough that none crosses a kink
    torch.autograd.gradcheck(loss, (theta, weights), eps=1e-6, atol=1e-4)
    return "Before training, torch.autograd.gradcheck has passed for the loss through cuts."


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_horses", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with weizmann_horse_db")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--markdown", type=Path)
    given = sys.argv[1:] if arguments is None else arguments
    args = parser.parse_args(given)
    torch.set_num_threads(1)
    checked = check_gradients()
    print(checked, flush=True)
    photographs, masks = load(args.data / "weizmann_horse_db", SHAPE)
    edges = ls.prepare(ls.grid_cuts(SHAPE, NEIGHBORS)).edges
    flat = [photograph.reshape(-1, 3) for photograph in photographs]
    contrast = torch.tensor(
        np.stack([contrast_weights(own, edges, SCALES) for own in flat]), dtype=torch.float32
    )
    inputs, labels = make_inputs(photographs), torch.tensor(np.stack(masks), dtype=torch.float32)
    truth = masks[TRAIN:]
    found: dict[str, list[list[float]]] = {}
    for seed in range(args.seeds):
        for kind in ("cross-entropy", "perturbed loss"):
            begun = time.process_time()
            model = train(kind, inputs[:TRAIN], contrast[:TRAIN], labels[:TRAIN], seed)
            seconds = time.process_time() - begun
            ways = {kind: kind}
            if kind != "cross-entropy":
                ways["perturbed loss, most probable mask"] = "most probable mask"
            for name, way in ways.items():
                p, x = decode(way, model, inputs[TRAIN:], contrast[TRAIN:])
                scores = judge(p, x, truth).mean(axis=0)
                found.setdefault(name, []).append([*scores, calibration_error(p, truth), seconds])
            print(seed, kind, np.round(scores, 4), f"{seconds:.0f} s of CPU", flush=True)
            if kind != "cross-entropy":
                alpha = torch.nn.functional.softplus(model.raw).detach().numpy()
                print(f"  weights of the scales {alpha.round(2)}", flush=True)
    rows = []
    for name, runs in found.items():
        mean = np.mean(runs, axis=0)
        error = np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0 * mean
        cells = [
            f"{m:.{digits}f} ± {e:.{digits}f}"
            for m, e, digits in zip(mean[:4], error, (2, 3, 4, 2), strict=False)
        ]
        if "most probable" in name:
            cells[2:] = ["", ""]
        rows.append([name, *cells, f"{mean[4]:.0f}"])
    head = ["trained with", "error (%)", "IoU", "log loss", "calibration error (%)", "CPU s"]
    title = (
        f"One network, {SHAPE[0]}x{SHAPE[1]} pixels, {EPOCHS} epochs, 100 test photographs: mean "
        f"and standard error over {args.seeds} first weights"
    )
    table = Table(title, head, rows)
    show([table])
    if args.markdown is not None:
        write_page(
            args.markdown,
            "A network trained through cuts",
            "benchmarks.torch_horses",
            given,
            "The same small convolutional network, from the same first weights, with cross-entropy "
            "and through `logsuper.torch.perturbed_loss`, whose edges have contrast-sensitive "
            "weights that are learned with it. Probabilities of the latter are those of perturbed "
            "cuts, without calibration. Nothing is chosen on any photograph. See "
            f"[crf.md](crf.md) for a field behind a network that is trained already. {checked}",
            [table],
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
