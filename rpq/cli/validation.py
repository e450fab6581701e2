"""Checks of the options of a run that need no input: all of them raise a usage error before anything is opened.

The cheapest checks come first.  The options of topics and those of files exclude one another.
"""

from __future__ import annotations

import os

import click

from rpq.cli.jobs import check_jobs
from rpq.cli.options import check_files, is_local, shown_output
from rpq.cli.outputs.sinks import SinkError, check_suffix, frames_path
from rpq.cli.request import RunRequest, RunSettings
from rpq.cli.run_outputs import check_columns, output_names, output_options, sink_guarantees
from rpq.errors import InputError
from rpq.files.destinations import is_regular
from rpq.kafka.topic_names import is_topic, one_cluster, one_topic
from rpq.readers import formats
from rpq.rows.table_formats import MessageTemplate
from rpq.run.table_names import is_table, one_database
from rpq.stream.sinks import SINK_GUARANTEES, is_webhook
from rpq.stream.sources import SOURCES
from rpq.stream.window import kind_of_text


def check_request(request: RunRequest) -> None:
    """Raise a usage error if options contradict one another, or have impossible values."""
    settings = request.settings
    outputs = output_names(request)
    _check_table_options(request)
    _check_topic_options(request)
    _check_webhooks(request)
    _check_sinks(request)
    check_jobs(request)
    if settings.checkpoint and "-" in outputs:
        raise click.UsageError(
            "--checkpoint needs an --output that is a file: rows written to standard output cannot be taken back, "
            "so rows since the last checkpoint would be written twice"
        )
    if settings.witness and not outputs:
        raise click.UsageError("--witness needs an --output: paths are a column of the rows")
    if settings.events:
        _check_events(request)
    if settings.edges == "id":
        check_ids(settings)
    check_columns(request)
    _check_files(request)
    for path in settings.static:
        if not (os.path.isfile(path) or os.path.isdir(path)):
            from rpq.readers.source import unsupported_scheme

            missing = unsupported_scheme(path) or "there is no such file"
            what = "is not a file or folder" if os.path.exists(path) or path == "-" else missing
            raise click.UsageError(f"--static {path}: {what}; static edges are read as a whole before the first tuple")
    _check_nodes(settings)
    if settings.static and settings.static_format not in formats():
        raise click.UsageError(f"unknown format {settings.static_format!r}: expected one of {', '.join(formats())}")
    if settings.format != "edges" and not any(map(is_topic, settings.inputs)) and settings.format not in formats():
        raise click.UsageError(f"unknown format {settings.format!r}: expected one of {', '.join(formats())}")


def check_ids(settings: RunSettings) -> None:
    """Raise a usage error for options that would leave out a tuple whose id says that an edge has changed."""
    if settings.drop_self_loops:
        raise click.UsageError(
            "--drop-self-loops: an edge with an id must leave when it becomes a loop; expected --where 'source <> target'"
        )


def _check_nodes(settings: RunSettings) -> None:
    """Raise a usage error for files of nodes that do not exist, and for options that do not go with them."""
    if settings.node_columns is not None and not settings.nodes:
        raise click.UsageError("--node-columns: names columns of --nodes FILE, which is missing")
    if settings.nodes and settings.events:
        raise click.UsageError("--nodes: records of nodes are no part of an event; leave out --nodes or --events")
    for path in settings.nodes:
        if not (os.path.isfile(path) or os.path.isdir(path)):
            raise click.UsageError(f"--nodes {path}: there is no such file; records of nodes are read from files")


def _check_events(request: RunRequest) -> None:
    settings = request.settings
    if settings.witness:
        raise click.UsageError("--witness: the rows of events have no witness; leave out --witness or --events")
    if settings.events == "alone" and settings.window is not None and kind_of_text(settings.window) != "unbounded":
        raise click.UsageError(
            f"--window {settings.window}: each event is evaluated by itself, so a window would contain nothing else; "
            "leave it out, or use --events window"
        )


