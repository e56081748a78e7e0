"""`logsuper studio [IMAGE]`: a page in the browser to clean masks and segment images by hand."""

from __future__ import annotations

from pathlib import Path

import click

from logsuper.cli._inputs import TextPath

__all__ = ["studio"]

_EXAMPLES = """\b
Examples:
  logsuper studio
  logsuper studio photo.jpg
  logsuper studio noisy.png --port 8765 --no-browser
"""


@click.command(epilog=_EXAMPLES)
@click.argument("image", type=TextPath(exists=True, path_type=Path), required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Where to listen; 0: any free port."
)
@click.option("--no-browser", is_flag=True, help="Only print the address, do not open a browser.")
def studio(image: Path | None, port: int, no_browser: bool) -> None:
    """Clean masks and segment images in the browser.

    The page is served on this machine only, to whoever has the address that is printed, and needs
    no internet. IMAGE is shown first; others can be dropped on the page. Ctrl-C ends it.
    """
    import webbrowser

    from logsuper.studio import serve

    def ready(address: str) -> None:
        click.echo(f"logsuper studio: {address}  (Ctrl-C ends it)")
        if not no_browser:
            webbrowser.open(address)

    try:
        serve(image, port, ready)
    except ImportError as error:
        raise click.ClickException(
            f"the studio needs {error.name}: pip install 'logsuper[studio]'"
        ) from error
    except (ValueError, MemoryError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        where = f"port {port}: " if image is None or error.filename is None else ""
        raise click.ClickException(f"{where}{error.strerror or error}") from error
    click.echo("The studio is closed.")
