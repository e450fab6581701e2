"""The options that commands share: types of values, declarations, named inputs, and checks of file names.

Each option is declared once; where options differ from command to command, they are functions.

A value of `--input` may belong to a stream: `--input NAME=FILE`.  A value that exists as a file is this file, whatever its
name contains.  Otherwise the part before the first `=` is the name of a stream if it contains no `/`, is an IRI with `://`,
or is in angle brackets: `answers=sx-a2q.txt`, `http://example.org/answers=-`.  A file whose name
contains a `=`, and which may not exist yet, is written with `./` before it.  So it is with `--static GRAPH=FILE`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import click

from rpq.errors import RpqError
from rpq.files.destinations import (
    STANDARD_OUTPUT,
    STANDARD_STREAM,
    WriteError,
    check_distinct,
    check_folder_writable,
    check_writable,
    is_read_with,
)
from rpq.kafka.topic_names import is_topic, topics_in
from rpq.language.options import CHOICES, OPTIONS, REFUSED_PATHS
from rpq.language.options import Option as QueryOption
from rpq.run.table_names import is_table, table_in
from rpq.stream.providers import without_login
from rpq.stream.sinks import is_sink
from rpq.stream.sources import SOURCES

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class WrittenFile(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A type for the name of an output file; `-` is standard output."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return STANDARD_OUTPUT if value == STANDARD_STREAM else str(value)


class NameList(click.ParamType):  # type: ignore[type-arg]
    """A type for names separated by commas: `x,z`."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(name.strip() for name in value.split(","))


class ByteSize(click.ParamType):  # type: ignore[type-arg]
    """A type for numbers of bytes: `4000000`, `500M`, `4G`, `4GiB`; the letters are powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        size = int(float(match[1]) * 1024 ** _POWERS[match[2].lower()]) if match else 0
        if size <= 0:
            self.fail(f"{value!r} is not a size; expected a number of bytes, such as 500M or 4G", param, ctx)
        return size


class CountOrNone(click.ParamType):  # type: ignore[type-arg]
    """A type for positive integers and `none`."""

    name = "count"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "N|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "none" or not isinstance(value, str):
            return None if value == "none" else int(value)
        digits = value.replace(",", "").replace("_", "")
        if not digits.isdecimal() or not int(digits):
            self.fail(f"{value!r} is neither a whole number above 0 nor none", param, ctx)
        return int(digits)


class MaxAheadOption(click.ParamType):  # type: ignore[type-arg]
    """A type for `--max-ahead`: a duration, a multiple of the longest window, or `none`."""

    name = "duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "DURATION|Nx|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | None:
        from rpq.stream.stream_time import MaxAhead

        text = str(value).strip()
        if text == "none":
            return None
        try:
            MaxAhead.of(int(text) if text.isdecimal() else text)
        except RpqError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        return text


class OnError(click.ParamType):  # type: ignore[type-arg]
    """A type for `--on-error`: stop, skip, or the topic that receives bad messages."""

    name = "[stop|skip|kafka://…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in ("stop", "skip") or is_topic(value):
            return str(value)
        return self.fail(f"{value!r} is not one of 'stop', 'skip', nor a topic, kafka://BROKER/TOPIC", param, ctx)


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A type for durations on the clock: 5s, 200ms, 1m, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a duration; expected one such as 5s, 200ms or 1m", param, ctx)
        return float(found[1]) * {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}[found[2]]


class SecondsOrNone(Seconds):
    """A type for durations on the clock above 0, and `none`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = None if value is None or value == "none" else super().convert(value, param, ctx)
        if seconds == 0:
            self.fail(f"{value!r} is neither a duration above 0 nor none", param, ctx)
        return seconds


