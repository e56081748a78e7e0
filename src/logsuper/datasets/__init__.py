"""Example data: silhouettes and points that need no download, and a loader of horses."""

from logsuper.datasets._corrupt import corrupt
from logsuper.datasets._mixture import MixtureGraph, gaussian_mixture_graph
from logsuper.datasets._scenes import Scenes, make_scenes
from logsuper.datasets._silhouettes import make_silhouettes
from logsuper.datasets._weizmann import Masks, load_weizmann

__all__ = [
    "Masks",
    "MixtureGraph",
    "Scenes",
    "corrupt",
    "gaussian_mixture_graph",
    "load_weizmann",
    "make_scenes",
    "make_silhouettes",
]
