"""Content that the site takes from elsewhere in the repository when it is built, so that nothing is written twice.

Markers in pages, each on a line of its own:

- `<!-- include: PATH -->`: a Markdown file of the repository; its links to files of the repository lead to the page that
  shows the file, or to the file at its host
- `<!-- code: PATH -->`: a file of the repository as a block of code
- `<!-- help -->`: every command with the output of its `--help`

Pages of `docs/` may also link to files of the repository, such as `../rpq/engine/engine.py`.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
CODE = re.compile(r"^<!-- code: (\S+) -->$", re.MULTILINE)
HELP = "<!-- help -->"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
IMAGES = ("workloads/results",)
"""Folders with pictures that included files show."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the pictures of included files on the site."""
    from mkdocs.structure.files import File

    for folder in IMAGES:
        for image in sorted((ROOT / folder).rglob("*.png")):
            path = image.relative_to(ROOT).as_posix()
            files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the markers of a page, and its links to files of the repository by links to the site or the host."""
    source = f"docs/{page.file.src_uri}"
    if HELP in markdown:
        markdown = markdown.replace(HELP, "\n".join(_helps()))
    markdown = CODE.sub(lambda marker: f"```python\n{_text(marker[1])}```", markdown)
    parts: list[str] = []
    for place, part in enumerate(INCLUDE.split(markdown)):
        # Parts with an even index are text of the page, the others are names of files.
        origin, text = (part, _text(part)) if place % 2 else (source, part)
        parts.append(_with_links(text, origin, page_of=_pages(config), config=config, files=files))
    return "".join(parts)


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _pages(config: MkDocsConfig) -> dict[str, str]:
    """Return a dictionary from files of the repository to the pages that show them."""
    shown: dict[str, str] = {}
    for page in Path(config.docs_dir).rglob("*.md"):
        name = page.relative_to(config.docs_dir).as_posix()
        shown[f"docs/{name}"] = name
        for path in INCLUDE.findall(page.read_text(encoding="utf-8")):
            shown[path] = name
    return shown


def _with_links(text: str, origin: str, *, page_of: dict[str, str], config: MkDocsConfig, files: Files) -> str:
    """Return the text of a file with links that work on the site; pages are all in one folder."""

    def link(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), found[1]))
        anchor = found[2] or ""
        if path in page_of:
            return page_of[path] + anchor
        name = path.removeprefix("docs/")
        if files.get_file_from_path(name) and not name.endswith(".py"):
            return name + anchor
        if not (ROOT / path).exists():
            return found[0]  # mkdocs reports the broken link
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{config.extra['repository']}/{kind}/main/{path}{anchor}"

    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in FENCED.split(text))


def _helps() -> Iterator[str]:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from rpq.cli import main

    for name, command in commands(main, "rpq"):
        settings = {**command.context_settings, "max_content_width": 100, "terminal_width": 100}
        context = click.Context(command, info_name=name, **settings)
        yield f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and all its subcommands, with the words to call them."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for one in command.list_commands(context):
            below = command.get_command(context, one)
            if below is not None and not below.hidden:
                yield from commands(below, f"{name} {one}")
