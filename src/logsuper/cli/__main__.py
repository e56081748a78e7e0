"""Run the command line as ``python -m logsuper.cli``."""

from logsuper.cli._main import main

main(prog_name="logsuper")
