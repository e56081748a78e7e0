"""Data to try things on: silhouettes and clusters of points that need no download."""

from logsuper.datasets._mixture import MixtureGraph, gaussian_mixture_graph
from logsuper.datasets._silhouettes import make_silhouettes

__all__ = ["MixtureGraph", "gaussian_mixture_graph", "make_silhouettes"]
