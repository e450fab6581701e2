"""The formats by their names.

Formats are defined in this package or by installed packages: an entry point of the group `rpq.formats` has the name of its
format and refers to a `Format`.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from rpq.errors import InputError, did_you_mean
from rpq.readers.edges import EDGES, JSON_LINES
from rpq.readers.input_format import Format

GROUP = "rpq.formats"

BUILTIN_FORMATS = ("edges", "jsonl", "rdf")
"""The formats of this package; the modules of RDF are imported when it is read."""


def formats() -> list[str]:
    """Return the names of the available formats, in alphabetical order.

    >>> formats()[:2]
    ['edges', 'gmark']
    """
    return sorted({*BUILTIN_FORMATS, *entry_points(group=GROUP).names})


def format_by_name(name: str) -> Format:
    """Return a format by its name, importing the package that defines it.  Raises `InputError` for an unknown name."""
    if name in (EDGES.name, JSON_LINES.name):
        return EDGES if name == EDGES.name else JSON_LINES
    if name == "rdf":
        from rpq.readers.rdf.rdf_format import RDF

        return RDF
    for point in entry_points(group=GROUP, name=name):
        found: Format = point.load()
        return found
    names = formats()
    raise InputError(f"unknown format {name!r}: expected one of {', '.join(names)}{did_you_mean(name, names)}")
