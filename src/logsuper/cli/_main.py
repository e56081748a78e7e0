"""The `logsuper` group; each command has a module of its own."""

from __future__ import annotations

import functools
import sys
from importlib import import_module
from typing import Any

import click

from logsuper import __version__
from logsuper.cli._console import one_line, print_object, tolerate_encodings
from logsuper.cli._shell_words import plain_warnings

COMMANDS = [
    "apply",
    "bounds",
    "completion",
    "crf",
    "demo",
    "denoise",
    "fit",
    "info",
    "reproduce",
    "segment",
    "studio",
]
"""The commands; NAME is the function NAME in `_NAME.py`."""


class _Interrupted(click.Abort):
    """Ctrl-C, as opposed to a question that was not answered."""


class _Group(click.Group):
    """A group that answers bad input with one line and exit code 2, and Ctrl-C with one and 130."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click itself would print an empty line for Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted from None

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run, with click's own standalone mode replaced by a terser one."""
        # Outside its standalone mode click raises its errors and returns exit codes.
        run = functools.partial(super().main, *args, **options, standalone_mode=False)
        if not standalone_mode:
            return run()
        tolerate_encodings()
        given = list(args[0] if args else options.get("args") or sys.argv[1:])
        wants_json = "--json" in given[: given.index("--") if "--" in given else None]
        try:
            with plain_warnings():
                code: Any = run()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(0)
        except click.ClickException as error:
            message = one_line(error.format_message())
            click.echo(f"Error: {message}", err=True)
            if wants_json:
                print_object({"error": message, **getattr(error, "content", {})})
            sys.exit(2)
        except _Interrupted:
            click.echo("Interrupted.", err=True)
            if wants_json:
                print_object({"error": "interrupted"})
            sys.exit(130)
        except click.Abort:
            click.echo("Aborted.", err=True)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="logsuper")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Exact, fast work with log-supermodular models: p(x) ~ exp(-f(x)), f submodular.

    Try "logsuper demo" first. "logsuper denoise masks/ --out clean/" cleans a folder of noisy
    masks. "logsuper COMMAND --help" explains a command.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _name in COMMANDS:
    main.add_command(getattr(import_module(f"logsuper.cli._{_name}"), _name))
