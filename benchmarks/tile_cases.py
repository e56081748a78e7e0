"""Random problems on which tiles must equal the whole: `python -m benchmarks.tile_cases`.

Prints how many of 260 cases have the same bits, and what each kind costs; then 300 small cases of
white noise, most of which leave pixels open on both sides of a seam, also with a budget. A number
of cases runs so many of the first sort alone, ``--attack N`` so many of the second.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

import logsuper as ls

ADVERSARIAL = ("no fields", "strong coupling", "one corner")
KINDS = (
    "silhouette", "contrast", "sizes", "ties", "holes", "volume", "eight", "modular", "huge",
    "chain", "white noise", "fixed", *ADVERSARIAL,
)  # fmt: skip
COUNT = 260


class Case(NamedTuple):
    """A problem, and how it is cut into tiles."""

    kind: str
    f: ls.SubmodularFunction
    theta: Any
    edge_weights: list[Any] | None
    block: int
    halo: int
    tie: str | None
    model: Any = None
    """A model with fixed pixels, for which f and theta are those of its free ones."""

    def whole(self) -> Any:
        """Solve it at once."""
        if self.model is not None:
            y = np.zeros(self.theta.size, dtype=np.uint8)
            free, fixed = self.model.free, self.model.fixed
            y[free] = ls.maximize(self.f, self.theta.ravel()[free], tie=self.tie).y
            y[list(fixed)] = list(fixed.values())
            return y.reshape(self.theta.shape)
        factors = self.edge_weights and np.concatenate([w.ravel() for w in self.edge_weights])
        y = (
            ls.prepare([self.f])
            .maximize(self.theta.ravel(), [1.0], edge_weights=factors, tie=self.tie)
            .y
        )
        return y.reshape(self.theta.shape)

    def tiles(self, **options: Any) -> Any:
        """Solve it by tiles."""
        f = self.f if self.model is None else self.model
        return ls.maximize_tiles(
            f, self.theta, edge_weights=self.edge_weights, tie=self.tie, block=self.block,
            halo=self.halo, **options,
        )  # fmt: skip


def make_case(number: int) -> Case:
    """Return the case of a number: the kinds in turn, everything else at random."""
    rng = np.random.default_rng([16, number])
    kind = KINDS[number % len(KINDS)]
    if kind == "white noise":
        return white_noise(rng)
    deep = kind == "volume" or (kind in ("ties", "contrast", "holes") and rng.random() < 0.2)
    shape = tuple(rng.integers(5, 14, 3)) if deep else tuple(rng.integers(3, 70, 2))
    if kind == "chain":
        shape = (
            (int(rng.integers(5, 300)),) if rng.random() < 0.5 else (int(rng.integers(5, 90)), 1)
        )
    shape = tuple(int(size) for size in shape)
    neighbors = None
    if kind == "eight" or rng.random() < 0.15:
        neighbors = {1: None, 2: 8, 3: int(rng.choice([18, 26]))}[len(shape)]
    cuts = ls.grid_cuts(shape, neighbors)
    strength = float(10 ** rng.uniform(np.log10(0.2), 1.0))
    alpha = strength * rng.uniform(0.5, 1.5, len(cuts))
    if kind in ("ties", "no fields"):
        alpha = np.full(len(cuts), float(rng.integers(1, 4)))
    theta = _fields(kind, shape, rng)
    f = ls.Sum(list(zip(alpha.tolist(), cuts, strict=True)))
    if kind == "modular":
        f = ls.Sum([*f.terms(), (0.7, ls.Modular(rng.normal(size=theta.size)))])
    weights = None
    if kind in ("contrast", "sizes", "huge") or (kind == "holes" and rng.random() < 0.5):
        weights = [_weights(kind, _edge_shape(cut), rng) for cut in cuts]
    tie = [None, None, "min", "max"][rng.integers(4)]
    block = int(rng.integers(2, 9) if deep else rng.integers(3, 25))
    case = Case(kind, f, theta, weights, block, int(rng.integers(0, 6)), tie)
    if kind != "fixed":
        return case
    places = rng.choice(f.n, max(1, f.n // int(rng.integers(3, 40))), replace=False)
    values = rng.integers(0, 2, len(places)).tolist()
    model = ls.LogSupermodular(f).condition(dict(zip(places.tolist(), values, strict=True)))
    return case._replace(f=model.f, model=model)


def white_noise(rng: np.random.Generator) -> Case:
    """Return a case with moderate coupling and a small halo, so that open pixels meet at seams."""
    deep = rng.random() < 0.2
    sides = rng.integers(3, 9, 3) if deep else rng.integers(6, 34, 2)
    shape = tuple(int(size) for size in sides)
    neighbors = int(rng.choice([6, 18, 26] if deep else [4, 8]))
    cuts = ls.grid_cuts(shape, neighbors)
    alpha = rng.uniform(0.2, 1.2, len(cuts)) * (4 / neighbors if rng.random() < 0.5 else 1.0)
    theta = rng.normal(size=shape)
    if rng.random() < 0.2:
        theta, alpha = np.rint(2.0 * theta) / 2.0, np.rint(4.0 * alpha) / 4.0 + 0.25  # ties
    weights = None
    if rng.random() < 0.2:
        weights = [rng.exponential(size=_edge_shape(cut)) for cut in cuts]
    block = int(rng.integers(2, 6) if deep else rng.integers(3, 13))
    tie = [None, None, "min", "max"][rng.integers(4)]
    f = ls.Sum(list(zip(alpha.tolist(), cuts, strict=True)))
    return Case("white noise", f, theta, weights, block, int(rng.integers(0, 5)), tie)


def attack(count: int) -> int:
    """Compare white noise, whole and by tiles; also with a budget. Return how many are wrong."""
    wrong = seams = 0
    for number in range(count):
        rng = np.random.default_rng([17, number])
        case = white_noise(rng)
        right, found = case.whole(), case.tiles()
        partly = case.tiles(budget=float(rng.integers(0, case.theta.size)))
        proven = np.ones(right.size, dtype=bool)
        proven[partly.open] = False
        same = found.proven and np.array_equal(found.y, right)
        same &= bool((partly.y.ravel() == right.ravel())[proven].all())
        wrong += not same
        seams += found.reopened > 0
        if not same:
            print(f"attack {number} differs")
    print(f"{count - wrong} of {count} cases of white noise are equal; {seams} left pixels open")
    return wrong


def _edge_shape(cut: Any) -> tuple[int, ...]:
    return tuple(size - abs(o) for size, o in zip(cut.shape, cut.offset, strict=True))


def _fields(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if kind == "no fields":
        return np.zeros(shape)
    if kind == "one corner":
        theta = np.zeros(shape)
        theta[tuple(slice(0, 3) for _ in shape)] = rng.normal(scale=3.0)
        theta[tuple(slice(-2, None) for _ in shape)] = rng.normal(scale=3.0)
        return theta
    if kind == "ties":
        return rng.integers(-2, 3, shape).astype(float)
    if kind == "strong coupling":
        return 0.2 * rng.normal(size=shape)
    theta = rng.normal(size=shape) + rng.normal()
    if len(shape) == 2 and min(shape) >= 16 and kind != "huge":
        image = ls.make_silhouettes(1, shape=shape, seed=int(rng.integers(1 << 30)))[0]
        theta = 2.2 * (2.0 * (image ^ (rng.random(shape) < 0.1)) - 1.0)
    if kind == "holes":
        theta[rng.random(shape) < 0.2] = -np.inf
        theta[rng.random(shape) < 0.1] = np.inf
        theta[rng.random(shape) < 0.2] = 0.0
    if kind == "huge" and rng.random() < 0.5:
        theta *= 1e-9
        theta[rng.random(shape) < 0.1] = rng.choice([-np.inf, np.inf])
    return theta


def _weights(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    weights = np.exp(-(rng.normal(size=shape) ** 2))
    if kind == "holes":
        weights[rng.random(shape) < 0.4] = 0.0
    if kind in ("sizes", "huge"):
        # weights of very different size in different parts of the image
        steps = np.linspace(0, 1, max(shape[0], 1))[:, None] > 0.5
        power = float(rng.uniform(2, 5 if kind == "sizes" else 14))
        weights *= np.where(steps.reshape(-1, *(1,) * (len(shape) - 1)), 10.0**power, 1.0)
    return weights


def main(count: int = COUNT) -> int:
    """Compare cases; return how many differ."""
    wrong = 0
    costs: dict[str, list[tuple[float, float]]] = {}
    rounding: dict[str, int] = {}
    for number in range(count):
        case = make_case(number)
        found = case.tiles()
        same = found.proven and np.array_equal(found.y, case.whole())
        wrong += not same
        if not same:
            print(f"case {number} ({case.kind}, tie {case.tie}) differs")
        n = case.theta.size
        costs.setdefault(case.kind, []).append((found.reopened / n, found.solved / n))
        rounding[found.integers] = rounding.get(found.integers, 0) + 1
    print(f"{count - wrong} of {count} cases: tiles equal the whole, bit for bit")
    print("integers:", ", ".join(f"{name} {n}" for name, n in sorted(rounding.items())))
    print(f"{'kind':16}  open after the first round  pixels solved, per pixel")
    for kind, numbers in costs.items():
        share, cost = np.mean(numbers, axis=0)
        print(f"{kind:16}  {100 * share:24.1f} %  {cost:24.1f}")
    return wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attack"]:
        sys.exit(attack(int(sys.argv[2])) > 0)
    wrong = main(int(sys.argv[1])) if len(sys.argv) > 1 else main() + attack(300)
    sys.exit(wrong > 0)
