r"""Learn, bound, sample and decode log-supermodular models.

A log-supermodular model is :math:`p(x) \propto \exp(-f(x))` on :math:`\{0, 1\}^D` with a
submodular :math:`f`. Everything here stands on the exact solution of
:math:`\max_y \theta^\top y - f(y)` for a batch of fields :math:`\theta`.

The public names are listed once, in ``__init__.pyi``, for type checkers and for this module, which
loads each from its room when it is first used: ``import logsuper`` itself costs next to nothing.
"""

from __future__ import annotations

import ast
import importlib
import pathlib

__version__ = "0.1.0"


def _read_names() -> dict[str, str]:
    """Map each public name to the module that `__init__.pyi` imports it from."""
    stub = pathlib.Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    return {
        alias.asname or alias.name: str(node.module)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


_HOMES = _read_names()

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'logsuper' has no attribute {name!r}")
    home = _HOMES[name]
    if home == __name__:  # a room itself
        value: object = importlib.import_module(f"{home}.{name}")
    else:
        value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
