"""Structures of lists of functions (grid, pairwise, ...), recognised once and cached."""

from logsuper.structures._grid import STENCILS as STENCILS
from logsuper.structures._grid import Grid
from logsuper.structures._image import Image
from logsuper.structures._lists import EdgeLists
from logsuper.structures._pairs import Free, Pairs
from logsuper.structures._pairwise import Pairwise
from logsuper.structures._structure import KINDS as KINDS
from logsuper.structures._structure import (
    Structure,
    find_structure,
    image_of,
    pairwise_of,
    structure_of,
)

__all__ = [
    "EdgeLists",
    "Free",
    "Grid",
    "Image",
    "Pairs",
    "Pairwise",
    "Structure",
    "find_structure",
    "image_of",
    "pairwise_of",
    "structure_of",
]