def _check_files(request: RunRequest) -> None:
    """Raise a usage error for files that cannot be written, and for a file that is named for two purposes."""
    settings = request.settings
    outputs = [(option, path) for option, path in output_options(request) if path is None or is_local(path)]
    written = [*outputs, ("--late", settings.late), ("--checkpoint", settings.checkpoint), ("--stats", settings.stats)]
    written.append(("--webhook-failed", settings.webhook_failed))
    for option, path in outputs:
        if path is None:
            continue
        try:
            is_parquet = check_suffix(path) == ".parquet"
        except SinkError as error:
            raise click.UsageError(str(error)) from error
        if is_parquet and settings.checkpoint is not None:
            written.append((f"the rows of {option} in", frames_path(path)))
    inputs = [("--input", path) for path in settings.inputs if not is_topic(path) and not SOURCES.has(path)]
    inputs += [("--static", path) for path in settings.static] + [("--nodes", path) for path in settings.nodes]
    texts = {"queries": settings.queries_file, "query-file": settings.query_file, "edges-from": settings.edges_from}
    check_files(written=written, read=[*inputs, *((f"--{name}", path) for name, path in texts.items())])
    for option, path in written:
        if settings.checkpoint is not None and path is not None and option != "--stats" and not is_regular(path):
            raise click.UsageError(f"{option} {path}: is not a regular file, as --checkpoint requires")


_DEFAULTS = RunSettings(inputs=(), format="edges")

_OF_TOPICS = (
    "kafka_config", "schema_registry", "schema_registry_config", "upsert", "until_end", "metrics", "log", "max_delay",
    "checkpoint_every",
)  # fmt: skip
_OF_WEBHOOKS = ("webhook_batch", "webhook_body", "webhook_secret", "webhook_give_up", "webhook_failed")
_OF_FILES = {
    "drop_self_loops": "--where 'source != target' does the same",
    "flush": "a topic has no end; the last report is written when a later message arrives",
    "events": "each tuple of a message is a separate change",
    "late": "late tuples are counted, in the summary and in the metrics",
}


def _check_topic_options(request: RunRequest) -> None:
    """Raise a usage error for options of topics in a run over files, options of files with topics, and invalid URIs."""
    settings = request.settings
    outputs = sorted(output_names(request))
    letters = [settings.on_error] if is_topic(settings.on_error) else []
    read = [path for path in settings.inputs if is_topic(path)]
    written = [path for path in outputs if is_topic(path)]
    if not read:
        _check_without_topics(settings, [*written, *letters])
        return
    if len(read) < len(settings.inputs):
        other = next(path for path in settings.inputs if not is_topic(path))
        raise click.UsageError(f"--input {other}: a run reads topics or files, not both")
    if written and len(written) < len(outputs):
        other = next(path for path in outputs if not is_topic(path))
        raise click.UsageError(f"--output {other}: rows go to topics or to files, not both")
    try:
        one_cluster([*read, *written, *letters])
        for path in (*written, *letters):
            one_topic(path)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    from rpq.kafka.message_reader import UNSUPPORTED_FORMATS
    from rpq.kafka.schema_registry import SCHEMA_TYPES

    if settings.format in UNSUPPORTED_FORMATS:
        raise click.UsageError(
            f"--format {settings.format}: messages in {UNSUPPORTED_FORMATS[settings.format]} are not read; expected JSON, "
            "CSV or Avro, for which a converter of Kafka Connect or ksqlDB can write another topic"
        )
    if settings.format not in ("edges", "jsonl", "rdf", *SCHEMA_TYPES):
        raise click.UsageError(
            f"--format {settings.format}: is a format of files; expected edges, jsonl, rdf, {' or '.join(SCHEMA_TYPES)}"
        )
    for name, instead in _OF_FILES.items():
        if getattr(settings, name) != getattr(_DEFAULTS, name):
            raise click.UsageError(f"--{name.replace('_', '-')} applies to files, not to topics: {instead}")
    if letters and not written:
        raise click.UsageError("--on-error kafka://… needs an --output kafka://…: both are written in one transaction")
    if settings.upsert and any(map(is_table, outputs)):
        raise click.UsageError("--upsert applies to topics; a table contains the current answers in any case")
    if settings.upsert and not written:
        raise click.UsageError("--upsert applies to topics; it needs an --output kafka://…")


