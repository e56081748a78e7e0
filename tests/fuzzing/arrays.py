"""Hostile arguments: every public callable, with NaN, extremes, wrong shapes, types and layouts."""

from __future__ import annotations

from tests.fuzzing import on_fields, on_functions, on_learning, on_models
from tests.fuzzing.calls import target

# For one call.
CPU_SECONDS, WALL_SECONDS, MEGABYTES = 20.0, 180.0, 2048

TARGETS = {
    name: target(maker)
    for module in (on_functions, on_models, on_learning, on_fields)
    for name, maker in module.MAKERS.items()
}
