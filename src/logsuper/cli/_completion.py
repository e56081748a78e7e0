"""`logsuper completion SHELL`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click

_EXAMPLES = """\b
Examples:
  eval "$(logsuper completion bash)"      # in ~/.bashrc
  eval "$(logsuper completion zsh)"       # in ~/.zshrc
  logsuper completion fish > ~/.config/fish/completions/logsuper.fish
"""


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    command = context.find_root().command
    click.echo(found(command, {}, "logsuper", "_LOGSUPER_COMPLETE").source())
