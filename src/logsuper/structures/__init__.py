"""Structures of lists of functions (grid, pairwise, ...), recognised once and cached."""

from logsuper.structures._grid import STENCILS as STENCILS
from logsuper.structures._grid import Grid as Grid
from logsuper.structures._grid import Image as Image
from logsuper.structures._pairwise import Free as Free
from logsuper.structures._pairwise import Pairs as Pairs
from logsuper.structures._pairwise import Pairwise as Pairwise
from logsuper.structures._structure import KINDS as KINDS
from logsuper.structures._structure import EdgeLists as EdgeLists
from logsuper.structures._structure import Structure as Structure
from logsuper.structures._structure import find_structure as find_structure
from logsuper.structures._structure import image_of as image_of
from logsuper.structures._structure import pairwise_of as pairwise_of
from logsuper.structures._structure import structure_of as structure_of
