"""The package as a whole: what it exports, what importing it costs, what it must not do."""

import doctest
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from cases import each

import logsuper

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(logsuper.__file__).resolve().parent
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(logsuper.__path__, "logsuper.")
    if not module.name.endswith(("._kernels", ".__main__"))
)


def python(code: str, **environment: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return result.stdout


@each("name", logsuper.__all__)
def test_public_name_resolves(name):
    assert getattr(logsuper, name) is not None
    assert name in dir(logsuper)


@pytest.mark.parametrize("room", ["functions", "solvers", "datasets", "report", "studio"])
def test_rooms_export_what_they_say(room):
    module = importlib.import_module(f"logsuper.{room}")
    for name in module.__all__:
        assert hasattr(module, name)
        assert (getattr(module, name).__doc__ or "").strip(), f"{room}.{name} has no docstring"


def test_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'Cutt'"):
        logsuper.Cutt


def test_import_is_light():
    heavy = "{'numpy', 'scipy', 'sklearn', 'matplotlib', 'PIL', 'click', 'rich', 'jinja2'}"
    assert python(f"import sys, logsuper; print({heavy} & set(sys.modules))") == "set()\n"


def test_solving_needs_no_pictures_no_learners_no_command_line():
    code = """
import sys, time
start = time.process_time()
import logsuper as ls
ls.Cut, ls.maximize, ls.prepare, ls.min_norm_point
seconds = time.process_time() - start
heavy = {"sklearn", "matplotlib", "PIL", "click", "rich", "jinja2", "joblib"}
heavy |= {"scipy.optimize", "scipy.stats"}
print(heavy & set(sys.modules), seconds < 1.0)
"""
    python(code)  # once to write the byte code
    assert python(code) == "set() True\n"


def test_version_is_the_installed_one():
    try:
        installed = importlib.metadata.version("logsuper")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("run from the source tree")
    assert installed == logsuper.__version__


def test_types_are_shipped():
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name, few_trees):
    if name.startswith("logsuper.torch"):
        pytest.importorskip("torch.autograd", reason="PyTorch is not installed: make test-torch")
    if name in ("logsuper.studio._app", "logsuper.studio._tab"):
        pytest.importorskip("starlette", reason="the extra studio is not installed")
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


ROOMS = ["bounds", "channels", "datasets", "estimators", "functions", "io", "learning"]
ROOMS += ["sampling", "solvers"]


@pytest.mark.parametrize("room", ROOMS)
def test_public_names_have_examples_on_public_imports(room):
    module = importlib.import_module(f"logsuper.{room}")
    for name in module.__all__:
        found = getattr(module, name)
        if callable(found):  # not a registry
            text = inspect.getdoc(found) or ""
            assert ">>>" in text, f"logsuper.{room}.{name} has no example"
            assert not re.search(r">>> .*import.*\b_|>>> .*logsuper\.\w*\._", text), name


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("importlinter")
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    command += ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=source)


def test_rooms_import_one_way():
    result = lint_imports(PACKAGE.parent)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_contract_sees_a_breach(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "logsuper", ignore=shutil.ignore_patterns("*.so"))
    (tmp_path / "logsuper" / "functions" / "_breach.py").write_text("import logsuper.solvers\n")
    result = lint_imports(tmp_path)
    assert result.returncode != 0
    assert "logsuper.functions" in result.stdout and "logsuper.solvers" in result.stdout


def test_a_machine_that_can_compile_has_the_kernels(tmp_path):
    """The install falls back to Python silently; a broken build must not go unseen here."""
    try:
        importlib.metadata.version("logsuper")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("run from the source tree")
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    probe = tmp_path / "probe.cpp"
    probe.write_text("#include <Python.h>\n#include <optional>\nstd::optional<int> value;\n")
    include = sysconfig.get_path("include")
    command = [compiler, "-std=c++17", f"-I{include}", "-c", str(probe), "-o", f"{probe}.o"]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("the C++ compiler cannot build Python extensions")
    assert importlib.util.find_spec("logsuper._kernels"), "the build of the kernels failed"
