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
from rpq.language.match.tree import AGGREGATES, GRAPH_FUNCTIONS
from rpq.language.match.values.functions import FUNCTIONS
from tests.language.test_match import EDGES, WINDOW

PAGE = (Path(__file__).parents[2] / "docs" / "match.md").read_text("utf-8")
LANGUAGES = {"GQL": "gql", "Cypher": "cypher"}


def rows_of(first_column: str) -> list[list[str]]:
    """Return the rows of the tables whose first column has a heading, cell by cell."""
    tables = re.findall(rf"^\| {first_column} \|.*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    lines = "".join(tables).splitlines()
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def languages_of(alone: str) -> tuple[list[str], list[str]]:
    """Return the languages for which a row holds, and those for which it does not."""
    names = [LANGUAGES[alone]] if alone else [*LANGUAGES.values()]
    return names, [name for name in LANGUAGES.values() if name not in names]


def answers(query: rpq.Query) -> Counter[str]:
    engine = rpq.Engine(query, edges="parallel")
    engine.push_nodes([{"node": "a", "risk": 4, "land": "X"}, {"node": "b", "risk": 1, "land": "X"}])
    columns = ("source", "target", "label", "timestamp", "amount")
    engine.push(pa.table({name: [edge[place] for edge in EDGES] for place, name in enumerate(columns)}))
    return Counter(str(tuple(row)) for row in engine.answers())


def check_refused(text: str, language: str) -> MatchError:
    with pytest.raises(MatchError) as caught:
        rpq.Query(text, window=WINDOW, language=language)
    return caught.value


@pytest.mark.parametrize("row", rows_of("construct"), ids=lambda row: row[0])
def test_what_is_taken_runs_and_has_the_rows_of_its_pattern(row):
    _, example, alone, _, *patterns = row
    text = example.strip("`")
    languages, others = languages_of(alone)
    found = [answers(rpq.Query(text, window=WINDOW, language=language)) for language in languages]
    assert all(found)
    for language in others:
        check_refused(text, language)
    for pattern in filter(None, patterns):
        notation, *options = [one.strip() for one in pattern.split("·")]
        given: dict[str, Any] = {}
        for option in options:
            name, _, value = option.partition(" ")
            given[name] = True if name == "distinct" else value.strip("`")
        if "select" in given:
            given["select"] = given["select"].split(",")
        assert answers(rpq.Query(notation.strip("`"), window=WINDOW, **given)) == found[0]


@pytest.mark.parametrize("row", rows_of("refused"), ids=lambda row: row[0])
def test_what_is_refused_says_what_to_write(row):
    _, example, alone, advice = row
    languages, others = languages_of(alone)
    for language in languages:
        error = check_refused(example.strip("`"), language)
        assert error.line == 1 and advice in error.message
    for language in others:
        assert rpq.Query(example.strip("`"), window=WINDOW, language=language)


def test_the_page_names_all_functions():
    named = {name.lower() for _, functions in rows_of("kind") for name in re.findall(r"`([^`]+)`", functions)}
    assert {*FUNCTIONS, *GRAPH_FUNCTIONS, *AGGREGATES} - {"path_length"} <= named
