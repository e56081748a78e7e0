"""Valid calls of the entries for sums of decision trees; see `kernel_calls`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tests.fuzzing.kernel_calls import Call, Random, entry
from tests.fuzzing.kernel_tile_calls import MAKERS


@entry("tree_sum")
def _tree_sum(module: ModuleType, rng: Random) -> Call:
    width = int(rng.integers(1, 6))
    nodes: dict[str, list[Any]] = {"feature": [], "left": [], "right": []}
    roots = []
    for _ in range(rng.integers(1, 5)):
        # some have more leaves than a word has bits, or than have bits at all
        inner = int(rng.integers(400 if rng.random() < 0.3 else 8))
        root = len(nodes["feature"])
        roots.append(root)
        parents = sorted(_split_leaves(rng, inner).items())
        below = {root + node: root + child for node, child in parents}
        for node in range(root, root + 2 * inner + 1):
            child = below.get(node)
            nodes["feature"].append(-1 if child is None else int(rng.integers(width)))
            nodes["left"].append(0 if child is None else child)
            nodes["right"].append(0 if child is None else child + 1)
    n = len(nodes["feature"])
    arguments = {
        "width": width,
        "roots": np.array(roots, np.int32),
        **{name: np.array(entries, np.int32) for name, entries in nodes.items()},
        "threshold": rng.normal(size=n).astype(np.float32),
        "value": rng.random(n),
    }
    return Call(None, arguments)


def _split_leaves(rng: Random, count: int) -> dict[int, int]:
    """Return the left child of each node that is split, the right one being the next node."""
    found, leaves = {}, [0]
    for k in range(count):
        node = leaves.pop(int(rng.integers(len(leaves))))
        found[node] = 2 * k + 1
        leaves += [2 * k + 1, 2 * k + 2]
    return found


@entry("TreeSum.add")
def _add_trees(module: ModuleType, rng: Random) -> Call:
    made = MAKERS["tree_sum"](module, rng).arguments
    count = int(rng.integers(300))
    columns, sums = rng.normal(size=(made["width"], count)).astype(np.float32), np.zeros(count)
    arguments = {"columns": columns, "threads": int(rng.integers(1, 4)), "sums": sums}
    most = len(made["roots"])  # no leaf is worth more than 1
    return Call(
        module.tree_sum(**made), arguments, lambda _: bool(((sums >= 0) & (sums <= most)).all())
    )
