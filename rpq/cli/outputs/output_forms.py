"""The forms of outputs: what the ending of a name tells, and the columns that rows have."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rpq.cli.outputs.rdf_lines import EDGE, N_QUADS, PAIR, SPARQL_JSON, SPARQL_JSON_LINES, TRIPLE, TSV
from rpq.errors import RpqError
from rpq.files import destinations
from rpq.files.compression import FRAMES
from rpq.files.lines import CSV, JSON_LINES

LAST_COLUMNS = ("timestamp", "op")
"""The columns of every output, behind those of the query."""

COLUMNS = (*PAIR, *LAST_COLUMNS)
"""The columns of an output of path queries."""

QUERY_COLUMN = "query"
"""The first column of outputs of several queries."""

WITNESS_COLUMN = "path"
"""The further column of outputs with witnesses."""

TEXT_FORMS = {".csv": CSV, ".jsonl": JSON_LINES, ".tsv": TSV, ".srjl": SPARQL_JSON_LINES, ".nq": N_QUADS}
WHOLE_FORMS = {".srj": SPARQL_JSON}
"""Forms with an end of their own, which cannot be written in frames."""

ENDINGS = (*(form + packed for form in TEXT_FORMS for packed in ("", *FRAMES)), *WHOLE_FORMS, ".parquet")
"""The endings of the names of outputs."""

N_QUADS_ENDINGS = tuple(ending for ending in ENDINGS if ending.startswith(".nq"))


class SinkError(RpqError):
    """An output that cannot be opened, or not be gone on with."""


def columns_of(answers: Sequence[str] = PAIR, *, witness: bool, several: bool = False) -> tuple[str, ...]:
    """The columns of an output: of a query whose answers have these, of `several` such queries, and with witnesses.

    >>> columns_of(witness=True, several=True)
    ('query', 'source', 'target', 'timestamp', 'op', 'path')
    >>> columns_of(("x", "y", "z"), witness=False)
    ('x', 'y', 'z', 'timestamp', 'op')
    """
    return (*(QUERY_COLUMN,) * several, *answers, *LAST_COLUMNS, *(WITNESS_COLUMN,) * witness)


def check_edges(path: str, answers: Sequence[str]) -> None:
    """Raise `SinkError` where answers with these columns are no edges, which N-Quads are made of."""
    if not set(TRIPLE) <= set(answers) and tuple(answers) not in (PAIR, EDGE):
        raise SinkError(
            f"{path}: N-Quads are edges: expected the columns {', '.join(TRIPLE)}, or {' and '.join(PAIR)}, "
            f"not {', '.join(answers) or 'none'}"
        )


def check_suffix(path: str) -> str:
    """Return the ending of an output's name, in lower case; raise `SinkError` if it is not a known one."""
    ending = next((ending for ending in ENDINGS if path.lower().endswith(ending)), None)
    if ending is not None:
        return ending
    if path == destinations.STANDARD_STREAM or not (destinations.is_regular(path) or os.path.isdir(path)):
        return ".csv"
    raise SinkError(
        f"{path}: the ending tells the format: expected a name that ends in .csv or .parquet or .jsonl or .tsv, .srj, .srjl "
        "or .nq (all but .parquet and .srj also with .gz or .zst behind), or -"
    )


def check_end(path: str, position: int) -> None:
    """Raise `SinkError` where no row can begin behind a position: a form with an end of its own was changed."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        file.seek(position)
        if file.read(1) not in (b"", b",", b"{", b"]"):
            raise SinkError(f"{path}: does not have the rows that the checkpoint goes on from; it was changed")
