"""gMark workloads: path expressions from the XML that gMark writes.

A query of gMark joins several conjuncts; each conjunct is a path expression of its own, and those are what is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from xml.etree import ElementTree

from rpq.workloads.gmark.schema import SchemaError


def read_workload(path: str | os.PathLike[str]) -> list[str]:
    """The path expressions of a workload, in the order of the file, each once. Raises `SchemaError`."""
    try:
        root = ElementTree.parse(path).getroot()
        found = list(dict.fromkeys(_expressions(root)))
    except (ElementTree.ParseError, IndexError) as error:
        raise SchemaError(f"{os.fspath(path)}: is no gMark workload: {error}") from error
    if not found:
        raise SchemaError(f"{os.fspath(path)}: is no gMark workload: there are no conjuncts in it")
    return found


def _expressions(root: ElementTree.Element) -> Iterator[str]:
    for conjunct in root.iter("conjunct"):
        for child in conjunct:
            yield expression_of(child)


def expression_of(element: ElementTree.Element) -> str:
    """A conjunct's content as an expression.

    >>> expression_of(ElementTree.fromstring(
    ...     "<star><disj><concat><symbol>1</symbol><symbol inverse='true'>2</symbol></concat>"
    ...     "<concat><symbol>3</symbol></concat></disj></star>"))
    '(<1>/^<2>|<3>)*'
    """
    if element.tag == "symbol":
        label = f"<{(element.text or '').strip()}>"
        return f"^{label}" if element.get("inverse") == "true" else label
    parts = [expression_of(child) for child in element]
    if element.tag == "star":
        return f"({'/'.join(parts)})*"
    if element.tag == "disj":
        return "|".join(parts)
    if element.tag == "concat":
        return "/".join(parts)
    raise SchemaError(f"unknown element <{element.tag}> in a gMark workload")
