"""The log-partition function from below, from above and exactly; one module a method."""

from logsuper.bounds._errors import NotApplicable, TooLarge
from logsuper.bounds._results import Bound, Bracket, Marginals

__all__ = ["Bound", "Bracket", "Marginals", "NotApplicable", "TooLarge"]
