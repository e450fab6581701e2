"""Clients of Kafka: their settings, their log, and the log of a run's events.

Settings have librdkafka's names; some of them belong to the run and cannot be set by users.  Events are logged with fields
under the name `rpq.kafka`.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import time
from collections.abc import Mapping
from typing import Any

from rpq.errors import RpqError, install_command

_SECRET = re.compile(r"password|secret|token|jaas|credential|\.key\b|key\.(?:pem|password)|oauth", re.IGNORECASE)

_RESERVED = {
    "bootstrap.servers": "the brokers are named in kafka://BROKER/TOPIC",
    "metadata.broker.list": "the brokers are named in kafka://BROKER/TOPIC",
    "enable.auto.commit": "offsets are committed together with the rows of their messages",
    "enable.auto.offset.store": "offsets are committed together with the rows of their messages",
    "enable.partition.eof": "the merge of partitions depends on it",
    "enable.idempotence": "transactions need it",
    "group.protocol": "all partitions are assigned to this run",
    "partition.assignment.strategy": "all partitions are assigned to this run",
}
"""Settings that users cannot set, and why."""

_OF_PRODUCERS = re.compile(
    r"transactional\.id|transaction\.timeout\.ms|linger\.ms|queue\.buffering\..*|compression\..*|batch\..*|acks|request\.required"
    r"\.acks|request\.timeout\.ms|message\.timeout\.ms|delivery\.timeout\.ms|partitioner|sticky\.partitioning.*|retries"
    r"|message\.send\.max\.retries|delivery\.report.*|msg_order_cmp"
)
_OF_CONSUMERS = re.compile(
    r"group\..*|session\..*|heartbeat\..*|max\.poll.*|auto\..*|queued\..*|fetch\..*|max\.partition\.fetch\.bytes|isolation\.level"
    r"|check\.crcs|client\.rack|consume\..*|coordinator\.query.*"
)


def is_producer_setting(name: str) -> bool:
    """Return whether a setting applies to producers only.

    >>> is_producer_setting("linger.ms"), is_producer_setting("security.protocol")
    (True, False)
    """
    return _OF_PRODUCERS.fullmatch(name) is not None


class KafkaError(RpqError):
    """Topics that cannot be read or written.  The message says why, and contains no secrets."""


class KafkaUsageError(KafkaError):
    """Invalid settings of a client, or a checkpoint of a run with other options."""


def client() -> Any:
    """Import and return the package confluent_kafka.  Raises `KafkaError` if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise KafkaError(
            f"topics of Kafka need the extra kafka: {install_command('kafka')} (confluent-kafka is not installed)"
        ) from error
    return confluent_kafka


def read_settings(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read lines `name=value`; blank lines, and those that begin with #, are ignored.

    Raises `KafkaUsageError`, whose message contains no value.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "client.properties"), "w") as file:
    ...         _ = file.write("# of the cluster\\nsecurity.protocol = SASL_SSL\\n")
    ...     read_settings(file.name)
    {'security.protocol': 'SASL_SSL'}
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise KafkaUsageError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise KafkaUsageError(f"{os.fspath(path)}: is not UTF-8 text") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name or " " in name:
            raise KafkaUsageError(f"{os.fspath(path)}:{number}: expected NAME=VALUE, such as security.protocol=SASL_SSL")
        if name in found:
            raise KafkaUsageError(f"{os.fspath(path)}:{number}: {name} is given twice")
        found[name] = value
    return found


