"""The command line: `logsuper COMMAND`."""

from logsuper.cli._main import main

__all__ = ["main"]
