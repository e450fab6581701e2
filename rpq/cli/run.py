"""`rpq run`: the command and its options.  The engine is imported when the command is called."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress
from textwrap import fill
from typing import Any

import click

from rpq.cli import options as shared
from rpq.cli.group import SeveralValuesCommand
from rpq.cli.options import ByteSize, OnError, WrittenFile, named_inputs
from rpq.cli.request import RunSettings, query_text
from rpq.language.query_file import FIELDS
from rpq.stream.sinks import SINKS
from rpq.stream.sources import SOURCES

EPILOG = """\b
--input, --static, --nodes, --source and --target take one or more values, and can be repeated.  EXPRESSION is given first,
last, or after -- (then it may begin with a -):
  rpq run 'a2q/c2a*' --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d --output rows.csv
  rpq run --window 10 --slide 1 --source x y --input - -- 'knows+'
  rpq run '?x a2q ?y . ?y c2q ?z' --select x,z --distinct --input sx-*.txt.gz --format stackoverflow --window count:10000
  rpq run '?x role moderator . ?x knows ?y' --static roles.csv --input edges.csv --window 30d --slide 1d --time-unit s
  rpq run --query Q2 --dataset stackoverflow --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d
  rpq run --queries queries.toml --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d --output rows.csv

\b
--queries: each query is a table [[query]] of a TOML file, or an object on a line of a JSON Lines file (.jsonl), with the
fields
FIELDS
Only query (the text) is required; sources, targets and select are lists, and queries with the same columns may share one
output.  The other fields are as the options above.  The table [defaults] of a TOML file sets fields that a query leaves
out; the options of the same names, --source, --target and --output set those that are still missing.  The first column of
all outputs is query, the name.  A tuple is late if it is late for every query.  If the file has an error, no query is run.
  [[query]]
  name = "experts"
  query = "a2q/c2a*"
  window = "10d"
  output = "experts.parquet"

\b
--window count:N --slide M is a window of the last N inserts that the query reads, which moves after every M inserts (by
default 1).  --window unbounded has no slide: edges leave it only by deletes.

\b
--edges-from FILE: each record (an object, a row, a message) becomes the edges of FILE whose condition when is true, in the
order of FILE.  An edge without when is left out if its source or target is missing; with when, a missing source or target is
a bad line.  A name can contain dots, which select fields of nested records.
  timestamp = "@timestamp"
  [[edge]]
  label = "spawned"
  source = "process.parent.entity_id"
  target = "process.entity_id"
  when = "event.action = 'start'"
  [edge.properties]
  user = "user.name"

\b
--input NAME=FILE: all tuples of the file belong to the stream NAME (which contains no /, or is an IRI with ://, or is in
<>); a column stream assigns single tuples to streams.  Path expressions and patterns read all streams as one.  A value that
is the name of an existing file is this file, even if it contains a =.  --static NAME=FILE names the graph of static edges in
the same way.

\b
--events: consecutive tuples with the same value in the column event (--columns event=NAME), or in the same RDF graph, form
an event, which is applied as one change: its rows are net changes, at the largest of its timestamps.  With --events alone,
a query is evaluated over each event separately, together with the edges of --static, and needs no window.
  rpq run '?ride fare ?fare . ?ride taxi ?taxi' --events alone --columns event=ride --input rides.csv --output fares.csv

\b
--output writes CSV (.csv), JSON Lines (.jsonl), SPARQL results as TSV (.tsv) or as JSON with a binding per line (.srjl), or
N-Quads (.nq), each compressed if .gz or .zst follows; or Parquet (.parquet), or a SPARQL results document (.srj).  A file
appears as a whole at the end of the run; an existing one remains until then, and also if the run fails without a row.
After an error or Ctrl-C, the file contains the rows so far.  Rows are written at once to standard output, FIFOs and devices,
and to text files if an input is not a regular file or if there is a --checkpoint, with which a later run appends.  With
--checkpoint, the rows of a Parquet file are collected in FILE.rows, from which it is created at the end of each run.

