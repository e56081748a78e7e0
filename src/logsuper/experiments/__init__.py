"""The experiments of the paper, each a module with ``run`` and ``save``."""

from logsuper.experiments import figure1

__all__ = ["figure1"]
