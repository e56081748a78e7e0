"""The problems that are timed: graphs and fields, made from fixed seeds.

Edges and weights are built here independently of `logsuper`: the energies of ours and of the peers
are recomputed from these arrays, so that a wrong edge in the library shows as a wrong energy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[np.uint8]
Offsets = Sequence[tuple[int, ...]]

FLIPS = 0.1
"""Probability of a flipped pixel in the observed silhouettes."""


@dataclass(frozen=True)
class Graph:
    """Nodes and undirected edges with weights (E,), or (M, E) with one row per problem."""

    n: int
    edges: Ints
    weights: Floats

    def row(self, k: int) -> Graph:
        """Return the graph of problem k, if each problem has its own weights."""
        return Graph(self.n, self.edges, self.weights[k]) if self.weights.ndim == 2 else self

    def energies(self, theta: Floats, y: Labels) -> Floats:
        """Return theta'y - f(y) of each row, in float64 and from the original theta."""
        out = np.empty(len(theta))
        i, j = self.edges[:, 0], self.edges[:, 1]
        for k, (field_, labels) in enumerate(zip(theta, y, strict=True)):
            out[k] = field_ @ labels - self.row(k).weights @ (labels[i] != labels[j])
        return out


@dataclass(frozen=True)
class Workload:
    """A graph, a batch of fields, and the same problem in terms of the library.

    `functions` builds the library's functions on demand, `alpha` holds their weights, and
    `edge_weights` says whether the weights of the graph are given to `Prepared.maximize`.
    """

    name: str
    title: str
    graph: Graph
    theta: Floats
    functions: Callable[[], list[Any]]
    alpha: Floats
    peers: tuple[str, ...]
    floor: float | None = None
    target: bool = False
    edge_weights: bool = False


ALL_PEERS = ("PyMaxflow", "PyMaxflow reuse", "OR-Tools", "OR-Tools reuse", "scipy")


def grid_edges(shape: tuple[int, ...], offsets: Offsets) -> list[Ints]:
    """Return for each offset the edges (p, p + offset) of a grid, row-major."""
    ids = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    groups = []
    for offset in offsets:
        near = tuple(
            slice(max(0, -o), size - max(0, o)) for o, size in zip(offset, shape, strict=True)
        )
        far = tuple(
            slice(max(0, o), size - max(0, -o)) for o, size in zip(offset, shape, strict=True)
        )
        groups.append(np.stack([ids[near].ravel(), ids[far].ravel()], axis=1))
    return groups


def grid_graph(shape: tuple[int, ...], offsets: Offsets, alpha: Floats) -> Graph:
    """Return the grid whose edges along `offsets[k]` have weight `alpha[k]`."""
    groups = grid_edges(shape, offsets)
    weights = np.concatenate([np.full(len(g), a) for g, a in zip(groups, alpha, strict=True)])
    return Graph(int(np.prod(shape)), np.concatenate(groups), weights)


def blobs(count: int, shape: tuple[int, ...], rng: np.random.Generator) -> Labels:
    """Draw unions of ellipsoids in any dimension."""
    axes = np.meshgrid(
        *[(np.arange(size) + 0.5) / size for size in shape], indexing="ij", sparse=True
    )
    images = np.zeros((count, *shape), dtype=np.uint8)
    for image in images:
        for _ in range(6):
            centre = rng.uniform(0.25, 0.75, size=len(shape))
            radii = rng.uniform(0.06, 0.25, size=len(shape))
            image |= (
                sum(((a - c) / r) ** 2 for a, c, r in zip(axes, centre, radii, strict=True)) <= 1.0
            )
    return images


def silhouettes(count: int, shape: tuple[int, ...], rng: np.random.Generator) -> Labels:
    """Draw silhouettes: the library's animals for images, ellipsoids for volumes."""
    if len(shape) == 2:
        try:
            from logsuper.datasets import make_silhouettes
        except ImportError:
            return blobs(count, shape, rng)
        images: Labels = make_silhouettes(count, shape=(shape[0], shape[1]), seed=rng)
        return images
    return blobs(count, shape, rng)


def posterior_fields(images: Labels, count: int, rng: np.random.Generator) -> Floats:
    """Return the log-odds of `count` noisy observations: u (1 - 2 observed), u = logit(FLIPS)."""
    clean = images[np.arange(count) % len(images)].reshape(count, -1)
    observed = clean ^ (rng.random(clean.shape) < FLIPS)
    return np.asarray(np.log(FLIPS / (1.0 - FLIPS)) * (1.0 - 2.0 * observed), dtype=np.float64)


def perturbed_fields(shape: tuple[int, ...], count: int, seed: int, animals: int = 50) -> Floats:
    """Return theta = u (1 - 2 observed) + logistic noise, shape (count, pixels)."""
    rng = np.random.default_rng(seed)
    images = silhouettes(min(animals, count), shape, rng)
    theta = posterior_fields(images, count, rng)
    theta += rng.logistic(size=theta.shape)
    return theta


