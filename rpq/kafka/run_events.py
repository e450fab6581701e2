"""What a run says while it lasts: events with fields, for `logging` under the name `rpq.kafka`."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

LOG = logging.getLogger("rpq.kafka")


def tell(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Say that something happened; values of fields are JSON's, or text."""
    LOG.log(level, event, extra={"fields": fields})


def warn(event: str, **fields: Any) -> None:
    """Say that something happened that somebody should look at."""
    tell(event, level=logging.WARNING, **fields)


class TextLines(logging.Formatter):
    """A line for people: `12:03:07 waiting for the broker brokers=localhost:9092`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        told = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {mark}{record.getMessage()}{told}"


class JsonLinesOfEvents(logging.Formatter):
    """An object a line: `time` (UTC), `level`, `event`, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        head = {"time": at, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**head, **getattr(record, "fields", {})}, ensure_ascii=False, default=str)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
