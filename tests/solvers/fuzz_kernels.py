"""Call the entry points of a compiled kernel with broken arguments: it may raise, but not crash.

Run as ``python fuzz_kernels.py <module> <seed> <calls>`` in a process of its own. Every call is
written down before it is made, so that the last line tells what a crash was caused by.
"""

import contextlib
import importlib
import sys

import numpy as np

# Whatever asks for more memory than this gets a MemoryError, not the machine.
MEMORY = 4 << 30

INTEGERS = [-(2**63), -(2**31), -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**64]
OBJECTS = [None, "text", b"bytes", 1.5, [], [1, 2], {}, object(), np.float64(2), True, 1j]
NUMBERS = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, -1e308, 5e-324, 1e-300, 1e19, 2.0**62]
TYPES = "f4 f8 >f8 f2 i1 i4 i8 u1 u4 u8 ? c16 O U3 M8[s]".split()


def break_array(rng, array):
    """Return an array with a wrong shape, type, layout, content or permission."""
    how = rng.integers(9)
    if how == 0:
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            return array.astype(TYPES[rng.integers(len(TYPES))])
        return array
    if how == 1 and array.size:
        return np.delete(array, 0, axis=rng.integers(array.ndim))
    if how == 2 and array.size:
        return np.repeat(array, 2, axis=rng.integers(array.ndim))
    if how == 3:
        return array[None] if rng.integers(2) else array.ravel()
    if how == 4:
        return (
            np.asfortranarray(array) if rng.integers(2) else np.repeat(array, 2, axis=-1)[..., ::2]
        )
    if how == 5:
        copy = array.copy()
        copy.flags.writeable = False
        return copy
    if how == 6 and array.size:
        copy = array.copy()
        pool = INTEGERS if array.dtype.kind in "iu" else NUMBERS
        with contextlib.suppress(OverflowError, ValueError, TypeError):
            copy.flat[rng.integers(array.size)] = pool[rng.integers(len(pool))]
        return copy
    if how == 7:
        return np.empty((0,) * array.ndim, array.dtype)
    return np.lib.stride_tricks.as_strided(array, array.shape, (0,) * array.ndim)


def break_one(rng, value):
    if isinstance(value, np.ndarray) and rng.random() < 0.85:
        return break_array(rng, value)
    if isinstance(value, list) and value and isinstance(value[0], tuple) and rng.random() < 0.85:
        broken = list(value)
        item = list(value[0])
        place = rng.integers(len(item))
        item[place] = break_one(rng, item[place])
        broken[0] = tuple(item)
        return broken
    if rng.random() < 0.5:
        return INTEGERS[rng.integers(len(INTEGERS))]
    return OBJECTS[rng.integers(len(OBJECTS))]


def grid_arguments(rng):
    steps = {
        2: [[0, 0, 1], [0, 1, 0]],
        3: [[0, 0, 1], [0, 1, 0], [1, 0, 0]],
        4: [[0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, -1]],
    }[int(rng.integers(2, 5))]
    shape = [1 if len(steps) < 3 else int(rng.integers(1, 4)), *rng.integers(1, 9, 2).tolist()]
    planes = [
        (0, k, float(rng.random()) if rng.integers(2) else rng.random(int(np.prod(shape))))
        for k in range(len(steps))
    ]
    return [*shape, np.array(steps), 1, planes]


def graph_arguments(rng):
    n = int(rng.integers(2, 12))
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    edges = np.ascontiguousarray(rng.permutation(pairs)[: 2 * n].astype(np.int64))
    e = len(edges)
    places = np.arange(e)
    return [n, edges, bool(rng.integers(2)), np.array([0, e]), places, rng.random(e)]


def call_arguments(rng, kernel, method):
    m, s, n, k = 2, 3, kernel.nodes, kernel.functions
    theta, alpha = rng.normal(size=(m, n)), rng.random((m, k))
    factors = rng.random((m, 1, kernel.edges)) if rng.integers(2) else None
    if method == "maximize":
        out = [np.zeros((m, n), np.uint8), np.zeros(m), np.zeros((m, k))]
        return [theta, alpha, factors, False, bool(rng.integers(2)), 2, *out]
    if method == "perturb":
        out = [np.zeros((m, n), np.uint32), np.zeros((m, s)), np.zeros((m, s, k))]
        samples = np.zeros((m, s, n), np.uint8) if rng.integers(2) else None
        return [theta, alpha, factors, n, 1, 0, 0, 2, *out, samples]
    return [theta, alpha, factors, 2, np.zeros((m, n)), np.zeros(m), np.zeros(m, np.int64)]


def describe(value):
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{'' if value.flags.c_contiguous else ' strided'}"
    return repr(value)[:80]


def attempt(log, name, function, arguments):
    log.write(f"{name}({', '.join(map(describe, arguments))})\n")
    log.flush()
    try:
        return function(*arguments)
    except (TypeError, ValueError, RuntimeError, MemoryError, OverflowError):
        return None


def main(module_name, seed, calls):
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    module = importlib.import_module(module_name)
    rng = np.random.default_rng(seed)
    log = sys.stdout
    made = refused = 0
    while made < calls:
        name, arguments = (
            ("grid", grid_arguments(rng)) if rng.integers(2) else ("graph", graph_arguments(rng))
        )
        broken, intact = list(arguments), rng.random() < 0.5
        if not intact:
            for _ in range(rng.integers(1, 3)):
                place = rng.integers(len(broken))
                broken[place] = break_one(rng, broken[place])
        made += 1
        kernel = attempt(log, name, getattr(module, name), broken)
        if kernel is None:
            refused += 1
            continue
        if kernel.nodes > 1000 or kernel.functions > 100:
            continue
        for _ in range(6):
            method = ["maximize", "perturb", "min_norm"][rng.integers(3)]
            given = call_arguments(rng, kernel, method)
            for _ in range(rng.integers(1, 4)):
                place = rng.integers(len(given))
                given[place] = break_one(rng, given[place])
            made += 1
            refused += attempt(log, method, getattr(kernel, method), given) is None
        # After all that, an honest call to an honest kernel still works.
        if intact:
            honest = call_arguments(rng, kernel, "maximize")
            kernel.maximize(*honest)
            assert honest[6].max(initial=0) <= 1
    log.write(f"survived {made} calls\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
