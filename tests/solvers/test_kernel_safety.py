"""The raw entry points of the compiled kernels cannot be crashed from Python.

Users never call them, but what checks nothing there would read or write outside of an array. Each
test runs in a process of its own: a segmentation fault is a failure, not the end of the tests.
"""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest


def start(arguments):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        # glibc overwrites what is freed: memory used after its end shows in the results
        env=os.environ | {"MALLOC_PERTURB_": "85"},
        check=False,
    )


SETUP = """
import importlib
import numpy as np
kernels = importlib.import_module({module!r})
AXES = np.array([[0, 0, 1], [0, 1, 0]])

def image(size, weight=1.0):
    return kernels.grid(1, size, size, AXES, 1, [(0, 0, weight), (0, 1, weight)])

def graph(dense=False, weight=1.0):
    one = np.array([0, 2]), np.array([0, 1]), np.full(2, weight)
    return kernels.graph(3, np.array([[0, 1], [1, 2]]), dense, *one)

def maximize(kernel, theta, alpha=1.0, factors=None, threads=1, wide=False):
    m, n = theta.shape
    y, values, stats = np.zeros((m, n), np.uint8), np.zeros(m), np.zeros((m, 1))
    kernel.maximize(theta, np.full((1, 1), alpha), factors, False, wide, threads, y, values, stats)
    return y, values, stats

def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except (TypeError, ValueError, RuntimeError, OverflowError, MemoryError):
        return True
    return False
"""

