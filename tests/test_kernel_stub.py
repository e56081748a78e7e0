"""The typed stub `_kernels.pyi` lists exactly the entries of the compiled modules."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import logsuper

STUB = Path(logsuper.__file__).parent / "_kernels.pyi"
# What nanobind says of an argument that the C++ code looks into by itself.
VAGUE = {"object", "object | None", "list"}


def described(entry: Any) -> ast.FunctionDef:
    """Parse the signature that nanobind writes, its array types spelled as in the stub."""
    names = {f"float{bits}": f"_Float{bits}" for bits in (32, 64)}
    names |= {f"int{bits}": f"_Int{bits}" for bits in (32, 64)}
    names |= {f"uint{bits}": f"_UInt{bits}" for bits in (8, 32, 64)}
    line = re.sub(r"ndarray\[dtype=(\w+)[^]]*\]", lambda m: names[m[1]], entry.__doc__)
    line = re.sub(r"logsuper\._kernels\w*\.", "", line)
    function = ast.parse(f"def {line}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def compare(stub: ast.FunctionDef, entry: Any) -> None:
    module = described(entry)
    assert ast.unparse(stub.returns or ast.Constant(0)) == ast.unparse(module.returns or stub)
    assert [ast.dump(d) for d in stub.args.defaults] == [ast.dump(d) for d in module.args.defaults]
    assert [a.arg for a in stub.args.args] == [a.arg for a in module.args.args]
    for said, is_ in zip(stub.args.args, module.args.args, strict=True):
        if is_.annotation is None or ast.unparse(is_.annotation) in VAGUE:
            continue
        assert said.annotation is not None
        assert ast.unparse(said.annotation) == ast.unparse(is_.annotation), said.arg


@pytest.mark.parametrize("build", ["_kernels", "_kernels_avx2"])
def test_the_stub_lists_exactly_the_entries(build: str) -> None:
    module = pytest.importorskip(f"logsuper.{build}", exc_type=ImportError)
    listed = {
        node.name: node
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert set(listed) == {name for name in vars(module) if not name.startswith("_")}
    for name, node in listed.items():
        entry = getattr(module, name)
        if isinstance(node, ast.FunctionDef):
            compare(node, entry)
            continue
        members = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        assert set(members) == {member for member in vars(entry) if not member.startswith("_")}
        assert [ast.unparse(base) for base in node.bases] == [
            base.__name__ for base in entry.__bases__ if base is not object
        ]
        for member, stub in members.items():
            if not inspect.isdatadescriptor(getattr(entry, member)):
                compare(stub, getattr(entry, member))


def test_a_wrong_stub_is_noticed() -> None:
    module = pytest.importorskip("logsuper._kernels", exc_type=ImportError)
    stub = ast.parse(
        "def draw_noise(key: int, problem: int, sample: int, out: _Int64) -> None: ..."
    )
    assert isinstance(stub.body[0], ast.FunctionDef)
    with pytest.raises(AssertionError):
        compare(stub.body[0], module.draw_noise)
