"""What is wrong with the options of a run over topics, or with those of topics in a run over files."""

from __future__ import annotations

import click

from rpq.cli.asked import Asked
from rpq.cli.run_outputs import output_names
from rpq.cli.settings import RunSettings
from rpq.errors import InputError
from rpq.kafka.message_formats import REFUSED
from rpq.kafka.topic_names import is_topic, one_cluster, one_topic

_DEFAULTS = RunSettings(inputs=(), format="edges")

_OF_TOPICS = ("kafka_config", "upsert", "until_end", "metrics", "log", "max_delay", "checkpoint_every")
_OF_FILES = {
    "deletes": "deletes are made up over files alone",
    "drop_self_loops": "--where 'source != target' does the same",
    "events": "a message is an event of its own",
    "late": "late tuples are counted, in the summary and in the metrics",
}


def refuse_of_topics(asked: Asked) -> None:
    """Raise a usage error where options of topics are given without them, or others with them, or URIs are none."""
    settings = asked.settings
    outputs = sorted(output_names(asked))
    letters = [settings.on_error] if is_topic(settings.on_error) else []
    read = [path for path in settings.inputs if is_topic(path)]
    written = [path for path in outputs if is_topic(path)]
    if not read:
        _refuse_without_topics(settings, [*written, *letters])
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
    if settings.format in REFUSED:
        raise click.UsageError(
            f"--format {settings.format}: messages in {REFUSED[settings.format]} are not read; expected JSON or CSV, for "
            "which a converter of Kafka Connect or ksqlDB can write another topic"
        )
    if settings.format not in ("edges", "jsonl"):
        raise click.UsageError(f"--format {settings.format}: is of files; messages are of edges or jsonl")
    for name, instead in _OF_FILES.items():
        if getattr(settings, name) != getattr(_DEFAULTS, name):
            raise click.UsageError(f"--{name.replace('_', '-')} goes with files, not with topics: {instead}")
    if letters and not written:
        raise click.UsageError("--on-error kafka://… needs an --output kafka://…: both go into one transaction")
    if settings.upsert and not written:
        raise click.UsageError("--upsert is of topics; it needs an --output kafka://…")


def _refuse_without_topics(settings: RunSettings, written: list[str]) -> None:
    if written:
        raise click.UsageError(
            f"{written[0]}: rows go to a topic where the input is one: what makes them exactly once is that offsets are "
            "committed with them; expected --input kafka://…, or the name of a file"
        )
    for name in _OF_TOPICS:
        if getattr(settings, name) != getattr(_DEFAULTS, name):
            raise click.UsageError(f"--{name.replace('_', '-')} is of topics; expected --input kafka://BROKER/TOPIC")