class TimeFormat(click.ParamType):  # type: ignore[type-arg]
    """A type for formats of times: `epoch`, or one of strptime."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from rpq.stream.arrays.fields import check_time_format

        try:
            return check_time_format(str(value))
        except ValueError as error:
            return self.fail(str(error), param, ctx)


class Endpoint(click.ParamType):  # type: ignore[type-arg]
    """A type for a port, or an address with a port."""

    name = "[host:]port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or not int(port) < 1 << 16:
            self.fail(f"{value!r} is not a port; expected one such as 9100 or 127.0.0.1:9100", param, ctx)
        return f"{host}:{port}"


class Assignments(click.Option):
    """An option for `NAME=VALUE,…`. It can be repeated, which has the same meaning as one value with all assignments."""

    def __init__(self, *args: Any, callback: Callable[..., Any] | None = None, **options: Any) -> None:
        def join(ctx: click.Context, param: click.Parameter, values: Sequence[str] | None) -> Any:
            text = ",".join(values) if values else None
            return text if callback is None else callback(ctx, param, text)

        super().__init__(*args, callback=join, **{**options, "multiple": True})


Command = Callable[..., Any]
Option = Callable[[Command], Command]

FORMATS = ("edges", "jsonl", "rdf", "stackoverflow", "ldbc", "yago", "gmark")
"""The formats of this distribution, in the order of the help."""

BY_LINES = tuple(format for format in FORMATS if format not in ("jsonl", "rdf"))
"""The formats whose files can be divided among tasks of Spark."""


def combine_options(*options: Option) -> Option:
    """Combine options into one decorator; the help lists them in this order."""

    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def input_option(help: str) -> Option:
    """Return the option `--input`, which takes files."""
    return click.option("--input", "inputs", multiple=True, required=True, metavar="FILE...", help=help)


def format_option(formats: tuple[str, ...]) -> Option:
    """Return the option `--format`, whose help lists these formats."""
    return click.option("--format", default="edges", show_default=True, help=f"Format of the input: {', '.join(formats)}.")


rdf_options = combine_options(
    click.option(
        "--rdf-syntax",
        type=click.Choice(["nt", "nq", "ttl", "trig", "jsonld", "ndjsonld", "rdf"]),
        help="Syntax of RDF input.  [default: by the endings of file names, otherwise nq]",
    ),
    click.option(
        "--rdf-time",
        metavar="WHAT",
        help="Source of the timestamp of an RDF triple: position (1, 2, …), graph-position, graph-name, or the IRI of a "
        "property of its graph.  [default: position]",
    ),
    click.option(
        "--rdf-graph",
        type=click.Choice(["stream", "event"]),
        help="Meaning of the graph of an RDF triple: its stream or event.",
    ),
    click.option("--rdf-base", metavar="IRI", help="Base of relative IRIs in RDF input without a base of its own."),
)


def columns(help: str) -> Option:
    """Return the option `--columns`."""
    return click.option("--columns", cls=Assignments, metavar="COLUMN=NAME,...", help=help)


edges_from = click.option(
    "--edges-from",
    metavar="FILE",
    help="File (TOML) with the edges of a record, several or none: label, source, target, timestamp, when, op or delete, id "
    "and properties of each [[edge]], in place of --columns and --label.",
)


nodes = combine_options(
    click.option(
        "--nodes",
        multiple=True,
        metavar="FILE...",
        help="Records of nodes, with labels and properties: CSV with a header, JSON lines, Parquet or Arrow.  Without times "
        "a file is read before the first tuple, otherwise in the order of time.",
    ),
    click.option(
        "--node-columns",
        cls=Assignments,
        metavar="COLUMN=NAME,...",
        help="Columns of --nodes for node, labels, op (+, = or -) and timestamp, if they have other names; all others are "
        "properties.",
    ),
    click.option(
        "--node-properties",
        metavar="NAME,...",
        help="Properties of nodes that are kept.  [default: all]",
    ),
)


changes = click.option(
    "--changes",
    type=click.Choice(["debezium", "debezium-rows"]),
    help="Read records as changes of a table: Debezium's envelopes, or debezium-rows, without them (ExtractNewRecordState). "
    "Inserting, updating and deleting a row inserts, updates and deletes its edges.",
)


values = combine_options(
    click.option(
        "--time-format",
        type=TimeFormat(),
        help="Format of times that are not in ISO 8601: epoch (seconds, with a fraction or without), or as in strptime, "
        "'%d/%m/%Y %I:%M %p', in UTC unless it has a zone (%z).",
    ),
    click.option(
        "--vertices",
        type=click.Choice(["text"]),
        help="Read all vertices as text, also those that are numbers in JSON or Parquet, so that both may occur.",
    ),
    click.option("--trim", is_flag=True, help="Drop blanks around the fields of CSV and TSV, as in 'ann, bob, follows, 1'."),
)


events = click.option(
    "--events",
    type=click.Choice(["window", "alone"]),
    help="Treat consecutive tuples with the same event (the column event, or the graph of RDF triples) as one change: of "
    "the window, or with alone as a window of its own.",
)


def edge_identity(help: str) -> Option:
    """Return the option `--edges`."""
    choice = click.Choice(["triple", "parallel", "id"])
    return click.option("--edges", type=choice, default="triple", show_default=True, help=help)


def max_ahead(help: str, *, default: str | None = None) -> Option:
    """Return the option `--max-ahead`."""
    return click.option("--max-ahead", type=MaxAheadOption(), default=default, show_default=default is not None, help=help)


def on_error(help: str, *, default: str = "stop") -> Option:
    """Return the option `--on-error`."""
    return click.option("--on-error", type=click.Choice(["stop", "skip"]), default=default, show_default=True, help=help)


drop_self_loops = click.option("--drop-self-loops", is_flag=True, help="Leave out edges from a vertex to itself.")


times = click.option(
    "--times",
    type=click.Choice(["iso"]),
    help="Write times as texts in ISO 8601 (UTC), as many inputs have them: 2024-03-01T10:00:00Z.  [default: numbers in the "
    "stream's unit]",
)


def time_unit(when: str) -> Option:
    """Return the option `--time-unit`; `when` describes the inputs that need it."""
    return click.option("--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help=f"Unit of the timestamps, {when}.")


class Words(click.Choice):  # type: ignore[type-arg]  # generic in the newest click only
    """The words of an option of a query. The errors of some words have a hint."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word. Raises a usage error."""
        if self.choices == CHOICES["paths"] and value in REFUSED_PATHS:
            self.fail(f"{value!r}, {REFUSED_PATHS[value]}", param, ctx)
        return super().convert(value, param, ctx)


