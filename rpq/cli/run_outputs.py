"""Where the rows and the late tuples of a run go: rows of one query to one output, those of a file to what each names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.asked import Asked
from rpq.cli.named_files import output_key
from rpq.cli.outputs.late import LateFile
from rpq.cli.outputs.query_outputs import QueryOutputs
from rpq.cli.outputs.sinks import Sink, open_sink
from rpq.queries.query_file import AskedQuery

if TYPE_CHECKING:
    from rpq.cli.checkpoint import Position


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where rows and late tuples go; None where nobody wants them."""

    rows: Sink | QueryOutputs | None = None
    late: LateFile | None = None

    @property
    def sinks(self) -> list[Sink]:
        """What is written to, each of which is put in place for itself."""
        late = [self.late.sink] if self.late else []
        rows = [] if self.rows is None else self.rows.sinks if isinstance(self.rows, QueryOutputs) else [self.rows]
        return [*late, *rows]


def output_names(asked: Asked) -> set[str]:
    """The names under which rows go out."""
    given = [entry.output for entry in asked.entries] if asked.entries else [asked.settings.output]
    return {output for output in given if output is not None}


def output_options(asked: Asked) -> list[tuple[str, str | None]]:
    """The outputs of rows, each once, behind what asks for it."""
    if not asked.entries:
        return [("--output", asked.settings.output)]
    return [
        (f"{entry.places['output']}, field output:" if "output" in entry.places else "--output", entry.output)
        for entry in _first_by_output(asked).values()
    ]


def open_outputs(asked: Asked, position: Position | None, *, grows: bool) -> Outputs:
    """Open all outputs, to go on at a `position`; those that grow are written in place, as `open_sink` says."""
    settings = asked.settings
    late = None
    if settings.late is not None:
        late = LateFile(settings.late, grows=grows, position=position.late_bytes if position else None)
    try:
        return Outputs(rows=_open_rows(asked, position.output if position else None, grows=grows), late=late)
    except BaseException:
        if late is not None:
            late.sink.discard()
        raise


def _open_rows(asked: Asked, position: Any, *, grows: bool) -> Sink | QueryOutputs | None:
    if asked.entries:
        return _open_of_queries(asked, position, grows=grows)
    settings = asked.settings
    if settings.output is None:
        return None
    is_resumable = settings.checkpoint is not None
    return open_sink(
        settings.output, witness=settings.witness, resumable=is_resumable, grows=grows, position=position
    )


def _open_of_queries(asked: Asked, positions: Mapping[str, int | None] | None, *, grows: bool) -> QueryOutputs | None:
    """Open what the rows of queries go to; None if no query has an output."""
    first = _first_by_output(asked)
    if not first:
        return None
    _allow_open_files(len(first))
    sinks: dict[str, Sink] = {}
    try:
        for key, entry in first.items():
            sinks[key] = open_sink(
                str(entry.output),
                witness=asked.settings.witness,
                several=True,
                resumable=asked.settings.checkpoint is not None,
                grows=grows,
                position=positions[key] if positions is not None else None,
            )
    except BaseException:
        for sink in sinks.values():
            sink.discard()
        raise
    return QueryOutputs(sinks, {entry.name: output_key(entry.output) for entry in asked.entries if entry.output is not None})


def _first_by_output(asked: Asked) -> dict[str, AskedQuery]:
    """For each output, by its key, the first query that names it."""
    first: dict[str, AskedQuery] = {}
    for entry in asked.entries:
        if entry.output is not None:
            first.setdefault(output_key(entry.output), entry)
    return first


def _allow_open_files(count: int) -> None:
    """Raise the number of files that this process may have open, if it has to be and can be."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 100  # inputs, libraries, the other outputs
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise click.UsageError(
            f"the queries have {count:,} outputs, but this system lets a process open {hard:,} files; "
            "let queries share outputs, their rows have a column query"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
