"""Helpers shared by all rooms: types, checks, seeds, threads, memory, files, warnings."""

from typing import TYPE_CHECKING

from logsuper._base._beat import beat, listening
from logsuper._base._checks import (
    add_up,
    arrays_in,
    as_array,
    as_float,
    as_floats,
    as_hyperedges,
    as_indices,
    as_list,
    as_members,
    as_numeric,
    as_vector,
    check_binary,
    check_callback,
    check_choice,
    check_confidence,
    check_field,
    check_fixed,
    check_flag,
    check_integer,
    check_natural,
    check_number,
    check_probabilities,
    check_size,
    entry,
    first_index,
    frozen,
    is_bit,
    is_single,
    refuse,
    refuse_negative,
)
from logsuper._base._files import atomic_write, load_arrays, save_arrays
from logsuper._base._forests import root_forest
from logsuper._base._layouts import as_rows, by_number, check_shape
from logsuper._base._memory import SMALL, as_text, check_limit, require_memory
from logsuper._base._precision import PrecisionWarning
from logsuper._base._random import Seed, as_generator, as_key, as_keys, stream_key
from logsuper._base._threads import count_threads
from logsuper._base._types import EPS, FloatArray, IntArray

if TYPE_CHECKING:
    from logsuper._base._warnings import ConvergenceWarning

__all__ = [
    "EPS",
    "SMALL",
    "ConvergenceWarning",
    "FloatArray",
    "IntArray",
    "PrecisionWarning",
    "Seed",
    "add_up",
    "arrays_in",
    "as_array",
    "as_float",
    "as_floats",
    "as_generator",
    "as_hyperedges",
    "as_indices",
    "as_key",
    "as_keys",
    "as_list",
    "as_members",
    "as_numeric",
    "as_rows",
    "as_text",
    "as_vector",
    "atomic_write",
    "beat",
    "by_number",
    "check_binary",
    "check_callback",
    "check_choice",
    "check_confidence",
    "check_field",
    "check_fixed",
    "check_flag",
    "check_integer",
    "check_limit",
    "check_natural",
    "check_number",
    "check_probabilities",
    "check_shape",
    "check_size",
    "count_threads",
    "entry",
    "first_index",
    "frozen",
    "is_bit",
    "is_single",
    "listening",
    "load_arrays",
    "refuse",
    "refuse_negative",
    "require_memory",
    "root_forest",
    "save_arrays",
    "stream_key",
]


def __getattr__(name: str) -> object:
    """Import `ConvergenceWarning`, which needs scikit-learn, on first use."""
    if name != "ConvergenceWarning":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from logsuper._base._warnings import ConvergenceWarning

    return ConvergenceWarning
