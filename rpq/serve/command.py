"""`rpq serve`: the command and its options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from rpq.cli import options as shared
from rpq.cli.group import SeveralValuesCommand
from rpq.cli.options import ByteSize, Seconds, SecondsOrNone
from rpq.errors import did_you_mean, install_command
from rpq.language.query_file import FilePlace, QueryFileError, read_toml

EPILOG = """\b
  rpq serve
  rpq serve 'a2q/c2a*' --window 30d --slide 1d --time-unit s --keep 30d --checkpoint run.state
  rpq serve --queries queries.toml --input edges.csv --playback-speed 3600 --time-unit s
  rpq serve '?x knows ?y' --window 1h --time-unit s --input kafka://localhost/edges --token secret
  rpq serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem    (with RPQ_TOKEN set)
  rpq serve --config server.toml

\b
/openapi.json describes the requests and responses of the server, and / is a page that shows its queries.  QUERIES are given
first, or after --.  With --checkpoint FILE, all acknowledged changes are in FILE or FILE.journal, and a restarted server
continues from there.

\b
Exit status: 0 after SIGTERM, 1 after an error, such as an address in use or a damaged checkpoint, 2 for an error in the
options, 130 after Ctrl-C.
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
            self.fail(f"{value!r} is not a speed; expected a number above 0, or full", param, ctx)
        return speed


class ServeCommand(SeveralValuesCommand):
    """A command whose context has, as `obj`, a function that parses the arguments again, into another context."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = partial(self.make_context, ctx.info_name, [*args])
        return super().parse_args(ctx, args)


def _read_config(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Make the options in a file defaults of the command.  Raises a usage error."""
    if path is None:
        return
    options = {one.opts[0][2:]: one for one in ctx.command.params if isinstance(one, click.Option) and one is not param}
    place, ctx.default_map = FilePlace(file=path), {}
    try:
        for key, value in read_toml(path).items():
            if key not in options:
                raise place.error(f"is not an option of rpq serve{did_you_mean(key, [*options])}", field=key)
            try:
                arguments = _as_arguments(options[key], value)
                options[key].process_value(ctx, arguments)
            except click.BadParameter as error:
                raise place.error(error.message, field=key) from error
            ctx.default_map[str(options[key].name)] = arguments
    except QueryFileError as error:
        raise click.UsageError(str(error), ctx) from error


def _as_arguments(option: click.Option, value: Any) -> bool | str | Sequence[str]:
    """Return a value in TOML as the command line has it: a text, or several.  Raises `click.BadParameter`."""
    if option.is_flag:
        is_expected, expected = isinstance(value, bool), "true or false"
    else:
        values = value if isinstance(value, list) else [value]
        is_expected = isinstance(value, list) is option.multiple and all(type(one) in (str, int, float) for one in values)
        expected = "an array of texts or numbers" if option.multiple else "a text or a number"
    if not is_expected:
        raise click.BadParameter(f"expected {expected}")  # without the value, which may be a secret
    return value if option.is_flag else [*map(str, values)] if option.multiple else str(value)


def _limit(name: str, field: str, kind: click.ParamType, default: int | str, help: str) -> shared.Option:  # type: ignore[type-arg]
    """Return the option that sets a field of `ServeLimits`."""
    return click.option(name, field, type=kind, default=default, show_default=True, help=help)


