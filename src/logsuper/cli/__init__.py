"""The command line: `logsuper COMMAND`."""

import sys

try:
    from logsuper.cli._main import main
except KeyboardInterrupt:  # while the modules of the commands are loaded
    sys.stderr.write("Interrupted.\n")
    raise SystemExit(130) from None

__all__ = ["main"]
