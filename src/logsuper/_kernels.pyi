"""The compiled kernels, whose arrays are C-contiguous; `_kernels_avx2` has the same entries.

Arrays that a kernel writes to come last, must have the exact type, and are listed as "out".
Shapes: M problems, n nodes or elements, m edges, K functions, S samples, (h, w) a grid.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_Float32 = NDArray[np.float32]
_Float64 = NDArray[np.float64]
_Int32 = NDArray[np.int32]
_Int64 = NDArray[np.int64]
_UInt8 = NDArray[np.uint8]
_UInt32 = NDArray[np.uint32]
_UInt64 = NDArray[np.uint64]

def has_avx2() -> bool:
    """Return whether this machine can run `_kernels_avx2`."""

# ---- max-flow: argmax_y theta'y - sum_k alpha_k sum_e weight_k(e) factor(e) |y_i - y_j| ---------

class Kernel:
    """A graph with K weight vectors on its edges, and the work space of its solvers."""

    @property
    def nodes(self) -> int: ...
    @property
    def edges(self) -> int: ...
    @property
    def functions(self) -> int: ...
    def maximize(
        self,
        theta: _Float64,
        alpha: _Float64,
        factors: _Float64 | None,
        maximal: bool,
        wide: bool,
        threads: int,
        y: _UInt8,
        values: _Float64,
        stats: _Float64,
        memory: int = 9223372036854775807,
        precision: _Float64 | None = None,
        shifted: _Int64 | None = None,
        shift: _Float64 | None = None,
    ) -> None:
        """Solve M problems.

        theta (M or 1, n), alpha (M or 1, K), factors (M or 1, K or 1, m); shift (M or 1, J) is
        subtracted at the nodes shifted (J,); out: y (M, up to n), values (M,), stats (M, K),
        precision (M, 2).
        """

    def tile(
        self,
        theta: _Float64,
        factors: _Float64 | None,
        ring: _Int64,
        degree: float,
        maximal: bool,
        wide: bool,
        y: _UInt8,
        memory: int = 9223372036854775807,
    ) -> None:
        """Solve a part of a larger grid with the nodes `ring` set to 0, then to 1.

        theta (n,), factors (m,), ring (J,); degree: 0, or the largest sum of weights at a node of
        the larger grid, whose integers are used; out: y (n,), 2 where the solutions differ.
        """

    def perturb(
        self,
        theta: _Float64,
        alpha: _Float64,
        factors: _Float64 | None,
        noisy: int,
        key: int,
        numbers: _UInt64,
        first_sample: int,
        threads: int,
        counts: _UInt32,
        values: _Float64,
        stats: _Float64,
        samples: _UInt8 | None,
        memory: int = 9223372036854775807,
        precision: _Float64 | None = None,
    ) -> None:
        """Solve S logistic perturbations of M problems.

        As `maximize`; numbers (M,); out: counts (M, up to n), values (M, S), stats (M, S, K),
        samples (M, S, up to n), precision (M, 2).
        """

    def min_norm(
        self,
        theta: _Float64,
        alpha: _Float64,
        factors: _Float64 | None,
        threads: int,
        s: _Float64,
        gaps: _Float64,
        levels: _Int64,
        memory: int = 9223372036854775807,
    ) -> None:
        """Find min-norm points; as `maximize`; out: s (M, n), gaps (M,), levels (M,)."""

    def workspace(self, threads: int, wide: bool, min_norm: bool) -> tuple[int, int]:
        """Return bounds on the bytes that a call will allocate."""

def grid(
    depth: int,
    height: int,
    width: int,
    steps: _Int64,
    functions: int,
    planes: list[tuple[int, int, float | _Float64]],
    pixels: _Int64 | None = None,
) -> Kernel:
    """Prepare a grid.

    steps (offsets, 3); planes: (function, offset, a weight or one per node); pixels (n,): the
    nodes that the elements are, if not all.
    """

def graph(
    nodes: int, edges: _Int64, dense: bool, start: _Int64, edge: _Int64, weight: _Float64
) -> Kernel:
    """Prepare a graph.

    edges (m, 2); function k has weight[t] on edge[t] for start[k] <= t < start[k + 1].
    """

def quantiser(degree: float, wide: bool, cap: float, most_edges: int) -> tuple[float, float]:
    """Return the scale from numbers to integers, and the bound on fields in integers."""

def narrow_is_enough(degree: float, smallest: float) -> bool:
    """Return whether 32-bit integers are fine enough for weights of this range."""

def measure_field(theta: _Float64, scale: float, bound: float, wide: bool, counts: _Int64) -> None:
    """Add the numbers of fields seen, too small, and lost; theta (n,); out: counts (3,)."""

def add_noise(key: int, problem: int, sample: int, starts: _Int64, field: _Float64) -> None:
    """Add the noise of elements starts[r], starts[r] + 1, ... to row r of field (h, w)."""

def draw_noise(key: int, problem: int, sample: int, out: _Float64) -> None:
    """Draw the noise of one perturbation; out (n,)."""

# ---- transfer matrices: t (M, h, w); across (M or 1, h, w - 1), down (M or 1, h - 1, w) ---------

def strip_fields(
    t: _Float64,
    across: _Float64,
    down: _Float64,
    window: int,
    threads: int,
    low: _Float64,
    high: _Float64,
    memory: int = 9223372036854775807,
) -> None:
    """Bound the fields of columns c and beyond on column c - 1; out: low, high (M, h, w)."""

def strip_chain(
    t: _Float64,
    across: _Float64,
    down: _Float64,
    window: int,
    reference: _UInt8,
    low: _Float64,
    high: _Float64,
    threads: int,
    odds_low: _Float64,
    odds_high: _Float64,
    memory: int = 9223372036854775807,
) -> None:
    """Bound the log-odds of each pixel given the reference before it; all arrays (M, h, w)."""

def strip_marginals(
    t: _Float64,
    across: _Float64,
    down: _Float64,
    window: int,
    reach: int,
    step: int,
    threads: int,
    odds_low: _Float64,
    odds_high: _Float64,
    memory: int = 9223372036854775807,
) -> None:
    """Bound the log-odds of all pixels, by the best of overlapping windows; out: (M, h, w)."""

def strip_gradient(
    t: _Float64,
    across: _Float64,
    down: _Float64,
    window: int,
    reference: _UInt8,
    threads: int,
    grad_t: _Float64,
    grad_across: _Float64,
    grad_down: _Float64,
    upper: bool = False,
    memory: int = 9223372036854775807,
) -> None:
    """Add the gradient of a bound on -log p(reference); out: as t, across and down of M images."""

def strip_transfer(t: _Float64, across: _Float64, down: _Float64, odds: _Float64 | None) -> float:
    """Return log Z of one narrow grid; out: odds (1, h, w)."""

# ---- Markov chains ------------------------------------------------------------------------------

class Scan:
    """A model whose elements are updated in a fixed order."""

    def run(
        self,
        states: _UInt8,
        theta: _Float64,
        scale: float,
        key: int,
        problems: _UInt64,
        first: int,
        count: int,
        step: int,
        threads: int,
        beat: Callable[[], object] | None = None,
    ) -> None:
        """Run heat-bath sweeps; states (M, 1 or 2, n) in place, theta (M or 1, n)."""

class TermScan(Scan):
    """A weighted sum of terms."""

    def add_facilities(self, weight: float, benefits: _Float64) -> None:
        """Add a facility location; benefits (users, n)."""

    def add_groups(
        self,
        weight: float,
        start: _Int64,
        group: _Int64,
        weights: _Float64,
        piece: _Int64,
        point: _Float64,
        value: _Float64,
    ) -> None:
        """Add concave functions of group sums: see `Groups` in chains_terms.hpp."""

    def add_determinant(self, weight: float, kernel: _Float64, on: bool) -> None:
        """Add a log-determinant; kernel (n, n)."""

class Clusters:
    """A pairwise model for Swendsen-Wang moves."""

    def move(
        self,
        states: _UInt8,
        theta: _Float64,
        key: int,
        problems: _UInt64,
        time: int,
        threads: int,
    ) -> None:
        """Move all clusters once; states (M, n) in place, theta (M or 1, n)."""

def term_scan(n: int) -> TermScan: ...
def grid_scan(across: _Float64, down: _Float64) -> Scan: ...
def graph_scan(order: _Int64, start: _Int64, neighbour: _Int64, weight: _Float64) -> Scan: ...
def clusters(n: int, edges: _Int64, threshold: _Float64) -> Clusters: ...

# ---- messages: t (n,), edges (m, 2) -------------------------------------------------------------

def propagate_logs(
    t: _Float64,
    edges: _Int64,
    coupling: _Float64,
    rho: _Float64,
    damping: float,
    sweeps: int,
    tol: float,
    u: _Float64,
) -> float:
    """Propagate beliefs from u (2 m,), in place; return the residual."""

def propagate_extremes(
    t: _Float64, edges: _Int64, coupling: _Float64, sweeps: int, tol: float, u: _Float64
) -> float:
    """Propagate beliefs from both extremes; out: u (2, 2 m); return the residual."""

def mean_field(
    t: _Float64,
    edges: _Int64,
    weights: _Float64,
    sweeps: int,
    tol: float,
    logits: _Float64,
    values: _Float64,
) -> int:
    """Ascend from logits (rows, n), in place; out: values (rows,); return the sweeps."""

# ---- filters: padded (images, depth, height, width) ---------------------------------------------

def filter_field(padded: _Float64, weights: _Float64, field: _Float64) -> None:
    """Add filtered images to field, which has no margins."""

def filter_sums(padded: _Float64, x: _Float64, sums: _Float64) -> None:
    """Add the correlations of x with its neighbours to sums (images, *window)."""

# ---- P(y_d = 1 | the noise of the others): theta (M, n), labels (M, S, n), out: sums (M, n) ------

def conditional_grid(
    offsets: _Int64,
    weights: _Float64,
    theta: _Float64,
    labels: _UInt8,
    numbers: _UInt64,
    key: int,
    first_sample: int,
    rounds: int,
    threads: int,
    sums: _Float64,
) -> None:
    """Sum the probabilities over the samples; weights (M or 1, offsets, n)."""

def conditional_graph(
    edges: _Int64,
    weights: _Float64,
    theta: _Float64,
    labels: _UInt8,
    numbers: _UInt64,
    key: int,
    first_sample: int,
    rounds: int,
    threads: int,
    sums: _Float64,
) -> None:
    """Sum the probabilities over the samples; weights (M or 1, m)."""

# ---- the losses of single labels: theta, labels (M, n), costs (M, n, 2) --------------------------

def flip_labels(
    edges: _Int64,
    weights: _Float64,
    theta: _Float64,
    labels: _UInt8,
    costs: _Float64,
    numbers: _UInt64,
    key: int,
    first_sample: int,
    samples: int,
    threads: int,
    values: _Float64,
    fields: _Float64,
    cuts: _Float64,
) -> None:
    """Out: the losses (M,) and their slopes (M, n) and (M, m); weights (M or 1, m)."""

# ---- sums of decision trees: nodes as in estimators/_trees.py -----------------------------------

class TreeSum:
    """Trees that have been checked, in tables of their own."""

    def add(self, columns: _Float32, threads: int, sums: _Float64) -> None:
        """Add the values of all trees, in their order, to sums (N,); columns (width, N)."""

def tree_sum(
    width: int,
    roots: _Int32,
    feature: _Int32,
    threshold: _Float32,
    left: _Int32,
    right: _Int32,
    value: _Float64,
) -> TreeSum:
    """Prepare trees of features 0 .. width - 1; all arrays but roots have one entry per node."""
