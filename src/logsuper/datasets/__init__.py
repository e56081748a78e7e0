"""Data to try things on: procedural silhouettes that need no download."""

from logsuper.datasets._silhouettes import make_silhouettes

__all__ = ["make_silhouettes"]
