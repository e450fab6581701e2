"""`rpq run`: the command and its options.  The engine is imported when the command is called."""

from __future__ import annotations

import sys
from typing import Any

import click

from rpq.cli import options as shared
from rpq.cli.group import SeveralValuesCommand
from rpq.cli.options import ByteSize, CountOrNone, Endpoint, OnError, Seconds, WrittenFile, named_inputs
from rpq.cli.request import RunSettings, query_text

EPILOG = """\b
--input, --static, --source and --target take several values in a row, and can be repeated.  EXPRESSION comes first, last,
or after -- (then it may start with a -):
  rpq run 'a2q/c2a*' --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d --output rows.csv
  rpq run --window 10 --slide 1 --source x y --input - -- 'knows+'
  rpq run '?x a2q ?y . ?y c2q ?z' --select x,z --distinct --input sx-*.txt.gz --format stackoverflow --window count:10000
  rpq run '?x role moderator . ?x knows ?y' --static roles.csv --input edges.csv --window 30d --slide 1d --time-unit s
  rpq run --query Q2 --dataset stackoverflow --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d
  rpq run --queries queries.toml --input sx-*.txt.gz --format stackoverflow --window 30d --slide 1d --output rows.csv

\b
--queries: in TOML each query is a table [[query]], in JSON lines (.jsonl) an object on a line of its own, with the fields
  name (by default the expression), query (the expression or pattern), language, window, slide, paths, semantics; of paths
  sources, targets (lists), simple_budget, on_budget; of patterns select (a list), distinct (true), matching, report;
  output (as --output; queries with the same columns may share one).
What a query does not say is said by a table [defaults] of the TOML file, and what that does not by the options of the same
names, --source, --target and --output.  All outputs have a first column query, the name.  A tuple is late if it is for
every query.  Anything wrong with the file: nothing is run.
  [[query]]
  name = "experts"
  query = "a2q/c2a*"
  window = "10d"
  output = "experts.parquet"

\b
--window count:N --slide M is the last N inserts that the query meets, moving at every M-th of them (1 if not given);
--window unbounded has no slide: only deletes take edges out.

\b
--input NAME=FILE: all of the file belongs to the stream NAME (which has no /, or stands in <>), as a column stream says it
of single tuples.  Queries read all streams as one.  What exists as it is written, a = in its name or not, is a file.

\b
--events: consecutive tuples with one value in the column event (--columns event=NAME), or of one graph of RDF, are an event,
a small graph that comes as one: rows are net of it, with the largest of its timestamps.  With --events alone a query is
answered over each event by itself, and over the edges of --static; it needs no window.
  rpq run '?ride fare ?fare . ?ride taxi ?taxi' --events alone --columns event=ride --input rides.csv --output fares.csv

\b
--output writes CSV (.csv), JSON Lines (.jsonl), TSV (.tsv) or JSON (.srjl, a binding a line) of SPARQL's results, or N-Quads
(.nq), compressed if .gz or .zst follows, or Parquet (.parquet), or a document of SPARQL's results (.srj).  A file is
put in its place at the end, as a whole; one that was there stays until then, and for good if the run comes to nothing.
An error or Ctrl-C ends it with the rows so far.  Written as rows come are standard output, FIFOs and devices, text
while an input is no regular file, and all text with --checkpoint, which goes on where it stands.  Parquet with
--checkpoint collects rows in FILE.rows and is made from them at the end of each run.

\b
--input kafka://BROKER:PORT/TOPIC,TOPIC --output kafka://BROKER:PORT/TOPIC: from topics to topics of Apache Kafka (extra
kafka), where rows and the offsets that they came of are committed together, exactly once with --checkpoint.  Values are
objects of JSON, or fields (--columns source=2: the place of one); --columns timestamp=@time,source=@key,label=@header.NAME
takes what stands beside them (@topic, @partition, @offset too).  The key of a row is [query, binding], its value the row.
  rpq run 'a2q/c2a' --input kafka://localhost/edges --output kafka://localhost/rows --window 30d --slide 1d --time-unit s \
      --checkpoint run.state

\b
Exit status: 0 fine, 1 an error in the input, or in what else is read or written, 2 an error in the options, 130 ended by
Ctrl-C; a run over topics ends with 0 at SIGTERM.
"""


