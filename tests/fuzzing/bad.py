"""An attack on a library that does everything wrong: what tests the fuzz itself."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import logsuper as ls
from tests.fuzzing.outcomes import RESULT, WRONG, Verdict

CPU_SECONDS, WALL_SECONDS, MEGABYTES = 0.5, 4.0, 512


@dataclasses.dataclass
class _Case:
    action: Callable[[], Any]

    def describe(self) -> str:
        return self.action.__name__

    def run(self) -> Verdict:
        found = self.action()
        return found if isinstance(found, Verdict) else Verdict(RESULT)


def _answer() -> Any:
    return ls.Cut(2, [(0, 1)])([0, 1])


def _refuse() -> Any:
    return ls.Cut(2, [(0, 5)])


def _index() -> Any:
    return [][1]


def _from_numpy() -> Any:
    # reaches a line of the library that calls numpy with what it was given
    return ls.SubmodularFunction._in_blocks(ls.Modular([1.0]), None, None, ())  # type: ignore[arg-type]


def _warn() -> Any:
    return np.array([1e300]) * 1e300


def _print() -> Any:
    os.write(1, b"DLASCL parameter number 4 had an illegal value\n")


def _allocate() -> Any:
    return bytearray(1 << 40)


def _crash() -> Any:
    ctypes.string_at(0)


def _spin() -> Any:
    while True:
        pass


def _sleep() -> Any:
    time.sleep(60)


def _lie() -> Any:
    return Verdict(WRONG, "two and two are five")


def _target(action: Callable[[], Any]) -> Callable[..., _Case]:
    return lambda rng, intact: _Case(action)


TARGETS = {
    action.__name__.strip("_"): _target(action)
    for action in (
        *(_answer, _refuse, _index, _from_numpy, _warn, _print, _allocate),
        *(_crash, _spin, _sleep, _lie),
    )
}
