"""Write the pages of the API reference and of the command line from the package itself.

One page per room, with a table of its names, and one page per name. `code` in texts that is a
public name becomes a link to its page.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import click
from docutils import nodes
from names import CONSTANTS, ROOMS, TITLES, Name, links, methods_by_class, public_names
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _kind(item: Name) -> str:
    if inspect.isclass(item.object):
        return "exception" if issubclass(item.object, BaseException) else "class"
    return "function" if callable(item.object) else "data"


def _registry(values: dict[str, Any]) -> str:
    """Return a table of a registry, whose entries describe themselves in text and flags."""
    first = next(iter(values.values()))
    if not hasattr(first, "__dataclass_fields__"):
        return "\n".join(f"- ``{key}``" for key in values) + "\n\n"
    fields = [name for name in first.__dataclass_fields__ if name not in ("module", "name")]
    rows = [["name", *fields]]
    for name, entry in values.items():
        cells = [getattr(entry, field) for field in fields]
        words = {True: "yes", False: "no", None: "", (): ""}
        rows.append([f"``{name}``", *(str(words.get(c, c) if c.__hash__ else c) for c in cells)])
    lines = [".. list-table::", "   :header-rows: 1", "   :class: scroll", ""]
    for row in rows:
        lines += [f"   {'* -' if not k else '  -'} {cell}" for k, cell in enumerate(row)]
    return "\n".join(lines) + "\n\n"


# The objects that have a page, with their full names.
_HOMES: dict[Any, str] = {}


def _name_page(item: Name, gallery: bool) -> str:
    """Return the page of one name."""
    kind = _kind(item)
    text = f".. currentmodule:: {item.module}\n\n" + _title(item.name)
    if kind == "data":
        text += f".. py:data:: {item.name}\n\n   {CONSTANTS[item.name]}\n\n"
        is_registry = isinstance(item.object, dict)
        return text + (_registry(item.object) if is_registry else f"``{item.object}``\n\n")
    text += f".. auto{kind}:: {item.name}\n"
    if kind == "class":
        methods = methods_by_class(item.object, {c for c in _HOMES if inspect.isclass(c)})
        for name in methods.pop(item.object):
            member = inspect.getattr_static(item.object, name)
            directive = "autoproperty" if isinstance(member, property) else "automethod"
            text += f"\n   .. {directive}:: {name}\n"
        for base, names in methods.items():
            text += f"\n   .. rubric:: Inherited from {base.__name__}\n\n"
            text += "   " + ", ".join(f":py:obj:`{n} <{_HOMES[base]}.{n}>`" for n in names) + "\n"
    text += "\n"
    if gallery:
        text += f".. minigallery:: {item.full}\n   :add-heading: Examples with pictures\n\n"
    return text


def _room_page(room: str, items: list[Name]) -> str:
    """Return the page of a room: its introduction, and its names in groups."""
    text = _title(TITLES[room])
    if room not in ("model", "warnings"):
        text += f".. automodule:: logsuper.{room}\n   :no-members:\n\n.. currentmodule:: None\n\n"
    rest = list(items)
    groups = {}
    for title, names in ROOMS[room].items():
        groups[title] = [item for name in names for item in items if item.name == name]
        rest = [item for item in rest if item not in groups[title]]
    if rest:
        groups["Other names" if groups else "Names"] = rest
    for title, group in groups.items():
        text += _title(title, "-") if len(groups) > 1 else ""
        constants = [item for item in group if item.name in CONSTANTS]
        text += ".. autosummary::\n   :nosignatures:\n\n"
        text += "".join(f"   ~{item.full}\n" for item in group if item not in constants) + "\n"
        for item in constants:
            text += f"- :py:obj:`~{item.full}`: {CONSTANTS[item.name]}\n"
        text += "\n"
    text += ".. toctree::\n   :hidden:\n\n"
    return text + "".join(f"   {room}/{item.name}\n" for item in items)


def _command_page(name: str, command: click.Command) -> str:
    """Return the section of one command: what it does, and its options as a list."""
    context = click.Context(command, info_name=f"logsuper {name}")
    text = _title(f"logsuper {name}", "-")
    text += f".. code-block:: text\n\n   {command.get_usage(context).removeprefix('Usage: ')}\n\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if "\b" in paragraph:
            lines = paragraph.replace("\b", "").strip("\n").split("\n")
            text += "::\n\n" + "".join(f"   {line}\n" for line in lines) + "\n"
        else:
            text += _plain(" ".join(paragraph.split())) + "\n\n"
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record is not None and record[1]:
            names, words = record
            text += f"``{names}``\n    {_plain(' '.join(words.split()))}\n\n"
    if isinstance(command, click.Group):
        for own, below in command.commands.items():
            text += _command_page(f"{name} {own}", below)
    return text


def _plain(text: str) -> str:
    """Escape what would be markup, but leave `code`."""
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", text)
    return re.sub(r"([*|\\])|(\w)_(?=\W|$)", lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\_", text)


def write_pages(app: Sphinx) -> None:
    """Write docs/api, anew."""
    folder = Path(app.srcdir) / "api"
    pages = {}
    rooms = public_names()
    items = [item for names in rooms.values() for item in names]
    _HOMES.update({item.object: item.full for item in items if callable(item.object)})
    gallery = "sphinx_gallery.gen_gallery" in app.extensions
    for room, items in rooms.items():
        pages[f"{room}.rst"] = _room_page(room, items)
        for item in items:
            pages[f"{room}/{item.name}.rst"] = _name_page(item, gallery)
    from logsuper.cli import main

    text = _title("Command line")
    text += "Every command has ``--help``. Bad input ends with one line and exit code 2.\n\n"
    context = click.Context(main)
    for name in main.list_commands(context):
        text += _command_page(name, main.get_command(context, name))
    pages["cli.rst"] = text
    listed = "".join(f"   {room}\n" for room in [*rooms, "cli"])
    pages["index.rst"] = (
        _title("API reference")
        + "Every public name, written from its docstring. ``import logsuper as ls`` provides those"
        " that are shown here as ``logsuper.Name``, each loaded on first use; the others are in"
        " rooms such as ``ls.learning``. Formulas are those of :doc:`../theory`.\n\n"
        ".. toctree::\n   :maxdepth: 1\n\n" + listed
    )
    for old in folder.rglob("*.rst"):
        if str(old.relative_to(folder)) not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


class LinkCode(SphinxPostTransform):
    """Link `code` in texts that is a public name, such as `ls.Cut`, to its page."""

    default_priority = 5  # before references are resolved

    def run(self, **options: Any) -> None:
        """Wrap literals in references."""
        for node in list(self.document.findall(nodes.literal)):
            inside = (nodes.reference, addnodes.pending_xref, nodes.title, nodes.term)
            if any(isinstance(parent, inside) for parent in _parents(node)):
                continue
            name = re.sub(r"\(.*\)$", "", node.astext(), flags=re.DOTALL)
            target = self.env.app.public_links.get(name)
            if target is None or self.document.get("source", "").endswith(f"/{target}.rst"):
                continue
            reference = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True,
                refwarn=True, refdoc=self.env.docname,
            )  # fmt: skip
            node.replace_self(reference)
            reference += node


def _parents(node: nodes.Node) -> Any:
    while node.parent is not None:
        node = node.parent
        yield node


def setup(app: Sphinx) -> dict[str, object]:
    """Write the pages before Sphinx looks for them."""
    app.public_links = links()  # type: ignore[attr-defined]
    app.connect("builder-inited", write_pages, priority=100)
    app.add_post_transform(LinkCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
