"""The command line, as ``python -m logsuper``."""

from logsuper.cli import main

if __name__ == "__main__":
    main()
