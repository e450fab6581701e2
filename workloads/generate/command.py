"""`rpq generate KIND`: a stream from a seed, to a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.option_types import WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = ("stackoverflow", "ldbc", "yago", "gmark")
"""Of the generators in `rpq.workloads.generate.generators`, which is imported when one is called."""


@click.command("generate", short_help="Make a stream like Stack Overflow's, LDBC's, YAGO's or gMark's.")
@click.argument("kind", type=click.Choice(NAMES))
@click.option("--edges", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Length of the stream.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, another stream.")
@click.option(
    "--output", type=WrittenFile(), metavar="FILE", help="A name that ends in .tsv, .csv (with .gz: compressed) or .parquet."
)
@click.option(
    "--schema", type=click.Path(exists=True, dir_okay=False), metavar="FILE.xml", help="gmark: another schema."
)
@click.option(
    "--workload",
    type=click.IntRange(min=1),
    metavar="N",
    help="gmark: write N path queries of the schema, of size 2 to 20 in turn, in place of a graph: a line each.",
)
@click.option(
    "--compare",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="stackoverflow: show the figures of a stream of that length beside those of these files; repeat it.",
)
def generate(
    kind: str, edges: int, seed: int, output: str | None, schema: str | None, workload: int | None, compare: tuple[str, ...]
) -> None:
    """Make a stream of --edges tuples and write it in the format `edges`, in bounded memory.

    \b
    stackoverflow  questions, answers and comments between users; seconds
    ldbc           a social network's updates with deletions; milliseconds
    yago           facts of a hundred labels; timestamps are positions
    gmark          a graph of a gMark schema; timestamps are positions
    """
    from rpq.cli.named_files import check_files

    if (schema or workload) and kind != "gmark":
        raise click.UsageError("--schema and --workload are for gmark only")
    if compare:
        if kind != "stackoverflow":
            raise click.UsageError("--compare is for stackoverflow only")
        _compare(compare, seed)
        return
    if output is None:
        raise click.UsageError("--output says where the stream goes")
    check_files(written=[("--output", output)], read=[("--schema", schema)])
    options = _schema_option(schema)
    if workload:
        _write_workload(output, workload, seed, options)
        return
    from rpq.files.destinations import WriteError
    from rpq.workloads.generate.generators import KINDS
    from rpq.workloads.generate.writing import OutputError, write_stream

    try:
        written = write_stream(KINDS[kind](edges=edges, seed=seed, **options), output)
    except OutputError as error:
        raise click.UsageError(str(error)) from error
    except WriteError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {written:,} tuples to {output}", err=True)


def _schema_option(path: str | None) -> dict[str, Any]:
    from rpq.workloads.gmark.schema import SchemaError, read_schema

    try:
        return {"schema": read_schema(path)} if path else {}
    except SchemaError as error:
        raise click.UsageError(str(error)) from error


def _write_workload(output: str, count: int, seed: int, options: dict[str, Any]) -> None:
    from rpq.files.destinations import WriteError, replacing
    from rpq.workloads.gmark.random_queries import random_queries
    from rpq.workloads.gmark.schema import SOCIAL

    lines = [expression + "\n" for _, expression in random_queries(options.get("schema", SOCIAL), count, seed=seed)]
    try:
        with replacing(output) as file:
            file.write("".join(lines).encode())
    except WriteError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {count:,} queries to {output}", err=True)


def _compare(paths: Sequence[str], seed: int) -> None:
    """Print the figures of a generated stream beside those of files."""
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from rpq.errors import InputError
    from rpq.readers import open_reader
    from rpq.workloads.generate.figures import side_by_side, stream_figures
    from rpq.workloads.generate.interactions import like_stackoverflow

    try:
        theirs = pa.Table.from_batches([batch.columns for batch in open_reader("stackoverflow", paths)])
    except InputError as error:
        raise click.ClickException(str(error)) from error
    ours: Iterator[pa.RecordBatch] = like_stackoverflow(edges=theirs.num_rows, seed=seed)
    table = Table(title=f"A generated stream (seed {seed}) beside {len(paths)} files", title_justify="left")
    for heading in ("", "generated", "files"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in side_by_side(stream_figures(pa.Table.from_batches(ours)), stream_figures(theirs)):
        table.add_row(*row)
    Console().print(table)
