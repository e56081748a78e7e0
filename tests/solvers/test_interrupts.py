"""Ctrl-C ends every kernel in a moment, and leaves nothing broken.

The best build there is runs in a process of its own, where a signal comes in the middle of each
case: a call that would take minutes, except where the name says otherwise. Afterwards the same
object must answer as a new one does.
"""

import functools
import json
import signal
import subprocess
import sys
import time

import pytest

from logsuper.solvers._native import kernels

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")

# Seconds from the signal to the KeyboardInterrupt. Polls come within some tenths of a second; the
# rest is for machines with more to do.
LIMIT = 5.0

SETUP = """
import importlib, json, os, signal, threading, time
import numpy as np

# a shell may have started all of this with the signal ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
kernels = importlib.import_module({module!r})
rng = np.random.default_rng(0)
AXES = np.array([[0, 0, 1], [0, 1, 0]])
BEYOND = 10**7  # problems, or sweeps: more than anyone waits for

def image(h, w, weight=1.0):
    return kernels.grid(1, h, w, AXES, 1, [(0, 0, weight), (0, 1, weight)])

def graph(n, m, dense):
    pairs = np.unique(np.sort(rng.integers(0, n, (m, 2)), axis=1), axis=0)
    edges = np.ascontiguousarray(pairs[pairs[:, 0] < pairs[:, 1]])
    e = len(edges)
    return kernels.graph(n, edges, dense, np.array([0, e]), np.arange(e), rng.random(e))

def maximize(kernel, theta, problems=1, outputs=None, threads=1, wide=False):
    size = theta.shape[1] if outputs is None else outputs
    y, values = np.zeros((problems, size), np.uint8), np.zeros(problems)
    stats = np.zeros((problems, 1))
    kernel.maximize(theta, np.ones((1, 1)), None, False, wide, threads, y, values, stats)
    return y, values, stats

def perturb(kernel, theta, samples, threads=1):
    counts, values = np.zeros((1, theta.shape[1]), np.uint32), np.zeros((1, samples))
    stats, numbers = np.zeros((1, samples, 1)), np.zeros(1, np.uint64)
    kernel.perturb(theta, np.ones((1, 1)), None, theta.shape[1], 1, numbers, 0, threads, counts,
                   values, stats, None)
    return counts, values, stats

def min_norm(kernel, theta, threads=1):
    m = len(theta)
    s, gaps, levels = np.zeros(theta.shape), np.zeros(m), np.zeros(m, np.int64)
    kernel.min_norm(theta, np.ones((1, 1)), None, threads, s, gaps, levels)
    return s, gaps, levels

def strips(h, w, scale=1.0):
    t = scale * rng.normal(size=(1, h, w))
    return t, scale * np.ones((1, h, w - 1)), scale * np.ones((1, h - 1, w))

def ring(n):
    i = np.arange(n - 1)
    return np.ascontiguousarray(np.stack([i, i + 1], axis=1))

def interrupt(call, after=0.15):
    sent = []
    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Timer(after, send)
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        timer.cancel()
    return None  # it ended by itself

def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
"""

