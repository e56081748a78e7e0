"""
A function of your own: random clusters
=======================================

Any submodular function will do: give it as a Python callable, and modes, bounds, marginals and
exact samples follow. Here x says which edges of a network are open, and f is the *rank* of the
open edges, that is, the number of nodes less the number of clusters. exp(-f) is then the
random-cluster model of Fortuin and Kasteleyn, and a famous identity can be checked to the last
digit.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import logsuper as ls


def clusters(x, edges, nodes):
    """Return the number of clusters of open edges, and the cluster of each node."""
    i, j = edges[np.asarray(x) == 1].T
    links = coo_array((np.ones(len(i)), (i, j)), shape=(nodes, nodes))
    return connected_components(links, directed=False)


def make_edges(shape):
    """Return the edges of a grid."""
    return np.concatenate([cut.edges for cut in ls.grid_cuts(shape)])


# %%
# The function, and a check
# -------------------------
# ``SetFunction`` looks for a violation of submodularity, all pairs of elements at all x for up to
# 12 elements. What is not submodular is refused, with a pair that shows it.

edges = make_edges((3, 3))
rank = ls.SetFunction(lambda x: 9 - clusters(x, edges, 9)[0], len(edges))
print(ls.check_submodular(rank))
try:
    ls.SetFunction(lambda x: clusters(x, edges, 9)[0] - 9, len(edges))
except ValueError as error:
    print(f"refused: {error}")

# %%
# The identity
# ------------
# An Ising model with coupling J on the nodes has the same log Z as random clusters with two colours
# on the edges: an edge is open with weight 1 - exp(-J) and closed with weight exp(-J), and every
# cluster has one of two colours.

coupling = 0.9
ising = ls.LogSupermodular(coupling * ls.Cut(9, edges)).log_partition("exact").value
odds = np.log(np.expm1(coupling))  # of an open edge
open_edges = np.log(2.0) * rank - ls.Modular(np.full(len(edges), odds))
constant = 9 * np.log(2.0) - coupling * len(edges)  # nothing open: nine clusters
model = ls.LogSupermodular(open_edges, constant)
random_clusters = model.log_partition("exact").value
print(f"log Z of the Ising model: {ising:.12f}")
print(f"of random clusters:       {random_clusters:.12f}")
assert np.isclose(ising, random_clusters, rtol=0, atol=1e-9)

# %%
# Exact samples
# -------------
# The same on a larger grid, by coupling from the past: clusters (in colours) at three couplings.
# The critical one is log(1 + sqrt 2), about 0.88.

shape = (6, 6)
edges = make_edges(shape)
rank = ls.SetFunction(lambda x: 36 - clusters(x, edges, 36)[0], len(edges), check=False)
place = np.stack(np.unravel_index(np.arange(36), shape)[::-1], axis=1)
figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.3), layout="constrained")
for axis, coupling in zip(axes, (0.5, 0.88, 1.3), strict=True):
    f = np.log(2.0) * rank - ls.Modular(np.full(len(edges), np.log(np.expm1(coupling))))
    x = ls.LogSupermodular(f).sample(1, seed=3)[0]
    count, cluster = clusters(x, edges, 36)
    print(f"coupling {coupling}: {x.sum()} of {len(edges)} edges open, {count} clusters")
    # the largest clusters get the strongest colours
    order = np.argsort(np.argsort(-np.bincount(cluster), kind="stable"), kind="stable")
    palette = np.array(["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#BBBBBB"])
    colour = palette[np.minimum(order[cluster], 5)]
    axis.add_collection(LineCollection(place[edges], colors="#EEEEEE", linewidths=1))
    drawn = edges[x == 1]
    axis.add_collection(LineCollection(place[drawn], colors=colour[drawn[:, 0]], linewidths=4))
    axis.scatter(*place.T, c=colour, s=30, zorder=2)
    axis.set_title(f"coupling {coupling}: {count} clusters", fontsize=11)
    axis.set_aspect("equal")
    axis.set_axis_off()
plt.show()
