"""What can become of a case, and which errors are clear."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import traceback
from pathlib import Path
from typing import Any, Protocol

import logsuper

RESULT, CLEAR, OPAQUE = "result", "clear error", "opaque error"
CRASH, HANG, WRONG = "crash", "hang", "wrong"
OUTCOMES = (RESULT, CLEAR, OPAQUE, CRASH, HANG, WRONG)
FAILURES = (OPAQUE, CRASH, HANG, WRONG)

PACKAGE = Path(logsuper.__file__).parent
TESTS = Path(__file__).resolve().parents[1]

# Errors that the library may raise; others tell of something that nobody thought of.
_ALLOWED = (ValueError, TypeError, MemoryError, OSError, logsuper.NotCoalesced)

# scikit-learn checks the arguments of its estimators here; its users know the messages.
_CHECKED_BY_SKLEARN = (
    *("sklearn/utils/validation.py", "sklearn/utils/_param_validation.py"),
    "sklearn/utils/_array_api.py",
)


_KERNEL_CALL = re.compile(r"\b(kernel|native|_kernel)\w*\.\w+\(")


class UserError(Exception):
    """Raised by callables that a fuzz hands over: the library must let it through."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of a case, and what there is to say about it."""

    outcome: str
    message: str = ""


class Case(Protocol):
    """One attempt, made of a random generator, and not yet run."""

    def describe(self) -> str:
        """Return what will be done, for a reader."""

    def run(self) -> Verdict:
        """Do it."""


def judge(error: BaseException) -> Verdict:
    """Return whether an error is clear: one that the library raised itself, in its own words.

    An IndexError is opaque, and so is a ValueError from within numpy: it speaks of arrays that the
    caller never saw. The line that raised decides, for functions in C leave no frame of their own.
    """
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    told = f"{type(error).__name__}: {error} ({_place(last)})"
    if isinstance(error, UserError):
        return Verdict(CLEAR, told)
    if not isinstance(error, _ALLOWED):
        return Verdict(OPAQUE, told)
    if isinstance(error, OSError) and error.filename is not None:
        return Verdict(CLEAR, told)  # the system's words, and the name of the file
    if isinstance(error, MemoryError) and "Unable to allocate" in str(error):
        return Verdict(CLEAR, told)  # numpy's words, with the shape that was asked for
    file = Path(last.filename)
    if file.as_posix().endswith("numpy/ma/core.py") and "unsupported operand" in str(error):
        return Verdict(CLEAR, told)  # f + a masked array: each leaves it to the other
    if file.is_relative_to(TESTS) and isinstance(error, ValueError | TypeError):
        return Verdict(CLEAR, told)  # raised by a user's function, or by Python at the call itself
    if file.is_relative_to(PACKAGE) and last.lineno in _raising_lines(file) and str(error):
        return Verdict(CLEAR, told)
    if type(error) is ValueError and _KERNEL_CALL.search(last.line or ""):
        return Verdict(CLEAR, told)  # raised by a compiled kernel, in the library's words
    if file.as_posix().endswith(_CHECKED_BY_SKLEARN):
        return Verdict(CLEAR, told)
    return Verdict(OPAQUE, told)


def _place(frame: traceback.FrameSummary) -> str:
    return f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}"


@functools.cache
def _raising_lines(file: Path) -> frozenset[int]:
    """Return the lines of a source file that belong to a ``raise`` with an error of its own."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None and node.end_lineno is not None:
            lines.update(range(node.lineno, node.end_lineno + 1))
    return frozenset(lines)


def shorten(value: Any, length: int = 160) -> str:
    """Return a value on one line, without its middle if it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= length else f"{text[: length // 2]} ... {text[-length // 2 :]}"