CASES = {
    "maximize: one image of 1000 x 1000, some two seconds": """
kernel, theta = image(1000, 1000, 3.0), rng.normal(size=(1, 1000 * 1000))
waited = interrupt(lambda: maximize(kernel, theta), 0.2)
""",
    "maximize: many images, one thread": """
kernel, theta = image(200, 200), rng.normal(size=(1, 40000))
waited = interrupt(lambda: maximize(kernel, theta, BEYOND, 0))
right = same(maximize(kernel, theta), maximize(image(200, 200), theta))
""",
    "maximize: many images, two threads": """
kernel, theta = image(200, 200), rng.normal(size=(1, 40000))
waited = interrupt(lambda: maximize(kernel, theta, BEYOND, 0, 2, True))
right = same(maximize(kernel, theta, 3, None, 2), maximize(image(200, 200), theta, 3))
""",
    "maximize: any graph": """
kernel, theta = graph(3000, 12000, False), rng.normal(size=(1, 3000))
expected = maximize(kernel, theta)
waited = interrupt(lambda: maximize(kernel, theta, BEYOND, 0))
right = same(maximize(kernel, theta), expected)
""",
    "maximize: a dense graph": """
kernel, theta = graph(1000, 200000, True), rng.normal(size=(1, 1000))
expected = maximize(kernel, theta)
waited = interrupt(lambda: maximize(kernel, theta, BEYOND, 0))
right = same(maximize(kernel, theta), expected)
""",
    "perturb": """
kernel, theta = image(300, 300), np.zeros((1, 90000))
waited = interrupt(lambda: perturb(kernel, theta, BEYOND // 10, 2))
right = same(perturb(kernel, theta, 20, 2), perturb(image(300, 300), theta, 20))
""",
    "min_norm": """
kernel, theta = image(100, 100), rng.normal(size=(1000, 10000))
waited = interrupt(lambda: min_norm(kernel, theta))
right = same(min_norm(kernel, theta[:2]), min_norm(image(100, 100), theta[:2]))
""",
    "strip_fields": """
grid, out = strips(60, 60), [np.zeros((1, 60, 60)) for _ in range(2)]
waited = interrupt(lambda: kernels.strip_fields(*grid, 20, 2, *out))
""",
    "strip_fields in logarithms": """
grid, out = strips(60, 60, 1000.0), [np.zeros((1, 60, 60)) for _ in range(2)]
waited = interrupt(lambda: kernels.strip_fields(*grid, 20, 2, *out))
""",
    "strip_chain": """
grid, (low, high, *out) = strips(60, 60), [np.zeros((1, 60, 60)) for _ in range(4)]
reference = np.zeros((1, 60, 60), np.uint8)
waited = interrupt(lambda: kernels.strip_chain(*grid, 18, reference, low, high, 1, *out))
""",
    "strip_marginals": """
grid, out = strips(60, 60), [np.zeros((1, 60, 60)) for _ in range(2)]
waited = interrupt(lambda: kernels.strip_marginals(*grid, 20, 5, 2, 1, *out))
""",
    "strip_marginals of a batch": """
t, across, down = strips(60, 60)
grid, out = (np.repeat(t, 2000, 0), across, down), [np.zeros((2000, 60, 60)) for _ in range(2)]
waited = interrupt(lambda: kernels.strip_marginals(*grid, 10, 6, 2, 2, *out))
""",
    "strip_gradient": """
grid = strips(60, 60)
out = [np.zeros(part.shape) for part in grid]
reference = rng.integers(0, 2, (1, 60, 60)).astype(np.uint8)
waited = interrupt(lambda: kernels.strip_gradient(*grid, 16, reference, 1, *out))
""",
    "strip_transfer": """
grid = strips(3000, 21)
waited = interrupt(lambda: kernels.strip_transfer(*grid, None))
""",
    "Scan.run on a grid": """
def run(scan, count):
    states = np.zeros((2, 1, 40000), np.uint8)
    scan.run(states, np.zeros((1, 40000)), 1.0, 1, np.arange(2, dtype=np.uint64), 0, count, 1, 2)
    return states
weights = np.full((200, 199), 0.4), np.full((199, 200), 0.4)
scan = kernels.grid_scan(*weights)
waited = interrupt(lambda: run(scan, BEYOND))
right = same(run(scan, 5), run(kernels.grid_scan(*weights), 5))
""",
    "Scan.run on a graph": """
n = 100000
start = np.concatenate([[0], np.minimum(2 * np.arange(n) + 1, 2 * n - 2)])
ends = np.concatenate([ring(n), ring(n)[:, ::-1]])
neighbour = np.ascontiguousarray(ends[np.argsort(ends[:, 0], kind="stable"), 1])
scan = kernels.graph_scan(np.arange(n), start, neighbour, np.ones(2 * n - 2))
states, numbers = np.zeros((1, 1, n), np.uint8), np.zeros(1, np.uint64)
waited = interrupt(
    lambda: scan.run(states, np.zeros((1, n)), 1.0, 1, numbers, 0, BEYOND, 1, 1)
)
""",
    "TermScan.run on facilities": """
def make():
    scan = kernels.term_scan(300)
    scan.add_facilities(1.0, benefits)
    return scan
def run(scan, count, threads=1):
    states, numbers = np.zeros((2, 2, 300), np.uint8), np.arange(2, dtype=np.uint64)
    states[:, 1] = 1
    scan.run(states, np.zeros((1, 300)), 1.0, 1, numbers, 0, count, 1, threads)
    return states
benefits = rng.random((400, 300))
scan = make()
waited = interrupt(lambda: run(scan, BEYOND, 2))
right = same(run(scan, 5), run(make(), 5))
""",
    "TermScan.run on groups": """
n = 100000
scan, states = kernels.term_scan(n), np.zeros((1, 1, n), np.uint8)
all_of_them = np.zeros(n, np.int64)
scan.add_groups(1.0, np.arange(n + 1), all_of_them, np.ones(n), np.array([0, 2]),
                np.array([0.0, n]), np.array([0.0, n]))
waited = interrupt(
    lambda: scan.run(states, np.zeros((1, n)), 1.0, 1, np.zeros(1, np.uint64), 0, BEYOND, 1, 1)
)
""",
    "TermScan.run on a determinant: one sweep of minutes": """
n = 3000
scan, states = kernels.term_scan(n), np.ones((1, 1, n), np.uint8)
scan.add_determinant(1.0, np.eye(n) + 0.1, True)
waited = interrupt(
    lambda: scan.run(states, np.full((1, n), 9.0), 1.0, 1, np.zeros(1, np.uint64), 0, 100, 1, 1)
)
""",
    "Clusters.move: a large batch, some seconds": """
n, m = 100000, 1500
clusters = kernels.clusters(n, ring(n), np.ones(n - 1))
states, numbers = np.zeros((m, n), np.uint8), np.arange(m, dtype=np.uint64)
waited = interrupt(lambda: clusters.move(states, np.zeros((1, n)), 1, numbers, 0, 1))
""",
    "propagate_logs": """
t, edges, one = rng.normal(size=100000), ring(100000), np.ones(99999)
u = np.zeros(2 * 99999)
waited = interrupt(lambda: kernels.propagate_logs(t, edges, one, one, 1.0, BEYOND, -1.0, u))
""",
    "propagate_logs: few elements, all of them neighbours": """
edges = np.ascontiguousarray(np.stack(np.triu_indices(900, 1), axis=1))
t, one, u = rng.normal(size=900), np.full(len(edges), 0.01), np.zeros(2 * len(edges))
waited = interrupt(lambda: kernels.propagate_logs(t, edges, one, one, 1.0, BEYOND, -1.0, u))
""",
    "propagate_extremes": """
t, edges, one = rng.normal(size=100000), ring(100000), np.ones(99999)
u = np.zeros((2, 2 * 99999))
waited = interrupt(lambda: kernels.propagate_extremes(t, edges, one, BEYOND, -1.0, u))
""",
    "mean_field": """
t, edges, one = rng.normal(size=100000), ring(100000), np.ones(99999)
logits, values = np.zeros((2, 100000)), np.zeros(2)
waited = interrupt(lambda: kernels.mean_field(t, edges, one, BEYOND, -1.0, logits, values))
""",
    "filter_field": """
padded, field = np.zeros((1, 1, 2200, 2200)), np.zeros((1, 1, 2000, 2000))
waited = interrupt(lambda: kernels.filter_field(padded, np.ones((1, 201, 201)), field))
""",
    "filter_sums": """
padded, x = np.zeros((1, 1, 2200, 2200)), np.zeros((1, 1, 2000, 2000))
waited = interrupt(lambda: kernels.filter_sums(padded, x, np.zeros((1, 1, 201, 201))))
""",
    "conditional_grid": """
p = 300 * 300
labels = np.broadcast_to(np.zeros(p, np.uint8), (1, 100, p))
labels, weights = np.ascontiguousarray(labels), np.ones((1, 2, p))
theta, numbers, sums = np.zeros((1, p)), np.zeros(1, np.uint64), np.zeros((1, p))
offsets = np.array([1, 300])
waited = interrupt(
    lambda: kernels.conditional_grid(
        offsets, weights, theta, labels, numbers, 1, 0, 10000, 1, sums
    )
)
""",
    "conditional_graph": """
n = 100000
labels, weights = np.zeros((1, 10, n), np.uint8), np.ones((1, n - 1))
theta, numbers, sums = np.zeros((1, n)), np.zeros(1, np.uint64), np.zeros((1, n))
waited = interrupt(
    lambda: kernels.conditional_graph(
        ring(n), weights, theta, labels, numbers, 1, 0, 100000, 1, sums
    )
)
""",
    "TreeSum.add: small trees": """
def grow(trees, leaves):
    # chains; the last node of each is a leaf, as is every second one
    n = 2 * leaves - 1
    inner = np.tile(np.arange(n) % 2 == 0, trees)
    inner[n - 1 :: n] = False
    at = np.arange(trees * n, dtype=np.int32)
    left, right = (np.where(inner, at + k, 0).astype(np.int32) for k in (1, 2))
    feature, threshold = np.where(inner, 0, -1).astype(np.int32), np.full(trees * n, -1, np.float32)
    return kernels.tree_sum(1, at[::n].copy(), feature, threshold, left, right, np.ones(trees * n))
trees, columns, sums = grow(2000, 32), np.zeros((1, 2**22), np.float32), np.zeros(2**22)
waited = interrupt(lambda: trees.add(columns, 2, sums))
few = np.zeros(100)
trees.add(columns[:, :100].copy(), 1, few)
right = bool((few == 2000).all())
""",
    "TreeSum.add: one tree, as deep as it is large": """
n = 2 * 10**6 + 1
inner = (np.arange(n) % 2 == 0) & (np.arange(n) < n - 1)
at = np.arange(n, dtype=np.int32)
left, right_ = (np.where(inner, at + k, 0).astype(np.int32) for k in (1, 2))
trees = kernels.tree_sum(1, np.zeros(1, np.int32), np.where(inner, 0, -1).astype(np.int32),
                         np.full(n, -1, np.float32), left, right_, np.ones(n))
waited = interrupt(lambda: trees.add(np.zeros((1, 2000), np.float32), 1, np.zeros(2000)))
""",
    "a handler that calls the kernel it has interrupted, and lets it go on": """
kernel, theta = image(200, 200), rng.normal(size=(1, 40000))
expected = maximize(kernel, theta, 100)
inner = []
signal.signal(signal.SIGINT, lambda *_: inner.append(maximize(kernel, theta)[0]))
timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
found = maximize(kernel, theta, 100)
timer.join()
signal.signal(signal.SIGINT, signal.default_int_handler)
waited = 0.0
right = same(found, expected) and all(np.array_equal(y, expected[0][:1]) for y in inner)
""",
}


