"""`rpq serve`: the command and its options."""

from __future__ import annotations

import sys
from typing import Any

import click

from rpq.cli import options as shared
from rpq.cli.group import SeveralValuesCommand
from rpq.cli.options import ByteSize, CountOrNone, Seconds
from rpq.errors import install_command

EPILOG = """\b
  rpq serve
  rpq serve 'a2q/c2a*' --window 30d --slide 1d --time-unit s --keep 30d --checkpoint run.state
  rpq serve --queries queries.toml --input edges.csv --playback-speed 3600 --time-unit s
  rpq serve '?x knows ?y' --window 1h --time-unit s --input kafka://localhost/edges --token secret
  rpq serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem    (with RPQ_TOKEN set)

\b
What the server takes and gives is told at /openapi.json; / is a page to look at it.  QUERIES come first, or after --.  With
--checkpoint FILE what is acknowledged is in FILE or FILE.journal, and the server goes on from there when it is started anew.

\b
Exit status: 0 at SIGTERM, 1 an error, such as an address that is taken or a damaged checkpoint, 2 an error in the
options, 130 ended by Ctrl-C.
"""


class Speed(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A number above 0, or full."""

    name = "speed"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "X|full"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value in (None, "full"):
            return None
        try:
            speed = float(value)
        except ValueError:
            speed = 0.0
        if not 0 < speed <= 1e15:
            self.fail(f"{value!r} is no speed: expected a number above 0, or full", param, ctx)
        return speed


@click.command("serve", cls=SeveralValuesCommand, epilog=EPILOG, short_help="Serve queries over HTTP, and a page.")
@click.argument("expressions", nargs=-1, metavar="[QUERIES]...")
@click.option("--queries", "queries_file", metavar="FILE", help="In place of QUERIES: many, .toml or .jsonl, as of rpq run.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Its port; 0 for any.")
@click.option("--token", envvar="RPQ_TOKEN", show_envvar=True, help="What all must say who ask for anything but the page.")
@click.option("--open", "is_open", is_flag=True, help="Serve without a token at an address that other machines reach.")
@click.option("--tls-cert", metavar="FILE", help="Serve over TLS: the certificate, and those it depends on, in PEM.")
@click.option("--tls-key", metavar="FILE", help="The key of --tls-cert, in PEM, without a pass phrase.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name that the server is called by.")
@click.option("--allow-origin", "origins", multiple=True, metavar="ORIGIN", help="Pages of it may ask: https://example.org.")
@shared.language
@click.option(
    "--input", "inputs", multiple=True, metavar="FILE...", help="Tuples beside those that are posted: files, -, kafka://…"
)
@shared.format_option(shared.FORMATS)
@shared.rdf_options
@click.option("--columns", metavar="COLUMN=NAME,...", help="Names that the input has for the columns of a tuple.")
@click.option("--label", metavar="LABEL", help="The label of all edges of the input, where it has no column for it.")
@click.option("--where", metavar="CONDITION", help="Only tuples of the input for which it holds, as of rpq run.")
@click.option(
    "--playback-speed",
    type=Speed(),
    default="full",
    show_default=True,
    help="Seconds (or units) of the input that are played in a second.",
)
@click.option("--static", multiple=True, metavar="FILE...", help="Edges without time, there from the beginning.")
@click.option("--static-format", default="edges", show_default=True, help="Their format.")
@shared.window_and_slide("30d, 10m (minutes), or a number in the stream's unit; count:N; unbounded")
@shared.time_unit("where windows are durations, or tuples have times")
@shared.paths
@shared.simple_budget_options
@shared.semantics
@shared.pattern_options
@click.option("--keep", metavar="WINDOW", help="Keep all edges of this window, for queries that come later: 30d.")
@shared.max_ahead(
    "A tuple further ahead of the stream's time than this is refused, and moves nothing: 1d, a number in the stream's unit, "
    "or 1000x, a thousand times the longest window of the queries that run.",
    default="1000x",
)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads for path queries.")
@click.option("--memory-limit", type=ByteSize(), help="Bytes that the engine may use.  [default: a part of the machine's]")
@click.option(
    "--max-rows",
    type=CountOrNone(),
    default="10000000",
    show_default=True,
    help="Rows that one tuple or boundary may bring to one query; none for no limit.",
)
@shared.drop_self_loops
@shared.on_error("What to do at a bad line of the input.")
@click.option("--checkpoint", metavar="FILE", help="What was acknowledged is saved here, and in FILE.journal.")
@click.option(
    "--checkpoint-every", type=Seconds(), default="30s", show_default=True, help="So often the --checkpoint is written."
)
@click.option(
    "--damaged-journal",
    type=click.Choice(["refuse", "set-aside"]),
    default="refuse",
    show_default=True,
    help="FILE.journal damaged, missing or another one: start not, or keep it aside and go on with what can be read.",
)
@click.option("--most-body", "body_bytes", type=ByteSize(), default="16M", show_default=True, help="Bytes of one request.")
@click.option(
    "--most-queries", "queries", type=click.IntRange(min=0), default=1000, show_default=True, help="Queries at a time."
)
@click.option(
    "--most-expression",
    "expression_bytes",
    type=ByteSize(),
    default="64K",
    show_default=True,
    help="Bytes of the text of a posted query.",
)
@click.option(
    "--check-timeout",
    "check_seconds",
    type=Seconds(),
    default="5s",
    show_default=True,
    help="So long a query that is posted may take to be compiled and explained.",
)
@click.option(
    "--most-connections",
    "connections",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    help="Connections at a time, followers among them; others are told to come back.",
)
@click.option(
    "--request-timeout",
    "request_seconds",
    type=Seconds(),
    default="20s",
    show_default=True,
    help="So long the head of a request, or the next part of its body, may take to come.",
)
@click.option(
    "--idle-timeout",
    "idle_seconds",
    type=Seconds(),
    default="75s",
    show_default=True,
    help="So long a connection may be without a request, or its client read nothing; followers may wait.",
)
@click.option(
    "--most-followers", "followers", type=click.IntRange(min=0), default=1000, show_default=True, help="Followers at a time."
)
@click.option(
    "--most-lag",
    "lag_rows",
    type=click.IntRange(min=0),
    default=100_000,
    show_default=True,
    help="Rows that may wait for a follower; one for which more do is dropped.",
)
@click.option(
    "--kept-changes",
    "kept_rows",
    type=click.IntRange(min=0),
    default=100_000,
    show_default=True,
    help="Rows of changes that are kept, for followers that come back.",
)
@click.option("--kafka-config", metavar="FILE", help="Of topics: name=value lines in librdkafka's names.")
@click.option(
    "--max-delay", type=Seconds(), default="1s", show_default=True, help="Of topics: how long a tuple waits for other ones."
)
@shared.quiet
def serve(**options: Any) -> None:
    """Serve QUERIES, and those that are registered later, over HTTP.

    Tuples are posted to /tuples, queries to /queries; /queries/NAME/answers has the answers that hold now and /changes
    tells, as server-sent events, when one begins (+) and ceases (-) to hold.
    """
    try:
        from rpq.serve.serving import serve_with
    except ImportError as error:
        raise click.ClickException(f"rpq serve needs the extra serve: {install_command('serve')} ({error})") from error
    status = serve_with(**options)
    if status:
        sys.exit(status)
