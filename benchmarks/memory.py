"""Peak memory of one solve, measured in a process of its own: `python -m benchmarks.memory SIZE`.

This is the peak resident set while the call runs, minus its size before (the library, the prepared
structure, theta) and minus the arrays that the call returns.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import large_field


def _status(key: str) -> int:
    """Return a size in bytes from the kernel's record of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {key}")


def _reset_peak() -> bool:
    """Reset the peak to the present size, so that making the input does not hide the call."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _resident() -> tuple[int, str]:
    if Path("/proc/self/status").exists():
        return _status("VmRSS"), "VmRSS"
    return _peak(), "ru_maxrss"


def _peak() -> int:
    if Path("/proc/self/status").exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(size: int) -> dict[str, Any]:
    """Return bytes per pixel of the call and of the prepared structure, and the method used."""
    import logsuper as ls

    theta = large_field(size)
    alpha = np.ones(2)
    # One small solve first, so that thread pools, lookup tables and imports are not counted.
    ls.prepare(list(ls.grid_cuts((16, 16)))).maximize(theta[:, :256].copy(), alpha, n_jobs=1)
    gc.collect()
    empty, _ = _resident()
    prepared = ls.prepare(list(ls.grid_cuts((size, size))))
    gc.collect()
    reset = _reset_peak()
    # Without the reset, an earlier peak hides part of the growth; report that.
    before, method = _resident() if reset else (_peak(), "peak not reset, a lower bound")
    y, value, stats = prepared.maximize(theta, alpha, n_jobs=1)
    growth = _peak() - before
    outputs = sum(np.asarray(array).nbytes for array in (y, value, stats))
    pixels = size * size
    return {
        "size": size,
        "call": (growth - outputs) / pixels,
        "prepare": max(0, before - empty) / pixels,
        "method": f"growth of the peak over {method}" if reset else method,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