\b
--input kafka://BROKER:PORT/TOPIC,TOPIC --output kafka://BROKER:PORT/TOPIC reads and writes topics of Apache Kafka (extra
kafka).  Rows are committed together with the offsets of their input: exactly once, if there is a --checkpoint.  Values are
JSON objects, or separated fields (--columns source=2 is the second one); --columns
timestamp=@time,source=@key,label=@header.NAME reads the metadata of messages (also @topic, @partition, @offset).  The key of
a row is [query, binding], and its value is the row.
  rpq run 'a2q/c2a' --input kafka://localhost/edges --output kafka://localhost/rows --window 30d --slide 1d --time-unit s \\
      --checkpoint run.state

\b
--output postgresql://HOST/DATABASE?table=NAME keeps a table of PostgreSQL equal to the answer (extra postgresql): a row for
each answer, with the number of times that it holds and the timestamp of the last change.  Rows are committed together with
the position of any input: exactly once, if there is a --checkpoint.  It needs --semantics explicit.
  rpq run 'knows+' --input edges.csv --window 30d --slide 1d --semantics explicit \\
      --output 'postgresql://localhost/graph?table=reachable' --checkpoint run.state

\b
--output https://HOST/PATH posts rows as JSON arrays of objects, in order, each batch with a header Idempotency-Key.  A
request is repeated until the receiver accepts it (2xx), after failed connections, time-outs, 5xx and 429; other answers,
also redirects, are final.  With a --checkpoint, a resumed run sends the batches since then again, with the same keys and
bodies: at least once.  A secret in the environment variable RPQ_WEBHOOK_SECRET, or in --webhook-secret FILE, signs bodies:
the header X-Hub-Signature-256 is sha256= and the HMAC in hexadecimal digits.
  rpq run 'a2q/c2a' --input edges.csv --window 30d --slide 1d --output https://example.org/rows --checkpoint run.state \\
      --message '{source} → {target}' --webhook-body '{{"text": {messages}}}'

\b
--input SCHEME://… reads from a source that another package provides for this scheme (docs/sources.md); those that are
installed are listed below.  With --checkpoint, a restart loses no record of a source that can be read again; of any other,
it loses those since the checkpoint.  --output SCHEME://… writes to a sink of another package (docs/sinks.md).

\b
Exit status: 0 on success, 1 for an error in the input or another file, 2 for an error in the options, 130 after Ctrl-C; a
run over topics ends with 0 after SIGTERM.
""".replace("FIELDS", fill(", ".join(FIELDS), 120, initial_indent="  ", subsequent_indent="  "))


class RunCommand(SeveralValuesCommand):
    """The command, whose help ends with the sources and sinks that are installed."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        for providers in (SOURCES, SINKS):
            if installed := providers.installed():
                with formatter.section(f"Installed {providers.noun}s"):
                    formatter.write_dl(installed)


