"""Which queries in SPARQL and RSP-QL that other people wrote run here: unchanged, with an edit, or not at all.

The queries are files of text in folders, one a collection, beside the checkout: they are no part of this repository, and
only the counts, the edits and the reasons of refusals are written. To run is to be registered, to receive a small stream
with edges of all its labels in all its streams, and to report; the rows are not checked here.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rpq import Engine, Query, QueryError, Window
from rpq.language.readings import readings_of

ENDINGS = (".rspql", ".sparql", ".rq")
_WINDOW = Window(size="1h", slide="1m")
"""The default window of a query whose text declares none."""
_MAX_EDITS = 8
_UNGROUPED = re.compile(r"\?(\w+) in (?:SELECT|HAVING) is not a key of GROUP BY")


@dataclass(frozen=True)
class QueryResult:
    """The result for a query: the edits that it needed, and the reason why it does not run, or None if it runs."""

    name: str
    edits: tuple[str, ...]
    problem: str | None

    @property
    def verdict(self) -> str:
        """The column of the table in which it counts."""
        return "not at all" if self.problem is not None else "with an edit" if self.edits else "unchanged"

    @property
    def is_invalid(self) -> bool:
        """True if the standard forbids the unedited text: variables in SELECT that are not keys of GROUP BY."""
        return any(edit.endswith("in GROUP BY") for edit in self.edits)


@dataclass
class Collection:
    """The queries of one folder."""

    name: str
    outcomes: list[QueryResult] = field(default_factory=list)

    def count(self, verdict: str) -> int:
        """Return how many of its queries have a verdict."""
        return sum(one.verdict == verdict for one in self.outcomes)


def run_query(text: str) -> None:
    """Register a query, push a small stream with all its labels in all its streams, and advance. Raises `QueryError`."""
    query = Query(text, language="sparql", name="query")
    if all(window.kind != "time" for window in query.windows.values()):  # type: ignore[attr-defined]
        query = Query(text, language="sparql", name="query", window=_WINDOW)
    engine = Engine(query, time_unit="ms")
    for reading in readings_of(query):
        labels = sorted(map(str, reading.labels.plain.named))
        times = [1000 * (number + 1) for number in range(len(labels))]
        columns = {"source": ["s"] * len(labels), "target": ["o"] * len(labels), "label": labels, "timestamp": times}
        if labels:
            engine.push(columns, stream=reading.stream) if reading.stream is not None else engine.push(columns)
    windows = query.in_unit("ms").windows.values()  # type: ignore[attr-defined]
    engine.advance((engine.time or 0) + max(window.slide for window in windows if window.kind == "time"))


def outcome_of(name: str, text: str) -> QueryResult:
    """Run a query, with edits if the unedited text is refused.

    >>> outcome_of("q", "SELECT ?x ?y { ?x <a> ?y } GROUP BY ?x")
    QueryResult(name='q', edits=('?y in GROUP BY',), problem=None)
    """
    edits: list[str] = []
    while True:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run_query(text)
        except QueryError as error:
            problem = str(error).splitlines()[0]
            edited = _edit(text, problem)
            if edited is None or len(edits) == _MAX_EDITS:
                return QueryResult(name, tuple(edits), problem)
            edit, text = edited
            edits.append(edit)
        else:
            return QueryResult(name, tuple(edits), None)


def _edit(text: str, problem: str) -> tuple[str, str] | None:
    """Return the edit that solves a problem, and the edited text, or None if no edit is known."""
    if (ungrouped := _UNGROUPED.search(problem)) and re.search(r"GROUP\s+BY", text, re.IGNORECASE):
        variable = f"?{ungrouped[1]}"
        return f"{variable} in GROUP BY", re.sub(r"(GROUP\s+BY)", rf"\1 {variable}", text, flags=re.IGNORECASE)
    return None


def collections_in(folder: Path) -> Iterator[Collection]:
    """Yield the collections of queries in the folders of a folder, run."""
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted((path for path in inner.iterdir() if path.suffix in ENDINGS), key=lambda path: _natural(path.stem))
        if files:
            yield Collection(inner.name, [outcome_of(path.stem, path.read_text(encoding="utf-8")) for path in files])


def _natural(name: str) -> list[tuple[str, int]]:
    """Return a key by which q2 comes before q10."""
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D+)(\d*)", name)]


def markdown(collections: list[Collection]) -> str:
    """Return the score as a text: a table of counts, the edits, and the refusals by their names."""
    lines = [
        "# Queries of others",
        "",
        "`rpq bench queries-of-others --data DIR` writes this list; DIR has a folder of query files for each collection.",
        "A query runs if it is registered, receives edges of all its labels in all its streams, and reports. A text that",
        "declares no time window gets a default window. Texts that SPARQL 1.1 forbids are invalid.",
        "",
        "| collection | queries | unchanged | with an edit | not at all | of these invalid |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for one in collections:
        counts = [one.count(verdict) for verdict in ("unchanged", "with an edit", "not at all")]
        invalid = sum(outcome.is_invalid for outcome in one.outcomes)
        lines.append(f"| {one.name} | {' | '.join(map(str, [len(one.outcomes), *counts, invalid]))} |")
    for title, verdict in (("Edits", "with an edit"), ("Refusals", "not at all")):
        rows = [(one.name, outcome) for one in collections for outcome in one.outcomes if outcome.verdict == verdict]
        if not rows:
            continue
        lines += ["", f"## {title}", ""]
        for name, outcome in rows:
            edits = ", ".join(outcome.edits)
            outcomes = edits if outcome.problem is None else outcome.problem + (f" (after edits: {edits})" if edits else "")
            lines.append(f"- {name} {outcome.name}: {outcomes}")
    return "\n".join(lines) + "\n"
