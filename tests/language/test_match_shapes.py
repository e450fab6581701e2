"""Shapes of Cypher texts that people run: how many are taken as they are written.

The texts are no part of this repository. Their names and strings are replaced by others, a few keywords too, so that some
are no Cypher any more; these count as refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import rpq
from tests.real import SHARED

SHAPES = SHARED / "queries" / "cypher" / "shapes.json"

pytest.importorskip("lark", reason="the extra match is not installed")
pytestmark = pytest.mark.skipif(not SHAPES.exists(), reason="needs the collected shapes")


def parameters_of(text: str) -> Iterator[dict[str, Any]]:
    """Yield values for the parameters of a text: numbers, or else texts, where their place does not decide."""
    for usual in (3, "x"):
        found: dict[str, Any] = {}
        for before, name, keys in re.findall(r"([^\s$]*\s*)\$(\w+)((?:\.\w+|\['\w+'\])*)", text):
            places = {"IN": [1, 2], "UNWIND": [1, 2], "LIMIT": 3, "SKIP": 3, "=~": "x"}
            value = places.get(before.strip().upper(), usual)
            path = [name, *re.findall(r"\w+", keys)]
            inner = found
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = value
        yield found


def refusal(text: str) -> str | None:
    """Return why a text is refused, None for one that is taken."""
    why: str | None = None
    for parameters in parameters_of(text):
        try:
            query = rpq.Query(text, window=rpq.Window(size=30, slide=1), language="cypher", parameters=parameters)
            rpq.Engine(query, edges="parallel")
        except rpq.QueryError as error:
            why = str(error)
        else:
            return None
    return why


def test_three_fifths_of_the_shapes_are_taken_as_they_are_written():
    shapes = json.loads(SHAPES.read_text(encoding="utf-8"))
    refused = {number: why for number, shape in enumerate(shapes) if (why := refusal(shape["text"])) is not None}
    assert len(shapes) - len(refused) >= 0.6 * len(shapes), refused