def _values_by_name(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of `NAME=VALUE`, each as JSON if it is, else as text; None without any. Raises a usage error."""
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name = name.strip()
        if not sign or not name:
            raise click.BadParameter(f"expected NAME=VALUE, such as min=3 or user=alice, not {text!r}", ctx, param)
        if name in found:
            raise click.BadParameter(f"{name} has two values: give one", ctx, param)
        try:
            found[name] = json.loads(value, parse_constant=lambda word: word)
        except (ValueError, RecursionError):
            found[name] = value
    return found or None


def query_options(command: str, *names: str) -> Option:
    """Return the options of queries that a command has as flags, or those with these names."""
    chosen = [one for one in OPTIONS.values() if (one.name in names if names else command in one.commands)]
    return combine_options(*map(_query_option, chosen))


def _query_option(option: QueryOption) -> Option:
    kinds: dict[str, dict[str, Any]] = {
        "words": {"type": Words(option.words)},
        "names": {"type": NameList()},
        "number": {"type": int},
        "flag": {"is_flag": True},
        "vertices": {"multiple": True, "default": (), "callback": lambda ctx, param, value: value or None},
        "parameters": {"multiple": True, "default": (), "callback": _values_by_name},
    }
    given = {"default": option.default, "show_default": option.default is not None, "metavar": option.metavar}
    return click.option(option.flag, option.name, help=option.help, **given | kinds.get(option.kind, {}))


webhook_options = combine_options(
    click.option(
        "--webhook-batch",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        metavar="N",
        help="For webhooks: most rows of a request; fewer are sent after half a second, or when nothing arrives.",
    ),
    click.option(
        "--webhook-body",
        metavar="TEXT",
        help="For webhooks: text of a request, with {rows} (a JSON array), {messages} (those of --message as a JSON text) "
        "and {key} (a JSON text); {{ and }} are braces.  [default: {rows}]",
    ),
    click.option(
        "--webhook-secret", metavar="FILE", help="For webhooks: file with the secret of signatures, in place of a variable."
    ),
    click.option(
        "--webhook-give-up",
        type=Seconds(),
        default="10m",
        show_default=True,
        help="For webhooks: longest time for which a request is repeated; then the run stops.",
    ),
    click.option(
        "--webhook-failed",
        type=WrittenFile(),
        metavar="FILE",
        help="For webhooks: file for batches that are not accepted, as JSON Lines, with which the run continues.",
    ),
)


max_delay = click.option(
    "--max-delay",
    type=Seconds(),
    default="1s",
    show_default=True,
    help="For topics: maximum time that a tuple waits for partitions without messages.",
)


schema_registry = combine_options(
    click.option(
        "--schema-registry",
        metavar="URL",
        help="For topics: schema registry of messages in Avro or JSON Schema. The URL, or the environment variable "
        "RPQ_SCHEMA_REGISTRY_LOGIN, has a login (USER:PASSWORD).",
    ),
    click.option(
        "--schema-registry-config",
        metavar="FILE",
        help="For topics: file with settings of the registry's client (TLS, a login or token) as NAME=VALUE.",
    ),
)


def log(help: str) -> Option:
    """Return the option `--log`."""
    return click.option("--log", type=click.Choice(["text", "json"]), default="text", show_default=True, help=help)


topic_options = combine_options(
    click.option(
        "--kafka-config",
        metavar="FILE",
        help="For topics: file with librdkafka settings (TLS, SASL, group.id) as NAME=VALUE.",
    ),
    schema_registry,
    max_delay,
    click.option(
        "--upsert", is_flag=True, help="For topics: write rows that leave as tombstones (needs explicit semantics)."
    ),
    click.option(
        "--until-end", is_flag=True, help="For topics: stop at their end instead of waiting for more messages."
    ),
    click.option(
        "--checkpoint-every",
        type=Seconds(),
        default="30s",
        show_default=True,
        help="For topics: time between two checkpoints.",
    ),
    click.option("--metrics", type=Endpoint(), help="For topics: serve metrics for Prometheus at this port."),
    log("For topics: format of the log on standard error."),
)


def threads(help: str) -> Option:
    """Return the option `--threads`."""
    return click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help=help)


max_rows = click.option(
    "--max-rows",
    type=CountOrNone(),
    default="10000000",
    show_default=True,
    help="Maximum number of rows that one tuple or boundary may add to one query; none means no limit.",
)


def stats(place: str = "") -> Option:
    """Return the option `--stats`; `place` is an addition to its help."""
    return click.option(
        "--stats", type=WrittenFile(), metavar="FILE.json", help=f"File for the figures of the summary, as JSON{place}."
    )


quiet = click.option("--quiet", is_flag=True, help="Print neither progress nor a summary.")


def advice_for_command(message: str, command: str = "") -> str:
    """Return a message in which options of `rpq.Engine` are those of a command, which is named before them.

    >>> advice_for_command('use rpq.Engine(…, edges="parallel"), where each insert is an edge, or edges="id"')
    'use --edges parallel, where each insert is an edge, or --edges id'
    """

    def option(match: re.Match[str]) -> str:
        return f"{command}--{match[1].replace('_', '-')} {match[2]}"

    return re.sub(r' or (edges)="(\w+)"', r" or --\1 \2", re.sub(r'rpq\.Engine\(…, (\w+)="(\w+)"\)', option, message))


_NAMED = re.compile(r"(?:<([^<>]*)>|([^/=<>]*|[A-Za-z][A-Za-z0-9+.-]*://[^=<>]*))=(.*)", re.DOTALL)


class NamedInput(NamedTuple):
    """A file, and the stream of its tuples or the graph of its static edges, if any."""

    path: str
    stream: str | None = None

    def __str__(self) -> str:
        return self.path if self.stream is None else f"{self.stream}={self.path}"


def named_input(text: str, option: str = "--input") -> NamedInput:
    """Parse a value of `--input` or `--static`.

    >>> named_input("answers=a2q.csv"), named_input("./x=y.csv")
    (NamedInput(path='a2q.csv', stream='answers'), NamedInput(path='./x=y.csv', stream=None))
    >>> named_input("http://example.org/answers=a2q.nq").stream
    'http://example.org/answers'
    """
    found = None if os.path.exists(text) or is_topic(text) or SOURCES.has(text) else _NAMED.fullmatch(text)
    if found is None or "?" in (found[2] or ""):  # a URL with parameters
        return NamedInput(text)
    stream, path = found[1] or found[2], found[3]
    if not stream or not path:
        raise click.UsageError(f"{option} {text}: is neither a file nor NAME=FILE, with a name before = and a file after it")
    return NamedInput(path, stream)


def named_inputs(texts: Iterable[str], option: str = "--input") -> tuple[tuple[str, ...], tuple[str | None, ...]]:
    """Return the files that values of `--input` or `--static` name, and the stream or the graph of each."""
    found = [named_input(text, option) for text in texts]
    return tuple(one.path for one in found), tuple(one.stream for one in found)


NamedPaths = Sequence[tuple[str, str | None]]
"""Pairs of an option and its path, which is None where the option was not given."""


def check_files(*, written: NamedPaths, read: NamedPaths = ()) -> None:
    """Raise `click.UsageError` if a file cannot be written, or is named for two purposes.

    `-` is standard input or output.
    """
    outputs = [(option, path) for option, path in written if path is not None]
    try:
        check_distinct(written=outputs, read=[(option, path) for option, path in read if path is not None])
        for _, path in outputs:
            if path != STANDARD_STREAM:
                check_writable(path)
    except WriteError as error:
        raise click.UsageError(str(error)) from error


def check_folders(*, written: Sequence[tuple[str, str]], read: Sequence[tuple[str, str]]) -> None:
    """Raise `click.UsageError` if a folder on this machine cannot be written, or is or is in another folder or a file."""
    for option, folder in written:
        if "://" in folder:
            continue
        for other, path in [*read, *written]:
            if option != other and is_read_with(folder, path):
                raise click.UsageError(f"{option} {folder} is {other} {path}, or inside it; use a separate folder for each")
        try:
            check_folder_writable(folder)
        except WriteError as error:
            raise click.UsageError(f"{option} {error}") from error


def is_local(path: str) -> bool:
    """Return whether a path names a file or a standard stream, and not topics, a table, a webhook or another sink.

    >>> is_local("rows.csv"), is_local("kafka://localhost/rows"), is_local("postgresql://localhost/shop?table=rows")
    (True, False, False)
    """
    return not is_topic(path) and not is_table(path) and not is_sink(path)


def remote_identity(path: str) -> str | None:
    """Return the name that topics or a table keep when they move, the URL of another sink, and None for a local path.

    >>> remote_identity("kafka://localhost/rows"), remote_identity("rows.csv")
    ('kafka:rows', None)
    """
    if is_local(path):
        return None
    if is_topic(path):
        return topics_in(path).identity
    return table_in(path).identity if is_table(path) else without_login(path)


def output_key(path: str) -> str:
    """Return a key that all names of the same output share."""
    return remote_identity(path) or (path if path == "-" else os.path.realpath(path))


def shown_output(output: str) -> str:
    """Return an output for messages and figures, without a login."""
    return table_in(output).label if is_table(output) else without_login(output)
