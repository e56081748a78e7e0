"""Run the kernels under sanitizers: ``python -m tests.sanitize [address] [thread]``, or make.

Each gets a copy of the package with kernels of its own in build/sanitize, which goes before the
installed one on the path of the interpreter.

address: AddressSanitizer and UndefinedBehaviorSanitizer, under the tests of the solvers, bounds and
samplers and under the fuzz of the kernels.
thread: ThreadSanitizer, with several Python threads on one prepared structure (`threads_driver`).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "sanitize"
TESTS = ["tests/solvers", "tests/bounds", "tests/sampling"]
FUZZ_SECONDS = 60

# For each kind: what the compiler is told, and the libraries that must be there before Python.
SANITIZERS = {
    "address": ("address,undefined", ("libasan.so", "libubsan.so", "libstdc++.so.6")),
    "thread": ("thread", ("libtsan.so", "libstdc++.so.6")),
}
OPTIONS = {
    # Python keeps memory until the end, and tests ask for more than there is.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4000",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=0:exitcode=66",
}


def main(names: list[str]) -> int:
    """Build and run what was asked for; return the exit code."""
    unknown = set(names) - SANITIZERS.keys()
    if unknown:
        raise SystemExit(f"{unknown.pop()!r} is none of {', '.join(SANITIZERS)}")
    failed = [name for name in names or SANITIZERS if not _clean(name)]
    print(f"NOT clean: {', '.join(failed)}" if failed else "sanitizers: clean")
    return 1 if failed else 0


def _clean(name: str) -> bool:
    flags, libraries = SANITIZERS[name]
    environment = os.environ | OPTIONS | {"LD_PRELOAD": ":".join(map(_library, libraries))}
    environment |= {"PYTHONPATH": str(_build(name, flags)), "PYTHONMALLOC": "malloc"}
    environment |= {"SANITIZED": name}
    python = [sys.executable]
    if name == "thread":
        return _run("several threads", [*_fixed_addresses(), *python, "-m", _DRIVER], environment)
    tests = [*python, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", *TESTS]
    fuzz = [*python, "-m", "tests.fuzzing.kernels", str(FUZZ_SECONDS), "0"]
    return all([_run("tests", tests, environment), _run("fuzz", fuzz, environment)])


_DRIVER = "tests.threads_driver"


def _library(name: str) -> str:
    """Return the path of a library of the compiler; the sanitizers must come first."""
    compiler = os.environ.get("CXX", "c++")
    if not sys.platform.startswith("linux") or shutil.which(compiler) is None:
        raise SystemExit(f"sanitizers need Linux and a C++ compiler; {compiler!r} was not found")
    asked = [compiler, f"-print-file-name={name}"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_file():
        raise SystemExit(
            f"{compiler} has no {name}: install the sanitizers of the compiler (on Debian they "
            "come with g++, on Fedora they are libasan, libubsan and libtsan), or set CXX"
        )
    return path


def _build(name: str, flags: str) -> Path:
    """Build the kernels with a sanitizer; return the folder with a package that has them."""
    build, package = BUILD / name, BUILD / name / "package"
    nanobind = [sys.executable, "-m", "nanobind", "--cmake_dir"]
    where = subprocess.run(nanobind, capture_output=True, text=True, check=True).stdout.strip()
    print(f"building the kernels with -fsanitize={flags} in {build.relative_to(ROOT)} ...")
    cmake = shutil.which("cmake", path=_tools()) or "cmake"
    configure = [cmake, "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    configure += [f"-DLOGSUPER_SANITIZE={flags}", f"-Dnanobind_DIR={where}"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}"]
    if shutil.which("ninja", path=_tools()):
        configure += ["-G", "Ninja"]
    install = [cmake, "--install", str(build), "--prefix", str(package)]
    for command in (configure, [cmake, "--build", str(build), "-j", "2"], install):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    # kernels that were built in the source tree must not replace those with the sanitizer
    kernels = shutil.ignore_patterns("*.so")
    shutil.copytree(
        ROOT / "src" / "logsuper", package / "logsuper", ignore=kernels, dirs_exist_ok=True
    )
    return package


def _tools() -> str:
    """Return the path of commands, those of this environment first."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])


def _fixed_addresses() -> list[str]:
    """Return how to start a process without random addresses, which ThreadSanitizer may need."""
    setarch = shutil.which("setarch")
    return [setarch, platform.machine(), "-R"] if setarch else []


def _run(title: str, command: list[str], environment: dict[str, str]) -> bool:
    print(f"--- {title}: {' '.join(command)}", flush=True)
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
