"""What learners and decoders are given, checked before any of them begins."""

from __future__ import annotations

from logsuper._base import count_threads
from logsuper.learning._examples import Examples

__all__ = ["check_examples", "check_observed"]


def check_examples(examples: object, n_jobs: int | None = None) -> None:
    """Refuse what is not `Examples`, and what is no number of threads."""
    if not isinstance(examples, Examples):
        raise TypeError(
            f"examples must be what make_examples returns, got a {type(examples).__name__}"
        )
    count_threads(n_jobs)


def check_observed(examples: Examples, who: str) -> None:
    """Refuse examples without observations; `who` begins the message."""
    check_examples(examples)
    if examples.channel is None or any(group.observed is None for group in examples.groups):
        raise ValueError(f"{who} observations; give observed and its channel")