@click.command("run", cls=SeveralValuesCommand, epilog=EPILOG, short_help="Run a query over a stream.")
@click.argument("expression", required=False)
@click.option("--query", metavar="NAME", help="In place of EXPRESSION: a query by its name, such as Q2.")
@click.option("--dataset", help="Over whose labels the --query is asked: stackoverflow, ldbc, yago, …")
@click.option("--query-file", metavar="FILE", help="In place of EXPRESSION: a file with one query as text.")
@click.option(
    "--queries",
    "queries_file",
    metavar="FILE",
    help="In place of EXPRESSION: many queries, .toml or .jsonl; see below.",
)
@shared.language
@shared.input_option("Files to read; - is standard input, NAME=FILE belongs to the stream NAME.")
@shared.format_option(shared.FORMATS)
@shared.rdf_options
@shared.events
@click.option(
    "--static", multiple=True, metavar="FILE...", help="Edges without time, there from the beginning: source, target, label."
)
@click.option("--static-format", default="edges", show_default=True, help="Their format; times in it are not looked at.")
@click.option(
    "--columns",
    metavar="COLUMN=NAME,...",
    help="Names that the input has for source, target, label, timestamp, op or delete, stream, event.",
)
@click.option("--label", metavar="LABEL", help="The label of all edges, where the input has no column for it.")
@click.option(
    "--where",
    metavar="CONDITION",
    help="Only tuples for which it holds: \"amount > 1000 and kind in ('buy', 'sell')\"; deletes pass, unless it names only "
    "source, target, label, timestamp, op, delete and stream.",
)
@shared.window_and_slide(
    "30d, 10m (minutes), 500ms, or a number in the stream's unit; count:N, the last N inserts; unbounded"
)
@shared.time_unit("where the format does not tell")
@shared.paths
@shared.simple_budget_options
@shared.semantics
@shared.pattern_options
@click.option("--output", metavar="FILE", help="Where rows go: a name as below, or - for standard output.")
@click.option("--witness", is_flag=True, help="Add a column with a path for every + row.")
@shared.sources_and_targets
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads that divide queries.")
@click.option(
    "--memory-limit",
    type=ByteSize(),
    help="Bytes that the engine may use: 500M, 4G.  [default: a part of the machine's]",
)
@click.option(
    "--max-rows",
    type=CountOrNone(),
    default="10000000",
    show_default=True,
    help="Rows that one tuple or boundary may bring to one query; none for no limit.",
)
@click.option(
    "--keep",
    metavar="WINDOW",
    help="Keep all edges of this window in checkpoints, so that queries over it can be registered later: 30d.",
)
@shared.max_ahead(
    "A tuple further ahead of the stream's time than this is a bad line, and moves nothing: 1d, a number in the stream's "
    "unit, or 1000x, a thousand times the longest window.  [default: none]"
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Read the first N tuples only.")
@shared.drop_self_loops
@click.option(
    "--deletes",
    type=click.FloatRange(0, 100),
    default=0.0,
    metavar="PERCENT",
    help="After each insert, with this probability, delete an edge of the window.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the --deletes.")
@click.option(
    "--late",
    type=WrittenFile(),
    metavar="FILE",
    help="Where tuples go that came too late for the window, as CSV; .gz and .zst compress it.",
)
@click.option(
    "--on-error",
    type=OnError(),
    default="stop",
    show_default=True,
    help="What to do at a bad line or message: stop, skip, or with topics a kafka://… that it goes to, with the reason.",
)
@click.option(
    "--checkpoint", metavar="FILE", help="Where the run stands is kept here; if it is there, the run goes on from it."
)
@shared.topic_options(Seconds(), Endpoint())
@shared.stats("; - is standard output")
@shared.quiet
def run(expression: str | None, query: str | None, dataset: str | None, **options: Any) -> None:
    """Run the query EXPRESSION over a stream of edges.

    It is a path expression such as a2q/c2a*: rows (source, target, timestamp, op) tell when a pair of vertices begins (+)
    and ceases (-) to be joined by a path in the window that spells a word of it.  Or it is a graph pattern such as
    ?x a2q ?y . ?y c2q ?z: rows (x, y, z, timestamp, op) tell the same of the vertices that its edges join.  Without
    --output rows are only counted.
    """
    from rpq.cli.execution import execute

    try:
        query_or_text = query_text(
            expression, query, dataset, queries_file=options["queries_file"], query_file=options["query_file"]
        )
        inputs, streams = named_inputs(options.pop("inputs"))
        status = execute(RunSettings(expression=query_or_text, inputs=inputs, streams=streams, **options))
    except KeyboardInterrupt:
        status = 130
    if status:
        sys.exit(status)