OFFSETS_4 = [(0, 1), (1, 0)]
OFFSETS_8 = [*OFFSETS_4, (1, 1), (1, -1)]
OFFSETS_6 = [(0, 0, 1), (0, 1, 0), (1, 0, 0)]


def _grid_functions(
    shape: tuple[int, ...], neighbors: int | None = None
) -> Callable[[], list[Any]]:
    def build() -> list[Any]:
        import logsuper as ls

        return list(ls.grid_cuts(shape, neighbors=neighbors))

    return build


def _cut_function(graph: Graph) -> Callable[[], list[Any]]:
    def build() -> list[Any]:
        import logsuper as ls

        return [ls.Cut(graph.n, graph.edges, graph.weights)]

    return build


def _grid_workload(
    name: str,
    title: str,
    size: int,
    count: int,
    a: float,
    floor: float | None,
    peers: tuple[str, ...],
) -> Workload:
    shape, alpha = (size, size), np.array([a, a])
    return Workload(
        name=name,
        title=title,
        graph=grid_graph(shape, OFFSETS_4, alpha),
        theta=perturbed_fields(shape, count, seed=1),
        functions=_grid_functions(shape),
        alpha=alpha,
        peers=peers,
        floor=floor,
    )


def _w1(a: float, floor: float | None) -> Callable[[bool], Workload]:
    def make(quick: bool) -> Workload:
        title = f"W1: 50x50 grid, a = {a:g}"
        return _grid_workload(f"w1-{a:g}", title, 50, 200 if quick else 1000, a, floor, ALL_PEERS)

    return make


def _w2(a: float, floor: float | None) -> Callable[[bool], Workload]:
    def make(quick: bool) -> Workload:
        title = f"W2: 512x512 grid, a = {a:g}"
        return _grid_workload(f"w2-{a:g}", title, 512, 2 if quick else 8, a, floor, ALL_PEERS)

    return make