CASES = {
    # sizes used to be read before it was known that there are as many axes
    "arrays with too few axes": """
none, one, four = np.array(1.0), np.zeros(1), np.zeros((1, 1, 1, 1))
assert refused(kernels.filter_sums, np.zeros((1, 3, 3, 3)), none, four)
for few in (none, one):
    for place in range(3):
        for call in (kernels.filter_sums, kernels.filter_field):
            arguments = [np.zeros((1, 3, 3, 3)), np.zeros((1, 1, 1, 1)), np.zeros((1, 3, 3, 3))]
            arguments[place] = few
            assert refused(call, *arguments)
    grid = np.zeros((1, 2, 2)), np.zeros((1, 2, 1)), np.zeros((1, 1, 2))
    for place in range(3):
        out = list(grid)
        out[place] = few
        reference = np.zeros((1, 2, 2), np.uint8)
        assert refused(kernels.strip_gradient, *grid, 1, reference, 1, *out)
        assert refused(kernels.strip_transfer, *out, None)
    assert refused(kernels.strip_marginals, *grid, 1, 1, 1, 1, few, grid[0].copy())
    assert refused(kernels.grid_scan, few, few)
    kernel = graph()
    for place in (0, 1, 2, 6, 7, 8):
        arguments = [np.zeros((1, 3)), np.ones((1, 1)), None, False, False, 1,
                     np.zeros((1, 3), np.uint8), np.zeros(1), np.zeros((1, 1))]
        kind = np.uint8 if place == 6 else float
        arguments[place] = np.array(0, kind)
        assert refused(kernel.maximize, *arguments)
""",
    "samples beyond the last number": """
kernel, numbers = graph(), np.zeros(1, np.uint64)
out = np.zeros((1, 3), np.uint32), np.zeros((1, 5)), np.zeros((1, 5, 1))
given = np.zeros((1, 3)), np.ones((1, 1)), None, 3, 1, numbers
assert not refused(kernel.perturb, *given, 2**32 - 5, 1, *out, None)
assert refused(kernel.perturb, *given, 2**32 - 4, 1, *out, None)
""",
    "a work space without room": """
kernel = image(50)
theta, alpha = np.zeros((1, 2500)), np.ones((1, 1))
out = np.zeros((1, 2500), np.uint8), np.zeros(1), np.zeros((1, 1))
least, most = kernel.workspace(1, False, False)
assert 0 < least < most
for room in (least - 1, 0, -1, -(2**63)):
    try:
        kernel.maximize(theta, alpha, None, False, False, 1, *out, memory=room)
    except MemoryError as error:
        assert "work space" in str(error)
    else:
        raise AssertionError(room)
kernel.maximize(theta, alpha, None, False, False, 1, *out, memory=least)
assert kernel.workspace(1, False, False)[0] == 0
kernel.maximize(theta, alpha, None, False, False, 1, *out, memory=0)
""",
    # abs(-2**63) is negative
    "a step as far as integers go": """
for place in range(3, 9):
    steps = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0]])
    steps.flat[place] = -2**63
    for height in (1, 2, 3):
        planes = [(0, k, 1.0) for k in range(3)]
        try:
            kernel = kernels.grid(2, height, 4, steps, 1, planes)
        except (ValueError, TypeError):
            continue
        maximize(kernel, np.random.randn(2, 8 * height))
""",
    # a converted copy must live as long as the kernel reads it
    "factors of another type": """
kernel = image(400)
rng = np.random.default_rng(0)
theta = rng.normal(size=(1, 160000))
factors = rng.integers(0, 3, (1, 1, kernel.edges)).astype(float)
expected = maximize(kernel, theta, factors=factors)[1]
for given in (factors.astype(np.float32), factors.astype(int), factors.astype(">f8"),
              np.repeat(factors, 2, axis=2)[:, :, ::2], factors.tolist()):
    for _ in range(3):
        try:
            found = maximize(kernel, theta, factors=given)[1]
        except (TypeError, RuntimeError, ValueError):
            continue
        assert found == expected, (found, expected)
""",
    # results must not go into a copy that is thrown away
    "samples of another type": """
kernel = graph()
rng = np.random.default_rng(0)
for given in (np.full((1, 5, 3), 7.0), np.full((1, 5, 3), 7, np.int8), np.full((1, 5, 3), 7),
              np.full((1, 5, 6), 7, np.uint8)[:, :, ::2], np.full((3, 5, 1), 7, np.uint8).T):
    counts, values, stats = np.zeros((1, 3), np.uint32), np.zeros((1, 5)), np.zeros((1, 5, 1))
    arguments = (np.zeros((1, 3)), np.ones((1, 1)), None, 3, 1, 0, 0, 1, counts, values, stats)
    if not refused(kernel.perturb, *arguments, given):
        assert given.max() <= 1, "the samples went nowhere"
""",
    "outputs that cannot be written": """
kernel = graph()
theta, alpha = np.zeros((1, 3)), np.ones((1, 1))
for place in range(3):
    out = [np.zeros((1, 3), np.uint8), np.zeros(1), np.zeros((1, 1))]
    for change in (lambda a: a.astype(np.float32), lambda a: np.repeat(a, 2, axis=-1)[..., ::2]):
        given = list(out)
        given[place] = change(out[place])
        changed = given[place].size > 1 or given[place].dtype != out[place].dtype
        assert refused(kernel.maximize, theta, alpha, None, False, False, 1, *given) or not changed
    given = list(out)
    given[place].flags.writeable = False
    assert refused(kernel.maximize, theta, alpha, None, False, False, 1, *given)
""",
    "weights whose product overflows": """
for wide in (False, True):
    for kernel, n in ((image(3, 1e200), 9), (graph(False, 1e200), 3), (graph(True, 1e200), 3)):
        theta = np.linspace(-1, 2, n)[None]
        assert refused(maximize, kernel, theta, alpha=1e200, wide=wide)
        s, gaps, levels = np.zeros((1, n)), np.zeros(1), np.zeros(1, np.int64)
        assert refused(kernel.min_norm, theta, np.full((1, 1), 1e200), None, 1, s, gaps, levels)
""",
    "weights whose sum overflows": """
for wide in (False, True):
    large = 1.7e308
    for kernel, n in ((image(3, large), 9), (graph(False, large), 3), (graph(True, large), 3)):
        theta = np.linspace(-1, 2, n)[None]
        if not refused(maximize, kernel, theta, wide=wide):
            assert maximize(kernel, theta, wide=wide)[0].all()
""",
    "NaN in any problem, with any number of threads": """
for kernel, n in ((image(5), 25), (graph(), 3), (graph(True), 3)):
    theta = np.zeros((9, n))
    theta[7, 1] = np.nan
    for threads in (1, 2, 9):
        assert refused(maximize, kernel, theta, threads=threads)
        s, gaps, levels = np.zeros((9, n)), np.zeros(9), np.zeros(9, np.int64)
        assert refused(kernel.min_norm, theta, np.ones((1, 1)), None, threads, s, gaps, levels)
    maximize(kernel, np.zeros((9, n)))
""",
    "a min-norm point of infinite fields": """
for kernel, n in ((image(5), 25), (graph(), 3), (graph(True), 3)):
    for value in (np.inf, -np.inf):
        theta = np.zeros((1, n))
        theta[0, 1] = value
        s, gaps, levels = np.zeros((1, n)), np.zeros(1), np.zeros(1, np.int64)
        assert refused(kernel.min_norm, theta, np.ones((1, 1)), None, 1, s, gaps, levels)
""",
    "a min-norm point of the largest fields": """
for kernel, n in ((image(5), 25), (graph(), 3), (graph(True), 3)):
    theta = np.where(np.arange(n) % 2, 1.0, -1.0)[None] * np.finfo(float).max
    s, gaps, levels = np.zeros((1, n)), np.zeros(1), np.zeros(1, np.int64)
    refused(kernel.min_norm, theta, np.ones((1, 1)), None, 1, s, gaps, levels)
""",
    "an object that was never made": """
import warnings
warnings.simplefilter("ignore")
assert refused(kernels.Kernel)
empty = kernels.Kernel.__new__(kernels.Kernel)
assert refused(lambda: empty.nodes)
assert refused(maximize, empty, np.zeros((1, 3)))
""",
    "more threads than there can be": """
for kernel, n in ((image(5), 25), (graph(), 3)):
    maximize(kernel, np.zeros((300, n)), threads=2**31 - 1)
    assert refused(maximize, kernel, np.zeros((3, n)), threads=0)
    assert refused(maximize, kernel, np.zeros((3, n)), threads=-1)
    assert refused(maximize, kernel, np.zeros((3, n)), threads=2**31)
""",
    "sizes that do not exist": """
none = np.zeros((0, 2), np.int64), False, np.array([0]), np.zeros(0, np.int64), np.zeros(0)
for nodes in (-1, 2**30, 2**31, 2**62, 2**63 - 1):
    assert refused(kernels.graph, nodes, *none)
for shape in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (-1, -1, 1), (1, 2**15, 2**15),
              (2**21, 2**21, 2**22), (2**32, 2**32, 1), (2**62, 2, 1), (1, 2**62, 4)):
    assert refused(kernels.grid, *shape, AXES, 0, [])
kernel = kernels.graph(0, *none)
y, values, stats = np.zeros((2, 0), np.uint8), np.ones(2), np.zeros((2, 0))
kernel.maximize(np.zeros((2, 0)), np.zeros((1, 0)), None, False, False, 1, y, values, stats)
assert not values.any()
""",
    "edges and terms that do not exist": """
def make(edges=((0, 1), (1, 2)), start=(0, 2), edge=(0, 1), weight=(1.0, 1.0)):
    terms = np.array(start), np.array(edge), np.array(weight)
    kernels.graph(3, np.array(edges).reshape(-1, 2), False, *terms)
make()
for edge in ((0, 3), (-1, 1), (1, 0), (1, 1), (0, 2**40), (-(2**63), 1), (0, 2**63 - 1)):
    assert refused(make, edges=(edge, (1, 2)))
for start in ((0, 3), (1, 2), (0, 1), (0, 2, 1, 2), (0, -1, 2), (0, 5, 2), ()):
    assert refused(make, start=start)
for edge in ((0, 2), (0, -1), (0, 2**32), (0,)):
    assert refused(make, edge=edge)
for weight in ((1.0, -1.0), (np.nan, 1.0), (1.0, np.inf)):
    assert refused(make, weight=weight)
""",
    "planes that do not exist": """
def make(*planes):
    kernels.grid(1, 3, 4, AXES, 2, list(planes))
make((0, 0, 1.0), (1, 1, np.ones(12)))
for plane in ((2, 0, 1.0), (-1, 0, 1.0), (0, 2, 1.0), (0, -1, 1.0), (0, 0, -1.0), (0, 0, np.nan),
              (0, 0, np.inf), (0, 0, np.ones(11)), (0, 0, -np.ones(12)), (0, 0), (0, 0, 1.0, 2),
              (2**31, 0, 1.0), (0, 2**40, 1.0), (None, 0, 1.0), (0, 0, "x"), "abc", 5):
    assert refused(make, plane), plane
""",
    "a kernel that is used while it is given away": """
import gc, threading
kernel = image(200)
theta = np.random.randn(8, 40000)
threads = [threading.Thread(target=maximize, args=(kernel, theta)) for _ in range(4)]
for thread in threads:
    thread.start()
del kernel, theta
gc.collect()
for thread in threads:
    thread.join()
""",
}


