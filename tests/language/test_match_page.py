"""The tables of the page on MATCH: what is taken runs, with the rows of its pattern; what is refused says what to write."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rpq
from rpq.errors import MatchError
from tests.language.test_match import EDGES, WINDOW

PAGE = (Path(__file__).parents[2] / "docs" / "match.md").read_text("utf-8")


def rows_of(heading: str) -> list[list[str]]:
    """Return the rows of the table below a heading, cell by cell."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def answers(query: rpq.Query) -> Counter[tuple[Any, ...]]:
    engine = rpq.Engine(query, edges="parallel")
    engine.push_nodes([{"node": "a", "risk": 4, "land": "X"}, {"node": "b", "risk": 1, "land": "X"}])
    columns = ("source", "target", "label", "timestamp", "amount")
    engine.push(pa.table({name: [edge[place] for edge in EDGES] for place, name in enumerate(columns)}))
    return Counter(tuple(tuple(one) if isinstance(one, list) else one for one in row) for row in engine.answers())


TAKEN, REFUSED = rows_of("What is supported"), rows_of("What is refused")


@pytest.mark.parametrize("row", TAKEN, ids=lambda row: row[0])
def test_what_is_taken_runs_and_has_the_rows_of_its_pattern(row):
    _, text, _, pattern = row
    found = answers(rpq.Query(text.strip("`"), window=WINDOW))
    assert found
    if pattern:
        notation, *options = [one.strip() for one in pattern.split("·")]
        given: dict[str, Any] = {}
        for option in options:
            name, _, value = option.partition(" ")
            given[name] = True if name == "distinct" else value.strip("`")
        if "select" in given:
            given["select"] = given["select"].split(",")
        assert answers(rpq.Query(notation.strip("`"), window=WINDOW, **given)) == found


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[0])
def test_what_is_refused_says_what_to_write(row):
    _, text, advice = row
    with pytest.raises(MatchError) as caught:
        rpq.Query(text.strip("`"), window=WINDOW)
    assert caught.value.line == 1 and advice in caught.value.message
