"""Helpers shared by all rooms: types, checks, seeds, threads, memory, files, warnings."""

from typing import TYPE_CHECKING

from logsuper._base._beat import beat as beat
from logsuper._base._beat import listening as listening
from logsuper._base._boxes import Box as Box
from logsuper._base._boxes import Tile as Tile
from logsuper._base._boxes import even_cuts as even_cuts
from logsuper._base._boxes import extent as extent
from logsuper._base._boxes import flat_index as flat_index
from logsuper._base._boxes import make_tiles as make_tiles
from logsuper._base._boxes import on_frame as on_frame
from logsuper._base._boxes import relative as relative
from logsuper._base._boxes import volume as volume
from logsuper._base._checks import add_up as add_up
from logsuper._base._checks import arrays_in as arrays_in
from logsuper._base._checks import as_array as as_array
from logsuper._base._checks import as_float as as_float
from logsuper._base._checks import as_floats as as_floats
from logsuper._base._checks import as_hyperedges as as_hyperedges
from logsuper._base._checks import as_indices as as_indices
from logsuper._base._checks import as_list as as_list
from logsuper._base._checks import as_members as as_members
from logsuper._base._checks import as_numeric as as_numeric
from logsuper._base._checks import as_vector as as_vector
from logsuper._base._checks import check_binary as check_binary
from logsuper._base._checks import check_budget as check_budget
from logsuper._base._checks import check_callback as check_callback
from logsuper._base._checks import check_choice as check_choice
from logsuper._base._checks import check_confidence as check_confidence
from logsuper._base._checks import check_field as check_field
from logsuper._base._checks import check_fixed as check_fixed
from logsuper._base._checks import check_flag as check_flag
from logsuper._base._checks import check_integer as check_integer
from logsuper._base._checks import check_natural as check_natural
from logsuper._base._checks import check_number as check_number
from logsuper._base._checks import check_probabilities as check_probabilities
from logsuper._base._checks import check_size as check_size
from logsuper._base._checks import entry as entry
from logsuper._base._checks import first_appearances as first_appearances
from logsuper._base._checks import first_index as first_index
from logsuper._base._checks import frozen as frozen
from logsuper._base._checks import is_bit as is_bit
from logsuper._base._checks import is_single as is_single
from logsuper._base._checks import places_of as places_of
from logsuper._base._checks import refuse as refuse
from logsuper._base._checks import refuse_negative as refuse_negative
from logsuper._base._files import atomic_write as atomic_write
from logsuper._base._files import load_arrays as load_arrays
from logsuper._base._files import save_arrays as save_arrays
from logsuper._base._forests import root_forest as root_forest
from logsuper._base._layouts import as_rows as as_rows
from logsuper._base._layouts import by_number as by_number
from logsuper._base._layouts import check_shape as check_shape
from logsuper._base._memory import SMALL as SMALL
from logsuper._base._memory import as_text as as_text
from logsuper._base._memory import available_memory as available_memory
from logsuper._base._memory import check_limit as check_limit
from logsuper._base._memory import require_memory as require_memory
from logsuper._base._precision import PrecisionWarning as PrecisionWarning
from logsuper._base._random import Seed as Seed
from logsuper._base._random import as_generator as as_generator
from logsuper._base._random import as_key as as_key
from logsuper._base._random import as_keys as as_keys
from logsuper._base._random import stream_key as stream_key
from logsuper._base._threads import count_threads as count_threads
from logsuper._base._types import EPS as EPS
from logsuper._base._types import Bits as Bits
from logsuper._base._types import BoolArray as BoolArray
from logsuper._base._types import FloatArray as FloatArray
from logsuper._base._types import IntArray as IntArray

if TYPE_CHECKING:
    from logsuper._base._warnings import ConvergenceWarning as ConvergenceWarning


def __getattr__(name: str) -> object:
    """Import `ConvergenceWarning`, which needs scikit-learn, on first use."""
    if name != "ConvergenceWarning":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from logsuper._base._warnings import ConvergenceWarning

    return ConvergenceWarning
