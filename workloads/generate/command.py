"""`rpq generate KIND`: write a generated stream to a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from rpq.cli.options import WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa

USE_CASE_NAMES = ("rings", "mules", "logins", "packages", "contacts", "accounts")
"""The names of the use cases in `rpq.workloads.generate.use_cases`."""

NAMES = ("stackoverflow", "ldbc", "yago", "gmark", "rdf", "taxi", "biogrid", *USE_CASE_NAMES)
"""The names of the generators in `rpq.workloads.generate.generators`, which is imported when a generator is called."""

RDF_NAMES = ("taxi", "rides", "social", "linked-stream", "sensors", "changing")
"""The names of the streams in `rpq.workloads.generate.rdf.rdf_streams`."""


@click.command("generate", short_help="Generate a stream like Stack Overflow's, LDBC's, YAGO's or gMark's, or of RDF.")
@click.argument("kind", type=click.Choice((*NAMES, "queries")))
@click.option("--kind", "rdf_kind", type=click.Choice(RDF_NAMES), help="rdf: the kind of stream.  [default: taxi]")
@click.option("--stream", metavar="NAME", help="rdf: write only the tuples of this stream, without its name.")
@click.option("--static", type=WrittenFile(), metavar="FILE", help="rdf: file for the triples that do not change.")
@click.option("--truth", type=WrittenFile(), metavar="FILE", help="rings … accounts: file for the planted rows.")
@click.option("--nodes", type=WrittenFile(), metavar="FILE", help="accounts: file for the records of nodes.")
@click.option("--edges", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Number of tuples.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random numbers.")
@click.option(
    "--output",
    type=WrittenFile(),
    metavar="FILE",
    help="A name that ends in .tsv, .csv, .jsonl, .nt, .nq (with .gz: compressed) or .parquet.",
)
@click.option(
    "--schema", type=click.Path(exists=True, dir_okay=False), metavar="FILE.xml", help="gmark: the schema of the graph."
)
@click.option(
    "--workload",
    type=click.IntRange(min=1),
    metavar="N",
    help="gmark: write N path queries of the schema, of size 2 to 20 in turn, one per line, instead of a graph.",
)
@click.option(
    "--compare",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="stackoverflow: compare the figures of a generated stream with those of this file; can be repeated.",
)
@click.option(
    "--over",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="queries: the stream, in the format edges, from whose first --edges insertions patterns are taken.",
)
@click.option("--count", type=click.IntRange(min=1), default=5000, show_default=True, help="queries: number of patterns.")
@click.option("--length", type=click.IntRange(min=1), default=5, show_default=True, help="queries: average number of atoms.")
@click.option(
    "--overlap", type=click.FloatRange(0, 100), default=35, show_default=True, metavar="PERCENT",
    help="queries: share of the patterns that begin with half of an earlier pattern.",
)
@click.option(
    "--selectivity", type=click.FloatRange(0, 100), default=25, show_default=True, metavar="PERCENT",
    help="queries: share of the patterns that have a solution.",
)  # fmt: skip
def generate(
    kind: str,
    rdf_kind: str | None,
    stream: str | None,
    static: str | None,
    truth: str | None,
    nodes: str | None,
    edges: int,
    seed: int,
    output: str | None,
    schema: str | None,
    workload: int | None,
    compare: tuple[str, ...],
    over: str | None,
    **of_queries: Any,
) -> None:
    """Generate a stream of --edges tuples and write it in the format `edges` (or as RDF), in bounded memory.

    \b
    stackoverflow  questions, answers and comments between users; seconds
    ldbc           a social network's updates with deletions; milliseconds
    yago           facts of a hundred labels; timestamps are positions
    gmark          a graph of a gMark schema; timestamps are positions
    taxi           rides between the places of a city; seconds
    biogrid        interactions of proteins, all with one label; timestamps are positions
    rings          transfers of money that may return; seconds
    mules          transfers and cash-outs through accounts of other people; seconds
    logins         logins of users and administrators on hosts; seconds
    packages       dependencies of services, libraries and tools, with deletions; seconds
    contacts       meetings and tests of persons; seconds
    accounts       transfers between accounts with --nodes: their country, kind and risk; seconds
    rdf            triples in events, by --kind:
      taxi           trips, an event of 24 triples each; seconds
      rides          taxis as the streams pickup, dropoff, fare; seconds
      social         posts, replies, likes, forums; seconds
      linked-stream  LSBench's streams poststream, photostream, likedpoststream,
                     likedphotostream; --static: acquaintances; milliseconds
      sensors        the stream observations; --static: the stations; seconds
      changing       edges that are inserted and deleted; timestamps are positions

    The queries of the papers over these streams have names: rpq run --query NY-Q1 --dataset taxi.  In .csv, .jsonl and
    .parquet, additional columns contain the stream, if it has a name, and the event, which is the graph in .nq.

    The streams of the cookbook, rings to accounts, have planted answers, one for each 200 tuples, and no others: --truth
    writes them, with the time and op of each.

    queries writes a file for rpq run --queries, in JSON lines, of thousands of graph patterns over a stream: chains, stars
    and cycles as in TriC's experiments.
    """
    from rpq.cli.options import check_files

    if (schema or workload) and kind != "gmark":
        raise click.UsageError("--schema and --workload are for gmark only")
    if (rdf_kind or stream or static) and kind != "rdf":
        raise click.UsageError("--kind, --stream and --static are for rdf only")
    if truth and kind not in USE_CASE_NAMES:
        raise click.UsageError(f"--truth is for {', '.join(USE_CASE_NAMES)} only")
    if nodes and kind != "accounts":
        raise click.UsageError("--nodes is for accounts only")
    if compare:
        if kind != "stackoverflow":
            raise click.UsageError("--compare is for stackoverflow only")
        _compare(compare, seed)
        return
    if output is None:
        raise click.UsageError("--output is missing: the file for the stream")
    check_files(
        written=[("--output", output), ("--static", static), ("--truth", truth), ("--nodes", nodes)],
        read=[("--schema", schema), ("--over", over)],
    )
    if (over is not None) != (kind == "queries"):
        raise click.UsageError("queries needs --over FILE, a stream" if over is None else "--over is for queries only")
    if over is not None:
        _write_queries(output, over, edges, seed, **of_queries)
        return
    options = _rdf_options(rdf_kind, stream) if kind == "rdf" else _schema_option(schema)
    if workload:
        _write_workload(output, workload, seed, options)
        return
    from rpq.files.destinations import WriteError
    from rpq.workloads.generate.generators import KINDS
    from rpq.workloads.generate.rdf.rdf_streams import RDF_KINDS, NoSuchStreamError
    from rpq.workloads.generate.use_cases import USE_CASES
    from rpq.workloads.generate.writing import NoRdfError, OutputError, write_stream

    try:
        if static is not None:
            generate_static = RDF_KINDS[options["kind"]].static
            if generate_static is None:
                raise click.UsageError(f"--static: {options['kind']} has no static triples")
            count = write_stream([generate_static(seed=seed)], static)
            click.echo(f"wrote {count:,} triples without time to {static}", err=True)
        if truth is not None:
            count = write_stream(USE_CASES[kind].truth(edges=edges, seed=seed).to_batches(), truth)
            click.echo(f"wrote {count:,} planted rows to {truth}", err=True)
        if nodes is not None:
            count = write_stream(USE_CASES[kind].nodes(edges=edges, seed=seed).to_batches(), nodes)
            click.echo(f"wrote {count:,} records of nodes to {nodes}", err=True)
        tuples = write_stream(KINDS[kind](edges=edges, seed=seed, **options), output)
    except (OutputError, NoRdfError, NoSuchStreamError) as error:
        raise click.UsageError(str(error)) from error
    except WriteError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {tuples:,} tuples to {output}", err=True)


def _rdf_options(kind: str | None, stream: str | None) -> dict[str, Any]:
    return {"kind": kind or "taxi"} | ({"stream": stream} if stream else {})


def _schema_option(path: str | None) -> dict[str, Any]:
    from rpq.workloads.gmark.schema import SchemaError, read_schema

    try:
        return {"schema": read_schema(path)} if path else {}
    except SchemaError as error:
        raise click.UsageError(str(error)) from error


def _write_workload(output: str, count: int, seed: int, options: dict[str, Any]) -> None:
    from rpq.files.destinations import WriteError, open_replacement
    from rpq.workloads.gmark.queries import random_queries
    from rpq.workloads.gmark.schema import SOCIAL

    lines = [expression + "\n" for _, expression in random_queries(options.get("schema", SOCIAL), count, seed=seed)]
    try:
        with open_replacement(output) as file:
            file.write("".join(lines).encode())
    except WriteError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {count:,} queries to {output}", err=True)


def _write_queries(
    output: str, over: str, edges: int, seed: int, *, count: int, length: int, overlap: float, selectivity: float
) -> None:
    import json
    from itertools import islice

    from rpq.errors import InputError
    from rpq.files.destinations import WriteError, open_replacement
    from rpq.readers import open_reader
    from rpq.workloads.generate.pattern_sets import query_set

    def insertions() -> Iterator[tuple[str, str, str]]:
        for batch in open_reader("edges", [over]):
            columns = (batch.columns.column(name).to_pylist() for name in ("source", "label", "target"))
            is_delete = batch.columns.column("delete").to_pylist() if "delete" in batch.columns.schema.names else None
            for place, edge in enumerate(zip(*columns, strict=True)):
                if is_delete is None or not is_delete[place]:
                    yield edge

    try:
        sample = list(islice(insertions(), edges))
    except InputError as error:
        raise click.UsageError(str(error)) from error
    if not sample:
        raise click.UsageError(f"{over} has no edges")
    drawn = query_set(sample, count, seed=seed, length=length, overlap=overlap / 100, selectivity=selectivity / 100)
    try:
        with open_replacement(output) as file:
            for number, one in enumerate(drawn, 1):
                file.write((json.dumps({"name": f"{one.kind} {number}", "query": one.text}) + "\n").encode())
    except WriteError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {count:,} queries to {output}", err=True)


def _compare(paths: Sequence[str], seed: int) -> None:
    """Print the figures of a generated stream and of files side by side."""
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