@click.command("run", cls=RunCommand, epilog=EPILOG, short_help="Run a query over a stream.")
@click.argument("expression", required=False)
@click.option("--query", metavar="NAME", help="Run a named query, such as Q2, instead of EXPRESSION.")
@click.option("--dataset", help="Data set whose labels --query uses: stackoverflow, ldbc, yago, …")
@click.option("--query-file", metavar="FILE", help="File with the text of a query, instead of EXPRESSION.")
@click.option(
    "--queries",
    "queries_file",
    metavar="FILE",
    help="File with any number of queries, .toml or .jsonl, instead of EXPRESSION; see below.",
)
@shared.input_option("Files to read; - is standard input, and NAME=FILE assigns a file to the stream NAME.")
@shared.format_option(shared.FORMATS)
@shared.rdf_options
@shared.events
@shared.edge_identity(
    "Which inserts are the same edge: those with equal source, label and target (triple), none (parallel), or those with "
    "equal values of the column edge (id, --columns edge=NAME)."
)
@click.option(
    "--static",
    multiple=True,
    metavar="FILE...",
    help="Edges that are always present: source, target and label, without time; <GRAPH>=FILE are those of a graph that "
    "SPARQL reads with GRAPH and FROM.",
)
@click.option(
    "--static-format", default="edges", show_default=True, help="Format of the static edges; timestamps are ignored."
)
@shared.nodes
@shared.columns(
    "Input columns for source, target, label, timestamp, op or delete, stream and event, if they have other names, "
    "also nested ones: source=process.parent.id,target=hashes[0].value."
)
@click.option("--label", metavar="LABEL", help="Label of all edges, if the input has no column for it.")
@shared.edges_from
@shared.changes
@shared.values
@click.option(
    "--where",
    metavar="CONDITION",
    help="Read only tuples that fulfil a condition: \"amount > 1000 and kind in ('buy', 'sell')\".  Deletes are always "
    "read, unless the condition uses only source, target, label, timestamp, op, delete and stream.",
)
@shared.query_options("run")
@shared.time_unit("if the format does not define it")
@click.option("--output", metavar="FILE", help="File, topic, table or webhook for rows (see below); - is standard output.")
@click.option(
    "--replace",
    is_flag=True,
    help="For tables: remove the rows that a table has when a new run begins.  [default: refuse a table with rows]",
)
@shared.webhook_options
@shared.times
@click.option(
    "--message",
    metavar="TEXT",
    help="Text with columns of the rows in braces, '{source} reached {target}'.  It replaces the rows of standard output, "
    "and is a last column message in CSV, JSON Lines, Parquet, topics and webhooks.",
)
@click.option("--witness", is_flag=True, help="Add a column with a witness path for each + row.")
@shared.threads("Number of threads that divide path queries.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of processes that evaluate parts of the stream, divided by time.",
)
@click.option(
    "--memory-limit",
    type=ByteSize(),
    help="Maximum memory of the engine: 500M, 4G.  [default: 70% of the machine's memory]",
)
@shared.max_rows
@click.option(
    "--keep",
    metavar="WINDOW",
    help="Window whose edges are all stored in checkpoints, for queries that are registered later: 30d, or unbounded.",
)
@shared.max_ahead(
    "Maximum distance of a tuple ahead of the stream time; a tuple beyond it is a bad line: 1d, a number in the stream's "
    "unit, or 1000x, a thousand times the longest window.  [default: none]"
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Read only the first N tuples.")
@click.option(
    "--flush/--no-flush",
    default=True,
    show_default=True,
    help="For files: write the reports that are still waiting at the end of the input (--report slide or time, REGISTER).",
)
@click.option(
    "--report-empty",
    is_flag=True,
    help="Write a report whose whole answer is empty (REGISTER RSTREAM) as a row without values and with the op 0.",
)
@shared.drop_self_loops
@click.option(
    "--late",
    type=WrittenFile(),
    metavar="FILE",
    help="File for tuples that arrived too late for the window, as CSV; .gz and .zst compress it.",
)
@click.option(
    "--on-error",
    type=OnError(),
    default="stop",
    show_default=True,
    help="What to do with a bad line or message: stop, skip it, or with topics send it and the reason to a kafka://… topic.",
)
@click.option(
    "--checkpoint", metavar="FILE", help="File for the position of the run; if it exists, the run resumes from it."
)
@shared.topic_options
@shared.stats("; - is standard output")
@shared.quiet
def run(expression: str | None, query: str | None, dataset: str | None, **options: Any) -> None:
    """Run the query EXPRESSION over a stream of edges.

    EXPRESSION is a path expression such as a2q/c2a*: a row (source, target, timestamp, op) reports that a pair of vertices
    begins (+) or ceases (-) to be connected by a path in the window whose labels match the expression.  Or it is a graph
    pattern such as ?x a2q ?y . ?y c2q ?z: a row (x, y, z, timestamp, op) reports the same of a match of the pattern.  Or it
    is a query in SPARQL, or in MATCH as in GQL or Cypher.  Without --output, rows are only counted.
    """
    from rpq.cli.execution import execute

    try:
        query_or_text = query_text(
            expression, query, dataset, queries_file=options["queries_file"], query_file=options["query_file"]
        )
        inputs, streams = named_inputs(options.pop("inputs"))
        options["static"], options["static_graphs"] = named_inputs(options["static"], "--static")
        status = execute(RunSettings(expression=query_or_text, inputs=inputs, streams=streams, **options))
    except KeyboardInterrupt:
        _give_up_unread_output()
        status = 130
    if status:
        sys.exit(status)


def _give_up_unread_output() -> None:
    """Redirect standard output to the null device if its reader takes nothing, so that Python does not wait to flush it."""
    with suppress(AttributeError, OSError, TypeError, ValueError):  # no such output, or a system without `poll`
        waiting = select.poll()
        waiting.register(sys.stdout, select.POLLOUT)
        if not waiting.poll(0):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
