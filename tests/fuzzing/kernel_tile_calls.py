"""Valid calls of the entries that tiles of larger grids need; see `kernel_calls`."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from tests.fuzzing.kernel_calls import MAKERS, Call, Random, entry


@entry("Kernel.tile")
def _tile(module: ModuleType, rng: Random) -> Call:
    made = MAKERS["grid"](module, rng).arguments
    kernel = module.grid(**made)
    theta = rng.normal(size=kernel.nodes) * 10.0 ** rng.integers(-3, 4)
    ring = np.flatnonzero(rng.random(kernel.nodes) < 0.2)
    y = np.full(kernel.nodes, 9, np.uint8)
    factors = rng.random(kernel.edges) if rng.integers(2) else None
    flags = {"maximal": bool(rng.integers(2)), "wide": bool(rng.integers(2))}
    largest = sum(float(np.max(weight)) for _, _, weight in made["planes"])
    degree = 2.0 * largest * (1.0 + rng.random()) if rng.integers(2) else 0.0
    arguments = {"theta": theta, "factors": factors, "ring": ring, "degree": degree, **flags}
    return Call(
        kernel, {**arguments, "y": y}, lambda _: bool((y <= 2).all() and (y[ring] == 2).all())
    )


@entry("quantiser")
def _quantiser(module: ModuleType, rng: Random) -> Call:
    degree, cap = (float(10.0 ** rng.uniform(-9, 9)) for _ in range(2))
    wide = bool(rng.integers(2))
    arguments = {"degree": degree, "wide": wide, "cap": cap, "most_edges": int(rng.integers(99))}
    return Call(None, arguments, lambda found: degree * found[0] <= 2.0 ** (60 if wide else 29))


@entry("narrow_is_enough")
def _narrow_is_enough(module: ModuleType, rng: Random) -> Call:
    degree = float(10.0 ** rng.uniform(-9, 9))
    return Call(None, {"degree": degree, "smallest": degree / 4}, lambda found: found is True)


@entry("measure_field")
def _measure_field(module: ModuleType, rng: Random) -> Call:
    theta, counts = rng.normal(size=int(rng.integers(99))), np.zeros(3, np.int64)
    arguments = {"theta": theta, "scale": 2.0**24, "bound": 2.0**28, "wide": bool(rng.integers(2))}
    return Call(
        None, {**arguments, "counts": counts}, lambda _: bool((counts[:2] <= len(theta)).all())
    )


@entry("add_noise")
def _add_noise(module: ModuleType, rng: Random) -> Call:
    field = np.zeros((int(rng.integers(5)), int(rng.integers(1, 70))))
    key, problem = (int(rng.integers(2**63)) for _ in range(2))
    starts = rng.integers(0, 2**20, len(field))
    arguments = {"key": key, "problem": problem, "sample": int(rng.integers(2**32))}
    arguments |= {"starts": starts, "field": field}
    return Call(None, arguments, lambda _: bool((np.abs(field) < 23).all()))