def _w3(quick: bool) -> Workload:
    rng = np.random.default_rng(3)
    n = 100
    points = rng.normal(size=(n, 2))
    points[: n // 2, 0] -= 2.0
    points[n // 2 :, 0] += 2.0
    i, j = np.triu_indices(n, 1)
    graph = Graph(
        n, np.stack([i, j], axis=1), np.exp(-np.linalg.norm(points[i] - points[j], axis=1))
    )
    return Workload(
        name="w3",
        title="W3: complete graph, 100 nodes",
        graph=graph,
        theta=rng.logistic(size=(200 if quick else 1000, n)),
        functions=_cut_function(graph),
        alpha=np.ones(1),
        peers=ALL_PEERS,
        floor=40.0,
    )


def _eight(quick: bool) -> Workload:
    shape, alpha = (50, 50), np.array([1.0, 1.0, np.sqrt(0.5), np.sqrt(0.5)])
    return Workload(
        name="grid8",
        title="8-neighbour 50x50 grid, a = 1",
        graph=grid_graph(shape, OFFSETS_8, alpha),
        theta=perturbed_fields(shape, 200 if quick else 1000, seed=4),
        functions=_grid_functions(shape, 8),
        alpha=alpha,
        peers=ALL_PEERS,
        floor=3.0,
        target=True,
    )


def _volume(quick: bool) -> Workload:
    size = 32 if quick else 64
    shape, alpha = (size, size, size), np.ones(3)
    return Workload(
        name="volume",
        title=f"{size}^3 volume, 6-neighbour, a = 1",
        graph=grid_graph(shape, OFFSETS_6, alpha),
        theta=perturbed_fields(shape, 4, seed=5),
        functions=_grid_functions(shape, 6),
        alpha=alpha,
        peers=ALL_PEERS,
        floor=3.0,
        target=True,
    )


def _contrast(own: bool) -> Callable[[bool], Workload]:
    """Make contrast-weighted grids: one image with many draws of noise, or one per problem."""

    def make(quick: bool) -> Workload:
        shape = (50, 50)
        rng = np.random.default_rng(6)
        count = 200 if quick else 1000
        images = silhouettes(50 if own else 1, shape, rng)
        edges = np.concatenate(grid_edges(shape, OFFSETS_4))
        clean = images[np.arange(count if own else 1) % len(images)].reshape(-1, 50 * 50)
        grey = clean + 0.1 * rng.normal(size=clean.shape)
        difference = grey[:, edges[:, 0]] - grey[:, edges[:, 1]]
        # Smooth places weigh 2, the strongest contrasts some thirteen orders of magnitude less.
        weights = 2.0 * np.exp(-(difference**2) / (2.0 * 0.18**2))
        theta = posterior_fields(images, count, rng)
        theta += rng.logistic(size=theta.shape)
        return Workload(
            name="contrast-own" if own else "contrast",
            title=f"50x50 grid, contrast weights{', new ones each solve' if own else ''}",
            graph=Graph(50 * 50, edges, weights if own else weights[0]),
            theta=theta,
            functions=_grid_functions(shape),
            alpha=np.ones(2),
            peers=("PyMaxflow", "OR-Tools", "scipy") if own else ALL_PEERS,
            edge_weights=True,
        )

    return make


CUTS: dict[str, Callable[[bool], Workload]] = {
    "w1-0.5": _w1(0.5, 13.0),
    "w1-1": _w1(1.0, 11.0),
    "w1-2": _w1(2.0, 9.0),
    "w1-5": _w1(5.0, None),
    "w2-0.5": _w2(0.5, 20.0),
    "w2-1": _w2(1.0, 20.0),
    "w2-2": _w2(2.0, 20.0),
    "w3": _w3,
    "grid8": _eight,
    "volume": _volume,
    "contrast": _contrast(own=False),
    "contrast-own": _contrast(own=True),
}
"""Batches of cuts. Each maker takes `quick`."""


def min_norm(size: int, count: int) -> Workload:
    """Return `count` problems "min-norm point of cut - theta" on a square grid, a = 1."""
    shape, alpha = (size, size), np.ones(2)
    return Workload(
        name=f"min-norm-{size}",
        title=f"min-norm point, {size}x{size} grid, a = 1",
        graph=grid_graph(shape, OFFSETS_4, alpha),
        theta=perturbed_fields(shape, count, seed=7),
        functions=_grid_functions(shape),
        alpha=alpha,
        peers=("PyMaxflow", "OR-Tools", "scipy"),
        floor=5.0,
    )


def posteriors(count: int) -> Workload:
    """Return `count` 50x50 posteriors to perturb; theta has no noise yet."""
    return replace(
        noisy_silhouettes("logistic", np.ones(2), count),
        title=f"logistic marginals of {count} images, 50x50, 100 samples, a = 1",
        peers=("PyMaxflow", "PyMaxflow reuse"),
        floor=10.0,
    )


def noisy_silhouettes(name: str, alpha: Floats, count: int) -> Workload:
    """Return the posteriors of `count` noisy 50x50 silhouettes; the entry gives the title."""
    shape = (50, 50)
    rng = np.random.default_rng(8)
    images = silhouettes(count, shape, rng)
    return Workload(
        name=name,
        title=f"50x50, a = {alpha[0]:g}" + (f", {alpha[1]:g}" if alpha[1] != alpha[0] else ""),
        graph=grid_graph(shape, OFFSETS_4, alpha),
        theta=posterior_fields(images, count, rng),
        functions=_grid_functions(shape),
        alpha=alpha,
        peers=(),
    )


def noisy_blobs(size: int, count: int) -> Workload:
    """Return posteriors on a square small enough to sum over the states of its rows, a = 1."""
    shape, alpha = (size, size), np.ones(2)
    rng = np.random.default_rng(10)
    return Workload(
        name="exact",
        title=f"exact marginals, {size}x{size}, a = 1",
        graph=grid_graph(shape, OFFSETS_4, alpha),
        theta=posterior_fields(blobs(count, shape, rng), count, rng),
        functions=_grid_functions(shape),
        alpha=alpha,
        peers=(),
    )


def row_marginals(theta: Floats, alpha: Floats) -> Floats:
    """Return the marginals of one small grid by forward and backward sums over states of a row.

    Written independently of the library, as a reference for the exact answers.
    """
    rows, columns = theta.shape
    states = (np.arange(2**columns)[:, None] >> np.arange(columns)) & 1
    inside = states @ theta.T - alpha[0] * np.abs(np.diff(states, axis=1)).sum(axis=1)[:, None]
    between = np.exp(-alpha[1] * np.abs(states[:, None] - states[None]).sum(axis=2))
    weight = np.exp(inside - inside.max(axis=0))
    forward, backward = weight[:, :1], np.ones((len(states), 1))
    for r in range(1, rows):
        after = weight[:, r] * (between @ forward[:, -1])
        before = between @ (weight[:, rows - r] * backward[:, 0])
        forward = np.column_stack([forward, after / after.sum()])
        backward = np.column_stack([before / before.sum(), backward])
    beliefs = forward * backward
    return np.asarray((beliefs / beliefs.sum(axis=0)).T @ states, dtype=np.float64)


def large_field(size: int, seed: int = 9) -> Floats:
    """Return one field (1, size * size), tiled with 512x512 animals: equally hard at any size."""
    rng = np.random.default_rng(seed)
    tile = min(size, 512)
    images = silhouettes(4, (tile, tile), rng)
    side = -(-size // tile)
    order = np.arange(side * side).reshape(side, side) % len(images)
    image = np.block([[images[k] for k in row] for row in order])[:size, :size]
    theta = posterior_fields(np.ascontiguousarray(image)[None], 1, rng)
    theta += rng.logistic(size=theta.shape)
    return theta