def test_calls_of_users_stop_too():
    code = """
import signal
import numpy as np, logsuper as ls
signal.signal(signal.SIGINT, signal.default_int_handler)
structure = ls.prepare(ls.grid_cuts((300, 300)))
print("ready", flush=True)
structure.perturb(np.zeros(90000), [1.0, 1.0], n_samples=200_000, seed=1, n_jobs=2)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    since = time.monotonic()
    try:
        errors = child.communicate(timeout=60)[1]
    finally:
        child.kill()
    assert time.monotonic() - since < LIMIT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"


@functools.cache
def outcomes(module):
    """Run all cases one after the other; after a crash or a hang, go on with the next."""
    found, left = {}, list(CASES)
    while left:
        code = [SETUP.format(module=module)]
        for name in left:
            body = "".join(f"    {line}\n" for line in CASES[name].strip().splitlines())
            code.append(f"def case():\n    right = True\n{body}    return waited, right")
            code.append(f"print(json.dumps([{name!r}]), flush=True)")
            code.append("print(json.dumps(case()), flush=True)")
        command = [sys.executable, "-X", "faulthandler", "-c", "\n".join(code)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
            lines, errors = done.stdout.splitlines(), done.stderr
        except subprocess.TimeoutExpired as expired:
            lines, errors = (expired.stdout or b"").decode().splitlines(), "did not stop"
        for at in range(0, len(lines), 2):
            (name,) = json.loads(lines[at])
            found[name] = json.loads(lines[at + 1]) if at + 1 < len(lines) else errors[-2000:]
        assert left[0] in found, errors
        left = [name for name in left if name not in found]
    return found


@pytest.mark.parametrize("name", CASES)
def test_kernels_stop_and_go_on(name):
    module = kernels()
    if module is None:
        pytest.skip("there are no compiled kernels")
    outcome = outcomes(module.__name__)[name]
    assert isinstance(outcome, list), outcome
    waited, right = outcome
    assert waited is not None, "the call ended by itself: it was not long enough"
    assert waited < LIMIT
    assert right, "another result after the interrupt"