class ClientSettings:
    """The settings of consumers and producers: the brokers, and the user's settings."""

    def __init__(self, brokers: str, user_settings: Mapping[str, str] | None = None) -> None:
        self._user_settings = dict(user_settings or {})
        for name in self._user_settings:
            if name in _RESERVED:
                raise KafkaUsageError(f"--kafka-config: {name} cannot be set: {_RESERVED[name]}")
        self._common = {"bootstrap.servers": brokers, "client.id": "rpq", "reconnect.backoff.max.ms": 1000}
        self.brokers = brokers

    def __repr__(self) -> str:
        return f"<ClientSettings of {self.brokers}>"  # the values of settings may be secrets

    def user_value(self, name: str) -> str | None:
        """Return the user's value of a setting, or None."""
        return self._user_settings.get(name)

    def consumer(self, **fixed: Any) -> dict[str, Any]:
        """Return the settings of a consumer.  The names of `fixed` settings have underscores in place of dots."""
        ours = {
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "queued.min.messages": 200_000,
            "fetch.message.max.bytes": 4 << 20,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 100,
        }
        return self._merge(ours, _OF_PRODUCERS, fixed)

    def producer(self, **fixed: Any) -> dict[str, Any]:
        """Return the settings of a producer.  `fixed` has the same meaning as for a consumer."""
        ours = {
            # Wait for full batches; a commit sends the rest at once.  5 was slower on a busy machine, in latency as well.
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "partitioner": "murmur2_random",  # the partitions of keys are those of Java's producers
            "transaction.timeout.ms": 300_000,
            "delivery.report.only.error": True,
        }
        return self._merge(ours, _OF_CONSUMERS, fixed)

    def _merge(self, defaults: dict[str, Any], ignored_names: re.Pattern[str], fixed: dict[str, Any]) -> dict[str, Any]:
        user_settings = {name: value for name, value in self._user_settings.items() if not ignored_names.fullmatch(name)}
        always = {name if name == "error_cb" else name.replace("_", "."): value for name, value in fixed.items()}
        return {**defaults, **user_settings, **self._common, **always, "logger": CLIENT_LOG}

    def hint_of_protocol(self) -> str:
        """Return a hint for a broker that closes connections at the first request; empty for encrypted connections."""
        spoken = (self._user_settings.get("security.protocol") or "plaintext").lower()
        if spoken not in ("plaintext", "sasl_plaintext"):
            return ""
        others = "SSL or SASL_SSL" if spoken == "sasl_plaintext" else "SASL_SSL, SASL_PLAINTEXT or SSL"
        return (
            f"the broker closes {spoken} connections: it may need TLS or a login; try security.protocol={others} in a file "
            "for --kafka-config, with sasl.mechanisms, sasl.username, sasl.password for a login, and ssl.ca.location for TLS"
        )

    def redact(self, message: object) -> str:
        """Return a message of the client from which the values of settings that may be secret are removed."""
        text = str(message)
        for name, value in self._user_settings.items():
            if value and _SECRET.search(name):
                text = text.replace(value, "…")
        return text

    def create_client(self, kind: Any, settings: dict[str, Any]) -> Any:
        """Create a consumer or producer.  Raises `KafkaUsageError` for settings that it rejects."""
        confluent_kafka = client()
        try:
            return kind(settings)
        except (confluent_kafka.KafkaException, ValueError, TypeError) as error:
            message = self.redact(error.args[0].str() if hasattr(error.args[0], "str") else error)
            hint = ""
            if unknown := re.search(r'No such configuration property: "([^"]+)"', message):
                close = difflib.get_close_matches(unknown[1], [*KNOWN_OPTIONS, *self._common], n=1)
                hint = f"; did you mean {close[0]!r}?" if close else "; expected librdkafka's names"
            raise KafkaUsageError(f"--kafka-config: {message}{hint}") from None


def is_broker_away(error: Any) -> bool:
    """Return whether a call that failed with this error of librdkafka may succeed when it is repeated."""
    codes = client().KafkaError
    return bool(error.retriable()) or error.code() in (codes._TIMED_OUT, codes._TRANSPORT)


KNOWN_OPTIONS = (
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location",
    "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "group.id", "transactional.id", "client.id",
    "auto.offset.reset", "isolation.level", "compression.type", "transaction.timeout.ms", "linger.ms",
)  # fmt: skip
"""The most common settings, for hints."""

_CUT = re.compile(r"Disconnected.* in state (?:UP|APIVERSION_QUERY)|incorrect security\.protocol|Invalid response size")


class ConnectionLog:
    """A log of a client, forwarded to the log of the run.  `is_cut` is true once a broker closed an accepted connection."""

    def __init__(self) -> None:
        self.is_cut = False

    def log(self, level: int, message: str, *values: object) -> None:
        """Forward a line of librdkafka."""
        self.is_cut = self.is_cut or _CUT.search(message % values if values else message) is not None
        CLIENT_LOG.log(level, message, *values)


CLIENT_LOG = logging.getLogger("rpq.kafka.client")
CLIENT_LOG.addHandler(logging.NullHandler())
CLIENT_LOG.propagate = False
"""The log of librdkafka's connections.  The run itself logs the events that matter to users."""


LOG = logging.getLogger("rpq.kafka")


def log_event(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with fields, whose values are JSON values or text."""
    LOG.log(level, event, extra={"fields": fields})


def log_warning(event: str, **fields: Any) -> None:
    """Log an event as a warning."""
    log_event(event, level=logging.WARNING, **fields)


class TextLines(logging.Formatter):
    """A format for people: `12:03:07 waiting for the broker brokers=localhost:9092`."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        shown = "".join(f" {name}={_value_text(value)}" for name, value in fields.items())
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {mark}{record.getMessage()}{shown}"


class JsonEventLines(logging.Formatter):
    """A format with a JSON object on each line: `time` (UTC), `level`, `event`, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        head = {"time": at, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**head, **getattr(record, "fields", {})}, ensure_ascii=False, default=str)


def _value_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
