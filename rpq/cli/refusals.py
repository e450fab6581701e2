"""What is wrong with the options of a run whatever its input is: refused before anything is opened, cheapest first."""

from __future__ import annotations

import os

import click

from rpq.cli.asked import Asked
from rpq.cli.named_files import check_files
from rpq.cli.outputs.sinks import SinkError, check_suffix, rows_beside
from rpq.cli.run_outputs import output_names, output_options, refuse_other_columns
from rpq.cli.topic_refusals import refuse_of_topics
from rpq.files.destinations import is_regular
from rpq.kafka.topic_names import is_topic
from rpq.readers import formats
from rpq.stream.window import kind_of_text


def refuse(asked: Asked) -> None:
    """Raise a usage error where options contradict one another, or name what cannot be."""
    settings = asked.settings
    outputs = output_names(asked)
    refuse_of_topics(asked)
    if settings.checkpoint and "-" in outputs:
        raise click.UsageError(
            "--checkpoint needs an --output that is a file: what was written to standard output cannot be taken back, "
            "so rows since the last checkpoint would come twice"
        )
    if settings.witness and not outputs:
        raise click.UsageError("--witness needs an --output: paths are a column of the rows")
    if settings.max_ahead and settings.deletes:
        raise click.UsageError(
            "--deletes: what is deleted is drawn before it is known which tuples are too far ahead; leave out --max-ahead"
        )
    if settings.events:
        _refuse_with_events(asked)
    refuse_other_columns(asked)
    _refuse_files(asked)
    for path in settings.static:
        if not (os.path.isfile(path) or os.path.isdir(path)):
            what = "is no file or folder" if os.path.exists(path) or path == "-" else "there is no such file"
            raise click.UsageError(f"--static {path}: {what}; edges without time are read as a whole before the first tuple")
    if settings.static and settings.static_format not in formats():
        raise click.UsageError(f"unknown format {settings.static_format!r}: expected one of {', '.join(formats())}")
    if settings.format != "edges" and not any(map(is_topic, settings.inputs)) and settings.format not in formats():
        raise click.UsageError(f"unknown format {settings.format!r}: expected one of {', '.join(formats())}")


def _refuse_with_events(asked: Asked) -> None:
    settings = asked.settings
    if settings.witness:
        raise click.UsageError("--witness: where tuples come in events, rows have no witness; leave out one of the two")
    if settings.deletes:
        raise click.UsageError("--deletes: what is deleted is drawn tuple by tuple, and would divide events")
    if settings.events == "alone" and settings.window is not None and kind_of_text(settings.window) != "unbounded":
        raise click.UsageError(
            f"--window {settings.window}: each event is answered by itself, so a window has nothing else to hold; leave it "
            "out, or give --events window"
        )


def _refuse_files(asked: Asked) -> None:
    """Refuse files that cannot be written, and one file for two purposes, before any is opened."""
    settings = asked.settings
    outputs = [(option, path) for option, path in output_options(asked) if not is_topic(path)]
    written = [*outputs, ("--late", settings.late), ("--checkpoint", settings.checkpoint), ("--stats", settings.stats)]
    for option, path in outputs:
        if path is None:
            continue
        try:
            is_parquet = check_suffix(path) == ".parquet"
        except SinkError as error:
            raise click.UsageError(str(error)) from error
        if is_parquet and settings.checkpoint is not None:
            written.append((f"the rows of {option} in", rows_beside(path)))
    inputs = [("--input", path) for path in settings.inputs if not is_topic(path)]
    inputs += [("--static", path) for path in settings.static]
    check_files(written=written, read=[*inputs, ("--queries", settings.queries_file), ("--query-file", settings.query_file)])
    for option, path in written:
        if settings.checkpoint is not None and path is not None and option != "--stats" and not is_regular(path):
            raise click.UsageError(f"{option} {path}: is no regular file; with --checkpoint it must be one")