def _check_table_options(request: RunRequest) -> None:
    """Raise a usage error for invalid URLs of tables, other outputs beside them, and options that do not go with them."""
    settings, outputs = request.settings, sorted(output_names(request))
    tables = [output for output in outputs if is_table(output)]
    if not tables:
        if settings.replace:
            raise click.UsageError("--replace applies to tables; it needs an --output postgresql://…")
        return
    try:
        one_database(tables)
    except InputError as error:
        raise click.UsageError(f"--output {error}") from error
    if len(tables) < len(outputs):
        other = next(output for output in outputs if not is_table(output))
        raise click.UsageError(f"--output {other}: rows go to tables of a database or elsewhere, not both")
    if settings.late is not None:
        raise click.UsageError(
            f"--late {settings.late}: a file cannot be part of the transactions of a table; leave out --late: the summary "
            "counts late tuples"
        )


def _check_sinks(request: RunRequest) -> None:
    """Raise a usage error for sinks whose guarantee other outputs do not share, and for options that contradict it."""
    guarantees = sink_guarantees(request)
    first = next((output for output, guarantee in guarantees.items() if guarantee in ("commit", "key")), None)
    if first is None:
        return
    what = f"{shown_output(first)} {SINK_GUARANTEES[guarantees[first]]}"
    is_alone = guarantees[first] == "commit"
    for other in sorted(output_names(request) - {first}):
        if is_alone or guarantees.get(other) != "key":
            expected = "this output for all queries" if is_alone else "outputs with this guarantee alone"
            raise click.UsageError(f"--output {shown_output(other)}: {what}; expected {expected}")
    if request.settings.late is not None:
        raise click.UsageError(
            f"--late {request.settings.late}: {what}, which a file of late tuples is not part of; leave out --late: the "
            "summary counts late tuples"
        )


def _check_webhooks(request: RunRequest) -> None:
    """Raise a usage error for URLs of webhooks and their options, and for these options without a webhook."""
    settings = request.settings
    webhooks = [output for output in sorted(output_names(request)) if is_webhook(output)]
    if not webhooks:
        for name in _OF_WEBHOOKS:
            if getattr(settings, name) != getattr(_DEFAULTS, name):
                option = f"--{name.replace('_', '-')}"
                raise click.UsageError(f"{option} applies to webhooks; it needs an --output https://…")
        return
    from rpq.run.webhook import FIELDS, parse_webhook, webhook_secret

    try:
        webhook_secret(settings.webhook_secret)
        for url in webhooks:
            parse_webhook(url)
    except InputError as error:
        raise click.UsageError(str(error)) from error
    template = MessageTemplate(settings.webhook_body or "")
    try:
        template.check(FIELDS)
    except ValueError as error:
        raise click.UsageError(
            f"--webhook-body: {error}; expected {', '.join(map('{{{}}}'.format, FIELDS))}, and {{{{ and }}}} for braces"
        ) from error
    if "messages" in template.columns and settings.message is None:
        raise click.UsageError("--webhook-body: {messages} needs --message, the text of a row")


def _check_without_topics(settings: RunSettings, written: list[str]) -> None:
    if written:
        raise click.UsageError(
            f"{written[0]}: rows are written to a topic only if the input is one, because they are committed "
            "together with its offsets; expected --input kafka://…, or the name of a file"
        )
    for name in _OF_TOPICS:
        if getattr(settings, name) != getattr(_DEFAULTS, name):
            raise click.UsageError(f"--{name.replace('_', '-')} applies to topics; expected --input kafka://BROKER/TOPIC")
