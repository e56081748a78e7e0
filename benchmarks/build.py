"""Cost of building the kernels: `python -m benchmarks.build [SOURCE]`.

Builds the wheel of a source tree (this one by default) in a temporary directory, with two jobs, and
prints the wall-clock and processor seconds, and the bytes of the wheel and its kernels.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path


def build(source: Path) -> dict[str, str]:
    """Return the cost of one clean build."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-q"]
        command += ["--wheel-dir", folder, f"--config-settings=build-dir={folder}/build"]
        environment = os.environ | {"CMAKE_BUILD_PARALLEL_LEVEL": "2"}
        started = time.perf_counter()
        subprocess.run([*command, str(source)], check=True, env=environment)
        clock = time.perf_counter() - started
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        (wheel,) = Path(folder).glob("*.whl")
        files = {file.filename: file.file_size for file in zipfile.ZipFile(wheel).infolist()}
        kernels = [size for name, size in files.items() if name.endswith((".so", ".pyd"))]
        return {
            "seconds on the clock": f"{clock:.1f}",
            "seconds of all processors": f"{used.ru_utime + used.ru_stime:.1f}",
            "bytes of the wheel": f"{wheel.stat().st_size:,}",
            f"bytes of the {len(kernels)} kernel modules in it": f"{sum(kernels):,}",
        }


if __name__ == "__main__":
    for name, cost in build(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()).items():
        print(f"{name:40} {cost:>12}")
