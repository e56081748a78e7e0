"""What the tests of the variational bounds share."""

import numpy as np
from oracles import brute_log_partition, enumerate_x

from logsuper import Cut, Modular

PAIRWISE = ["modular", "cut", "cut, wide weights", "directed cut", "grid"]


def random_tree(rng, n, strength):
    """Return the cut of a random tree, with fields."""
    parents = [int(rng.integers(0, i)) for i in range(1, n)]
    edges = [(p, i) for i, p in enumerate(parents, 1)]
    return Cut(n, edges, strength * rng.exponential(size=n - 1)) - Modular(rng.normal(size=n) * 2)


def exact_marginals(f):
    """Return P(x_d = 1), by enumeration."""
    X = enumerate_x(f.n)
    return np.exp(-f(X) - brute_log_partition(f)) @ X
