"""Messages of the library in the words of the shell: options in the place of arguments."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from logsuper.cli._console import one_line

# What messages tell users of Python, and what that is in the shell; longer ones first.
_WORDS = (
    ("labels of some pixels, fit(noisy, clean) with NaN for the others", "clean masks (--clean)"),
    ("labels of some pixels (NaN for the others)", "clean masks of some of them (--clean)"),
    (", or features of a classifier (logsuper.learning.make_examples)", ""),
    ("give the noise (noise=, or a channel) if you know it, or try 'asymmetric' if zeros and ones "
     "may have rates of their own", "give --noise RATE if you know it, or try --noise asymmetric"),
    ("give the channel if", "give --noise RATE if"),
    ("give the channel", "give --noise RATE"),
    ("give noise as a channel", "give --noise RATE"),
    ("is something to see; give noise if you know it", "is something to see"),  # grey levels
    ("ive noise if", "ive --noise RATE if"),
    ("noise='auto' takes", "--noise auto takes"),
    ("noise = ", "--noise is "),
    ("Raise penalty, give", "Give"),
    ("(flatten_light)", "first"),
    (", as flatten_light(noisy) does", ""),
    (", noisy[:, ::4, ::4]", ""),
    (" m.marginals('sampling') estimates them with standard errors", ""),
    ("observed does not", "the images do not"),
    ("observed looks", "the images look"),
    ("observed is", "the images are"),
    ("observed has", "the images have"),
    ("noisy is not smooth shapes with independent flips: it has",
     "the images are not smooth shapes with independent flips: they have"),
    ("noisy looks like", "the images look like"),
    ("inside of regions, noisy is", "inside of regions, the images are"),
    ("do not describe noisy:", "do not describe the images:"),
)  # fmt: skip
_LEARNER = re.compile(r",? or learner='\w+'|: learner='\w+' is safest")
_IMAGE = re.compile(r"\bnoisy\[(\d+)\](?:\[\d+(?:, \d+)*\])?")


def in_shell_words(text: str, names: Sequence[str] = ()) -> str:
    """Return a message of the library for users of the shell.

    Parameters
    ----------
    text : str
    names : sequence of str
        What the images are called that the message may number, "noisy[3]".
    """
    for python, shell in _WORDS:
        text = text.replace(python, shell)
    text = _LEARNER.sub("", text)

    def named(found: re.Match[str]) -> str:
        number = int(found[1])
        return names[number] if number < len(names) else f"image {number + 1}"

    return one_line(_IMAGE.sub(named, text)).strip()


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings as one line each on the standard error, each text once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = in_shell_words(str(message))
        if text not in said:
            said.add(text)
            click.echo(f"Warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def collected_warnings(names: Sequence[str] = ()) -> Iterator[list[str]]:
    """Yield a list that has, in the end, what was warned of, except that fits have not converged.

    Parameters
    ----------
    names : sequence of str
        As in `in_shell_words`.
    """
    from logsuper._base import ConvergenceWarning

    texts: list[str] = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # is part of the summary
        try:
            yield texts
        finally:
            found = [in_shell_words(str(one.message), names) for one in said]
            texts += dict.fromkeys(found)