@click.command("serve", cls=ServeCommand, epilog=EPILOG, short_help="Serve queries over HTTP, and a page.")
@click.argument("expressions", nargs=-1, metavar="[QUERIES]...")
@click.option(
    "--config",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="File (TOML) with options by name, without --: port = 8000; an array for one that can be repeated.  Options of the "
    "command line and the environment take precedence.",
)
@click.option(
    "--queries",
    "queries_file",
    metavar="FILE",
    help="File with queries, .toml or .jsonl (as for rpq run), instead of QUERIES.",
)
@click.option("--query-file", "query_files", multiple=True, metavar="FILE...", help="Files with the text of a query each.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port to listen at; 0 chooses a free one."
)
@click.option(
    "--token",
    "tokens",
    multiple=True,
    envvar="RPQ_TOKEN",
    show_envvar=True,
    metavar="[ROLE,...=]TOKEN",
    help="Token that every request except those for the page must contain. Its roles, read, write, register or backup, are "
    "what it allows; without roles, everything. RPQ_TOKEN can have several, with blanks between them.",
)
@click.option(
    "--open", "is_open", is_flag=True, help="Allow serving without a token at an address that other machines can reach."
)
@click.option("--tls-cert", metavar="FILE", help="Certificate chain for TLS, in PEM.")
@click.option("--tls-key", metavar="FILE", help="Private key of --tls-cert, in PEM, without a passphrase.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Another host name that requests may use.")
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Origin whose pages may send requests: https://example.org.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="FILE...",
    help="Further tuples, besides those posted: files, -, kafka://…, URLs of installed sources.",
)
@shared.format_option(shared.FORMATS)
@shared.rdf_options
@shared.columns("Input columns of a tuple, if they have other names (as for rpq run).")
@click.option("--label", metavar="LABEL", help="Label of all edges of the input, if it has no column for it.")
@shared.edges_from
@shared.changes
@shared.values
@click.option("--where", metavar="CONDITION", help="Read only tuples of the input that fulfil a condition (as for rpq run).")
@shared.edge_identity("Which inserts are the same edge (as for rpq run).")
@click.option(
    "--playback-speed",
    type=Speed(),
    default="full",
    show_default=True,
    help="Speed of the input, in seconds of stream time (or units of it) per second.",
)
@click.option(
    "--static",
    multiple=True,
    metavar="FILE...",
    help="Edges that are always present, without time; <GRAPH>=FILE are those of a graph, for GRAPH and FROM in SPARQL.",
)
@click.option("--static-format", default="edges", show_default=True, help="Format of the static edges.")
@shared.query_options("serve")
@shared.time_unit("if windows are durations or tuples have times")
@shared.times
@click.option(
    "--keep",
    metavar="WINDOW",
    help="Window whose edges are all stored, for /find and queries that are registered later: 30d, or unbounded.",
)
@click.option(
    "--edge-properties",
    metavar="NAME,...",
    help="Properties of edges that are stored for conditions of /find which no query has.",
)
@shared.max_ahead(
    "Maximum distance of a tuple ahead of the stream time; a tuple beyond it is rejected: 1d, a number in the stream's "
    "unit, or 1000x, a thousand times the longest window of the running queries.",
    default="1000x",
)
@shared.threads("Number of threads that divide path queries.")
@click.option(
    "--memory-limit", type=ByteSize(), help="Maximum memory of the engine.  [default: 70% of the machine's memory]"
)
@shared.max_rows
@click.option(
    "--push-limit",
    type=SecondsOrNone(),
    default="10s",
    show_default=True,
    help="Maximum time for one tuple, or for registering a query; none means no limit.",
)
@shared.drop_self_loops
@shared.on_error("What to do with a bad line of the input.")
@click.option("--checkpoint", metavar="FILE", help="File for all acknowledged changes, together with FILE.journal.")
@click.option("--checkpoint-every", type=Seconds(), default="30s", show_default=True, help="Time between two checkpoints.")
@click.option("--backup", metavar="DIR", help="Folder for copies of the checkpoint, which POST /checkpoint writes.")
@_limit("--max-body", "body_bytes", ByteSize(), "16M", "Maximum size of a request.")
@_limit("--max-queries", "queries", click.IntRange(min=0), 1000, "Maximum number of queries.")
@_limit("--max-expression", "expression_bytes", ByteSize(), "64K", "Maximum size of the text of a posted query.")
@_limit("--check-timeout", "check_seconds", Seconds(), "5s", "Maximum time for compiling and explaining a posted query.")
@_limit(
    "--max-connections", "connections", click.IntRange(min=1), 2000,
    "Maximum number of connections, including followers; further ones are asked to retry.",
)
@_limit(
    "--request-timeout", "request_seconds", Seconds(), "20s",
    "Maximum time until the head of a request, or the next part of its body, arrives.",
)
@_limit(
    "--idle-timeout", "idle_seconds", Seconds(), "75s",
    "Maximum time of a connection without a request, or of a client that reads nothing; not for waiting followers.",
)
@_limit("--max-followers", "followers", click.IntRange(min=0), 1000, "Maximum number of followers.")
@_limit(
    "--max-lag", "lag_rows", click.IntRange(min=0), 100_000,
    "Maximum number of rows that wait for a follower; a slower follower is disconnected.",
)
@_limit(
    "--kept-changes", "history_rows", click.IntRange(min=0), 100_000,
    "Number of rows of changes that are stored for followers that reconnect.",
)
@click.option("--kafka-config", metavar="FILE", help="For topics: file with librdkafka settings as NAME=VALUE.")
@shared.schema_registry
@shared.max_delay
@shared.log("Format of the log on standard error.")
@shared.quiet
@click.pass_context
def serve(context: click.Context, /, **options: Any) -> None:
    """Serve QUERIES, and queries that are registered later, over HTTP.

    Clients post tuples to /tuples and queries to /queries.  /queries/NAME/answers returns the current answers, and /changes
    sends an event when an answer begins (+) or ceases (-) to hold, as server-sent events.
    """
    try:
        from rpq.serve.serving import serve_with
    except ImportError as error:
        raise click.ClickException(f"rpq serve needs the extra serve: {install_command('serve')} ({error})") from error
    status = serve_with(context, **options)
    if status:
        sys.exit(status)
