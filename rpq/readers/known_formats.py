"""The formats by their names: those of this package, and those that installed packages bring along.

An entry point of the group `rpq.formats` has the name of its format and leads to a `Format`, or to a function that opens
inputs, `(paths, *, on_error, batch_rows) -> Reader`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from rpq.errors import InputError
from rpq.readers.batch import Reader
from rpq.readers.column_names import did_you_mean
from rpq.readers.edges import EDGES, JSON_LINES
from rpq.readers.input_format import Format
from rpq.readers.rdf.rdf_format import RDF

GROUP = "rpq.formats"

OWN = {format.name: format for format in (EDGES, JSON_LINES, RDF)}
"""Known without an installed package."""


def formats() -> list[str]:
    """The names of the formats that can be read, in alphabetical order.

    >>> formats()[:2]
    ['edges', 'gmark']
    """
    return sorted({*OWN, *entry_points(group=GROUP).names})


def format_named(name: str) -> Format:
    """The format of that name; imports what brings it along.  Raises `InputError` for an unknown one."""
    if name in OWN:
        return OWN[name]
    for point in entry_points(group=GROUP, name=name):
        found: Format | Callable[..., Reader] = point.load()
        return found if isinstance(found, Format) else Format(name=name, open=found)
    known = formats()
    raise InputError(f"unknown format {name!r}: expected one of {', '.join(known)}{did_you_mean(name, known)}")
