"""The files that a command names, judged before it opens any."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from rpq.files.destinations import STANDARD_STREAM, WriteError, check_writable
from rpq.files.distinct import check_distinct
from rpq.kafka.topic_names import is_topic, topics_in

Named = Sequence[tuple[str, str | None]]
"""Options and their paths; None where an option was not given."""


def check_files(*, written: Named, read: Named = ()) -> None:
    """Raise `click.UsageError` where a file cannot be written, or is named for two purposes.

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


def output_key(path: str) -> str:
    """What two names of the same output have in common."""
    if is_topic(path):
        return topics_in(path).identity
    return path if path == "-" else os.path.realpath(path)