@functools.cache
def outcomes(module):
    """Run all cases one after the other; after a crash, go on with the next in a new process."""
    found, left = {}, list(CASES)
    while left:
        code = [SETUP.format(module=module), "import traceback"]
        for name in left:
            body = "".join(f"    {line}\n" for line in CASES[name].strip().splitlines())
            code.append(f"print('case', {name!r}, sep='\\t', flush=True)\ntry:\n{body}")
            code.append("    print('passed', flush=True)\nexcept Exception:\n")
            code.append("    print(traceback.format_exc(), flush=True)\n")
        done = start(["-c", "\n".join(code)])
        for part in done.stdout.split("case\t")[1:]:
            name, _, outcome = part.partition("\n")
            found[name] = outcome.strip() or f"exit {done.returncode}: {done.stderr[-1500:]}"
        assert left[0] in found, done.stderr
        left = [name for name in left if name not in found]
    return found


@pytest.mark.parametrize("name", CASES)
def test_hostile_calls(native, name):
    assert outcomes(native.__name__)[name] == "passed"


def test_noise_of_bad_arguments(native):
    out = np.zeros(4)
    for arguments in (
        (-1, 0, 0, out),
        (2**64, 0, 0, out),
        (0, -1, 0, out),
        (0, 0, 2**32, out),
        (0, 0, -1, out),
        (0, 0, 0, out.astype(np.float32)),
        (0, 0, 0, np.empty((2, 2))),
        (0, 0, 0, np.empty(8)[::2]),
        (0, 0, 0, [0.0]),
        (0.5, 0, 0, out),
    ):
        with pytest.raises((TypeError, ValueError)):
            native.draw_noise(*arguments)
