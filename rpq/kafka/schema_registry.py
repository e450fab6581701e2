"""Messages of a schema registry: Avro and JSON Schema, decoded to JSON.

Such a message names the schema of its writer, in front of its bytes (0 and a number in four bytes, or 1 and a GUID in 16) or
in a header `__value_schema_id` or `__key_schema_id`.  The registry contains the schema, whose type determines how the bytes
are decoded.  The result is a JSON object like any other, so that columns, rules and conditions mean the same for all topics:

* Times (`timestamp-millis`, `local-timestamp-micros`, `date`, Debezium's types without a zone, …) are text in ISO 8601, with
  a zone unless they are local, decimals their digits as text, bytes Base64; numbers that are not finite are null.
* A union is the value itself, an enumeration its symbol, a map an object.

Each message is decoded with the schema of its writer: if a topic has several, some objects may lack a field.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from importlib import import_module
from io import BytesIO
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

from rpq.errors import install_command
from rpq.kafka.client import KafkaError, KafkaUsageError, log_event, log_warning
from rpq.stream.arrays.fields import FieldError

Decode: TypeAlias = Callable[[bytes, int], bytes]
"""A function from the bytes of a message, and the offset at which its record begins, to JSON.  Raises `FieldError`."""

SCHEMA_TYPES = {"avro": "AVRO", "json-schema": "JSON"}
"""The types of schemas, as the registry calls them, by format."""

LOGIN = "RPQ_SCHEMA_REGISTRY_LOGIN"
"""The environment variable with the login, USER:PASSWORD."""

CALL_SECONDS = 5.0
FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0
"""The first and the longest time in seconds between requests to a registry that does not answer; it doubles in between."""

RDF_HAS_NO_REGISTRY = "documents of RDF have no schema in a registry; leave out the schema registry"

_HEADERS = {"value": "__value_schema_id", "key": "__key_schema_id"}
_NO_ID = (
    "does not begin with the number of a schema (the byte 0, and four more), as serializers of a schema registry write it"
)
_NAMES = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}
_RESERVED = {"url": "the URL is that of --schema-registry", "max.retries": "the run repeats its requests itself"}
_SECRETS = ("basic.auth.user.info", "bearer.auth.token", "bearer.auth.client.secret", "ssl.key.password")

_TIMES_OF_CONNECT = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
}
"""The logical types of Avro that correspond to the names by which Kafka Connect describes numbers."""


class RegistryAwayError(KafkaError):
    """A registry that does not answer now."""


class SchemaRegistry:
    """A schema registry at a URL.  The URL or the variable RPQ_SCHEMA_REGISTRY_LOGIN may contain a login, USER:PASSWORD.

    `config` has settings of confluent-kafka's `SchemaRegistryClient`, such as basic.auth.user.info or ssl.ca.location.
    Messages contain no secrets.  With a `format`, all schemas must be of that type.  Needs the extra `avro`.  Raises
    `KafkaError` without it, and `KafkaUsageError` for invalid settings.

    >>> SchemaRegistry("https://reader:secret@registry.example")
    <SchemaRegistry at https://registry.example>
    """

    def __init__(
        self,
        url: str,
        config: Mapping[str, str] | None = None,
        *,
        format: Literal["avro", "json-schema"] | None = None,
    ) -> None:
        package, *_ = map(_package, ("confluent_kafka.schema_registry", "fastavro", "orjson"))
        self.format = format
        self.url, login = _without_login(url)
        settings = _settings(self.url, login, config or {})
        secrets = [value for name in _SECRETS if (value := settings.get(name))]
        self._secrets = [*secrets, *filter(None, (value.partition(":")[2] for value in secrets))]
        try:
            self.client: Any = package.SchemaRegistryClient.new_client(settings)
        except (ValueError, TypeError, OSError) as error:
            raise KafkaUsageError(f"--schema-registry {self.url}: {self._redact(error)}") from None
        self._decoders: dict[bytes, Decode] = {}
        self._refused: dict[bytes, str] = {}
        self._away_message = ""
        self._wait = 0.0
        self._next_call = float("-inf")
        self.away_since: float | None = None
        """The monotonic time of the first request that was not answered, or None if the last one was."""
        self.was_reached = False

    def __repr__(self) -> str:
        return f"<SchemaRegistry at {self.url}>"

    @property
    def identity(self) -> str:
        """The settings on which the rows of a run depend.  The URL is not one: another registry may have the same schemas.

        >>> SchemaRegistry("https://registry.example", format="avro").identity
        'avro'
        """
        return self.format or "any"

    def wait(self) -> float:
        """Return the time in seconds until the next request to a registry that does not answer; 0 if it answers.

        >>> SchemaRegistry("https://registry.example").wait()
        0.0
        """
        return max(0.0, self._next_call - time.monotonic())

    # --- messages --------------------------------------------------------------------------------------------

    def decode_values(
        self, messages: Sequence[Any], values: Sequence[bytes | None]
    ) -> tuple[list[bytes | None], dict[int, FieldError]]:
        """Return values as JSON, with null for bad ones, and the errors of the bad ones by their numbers.

        Raises `RegistryAwayError` if a new schema cannot be fetched now, and `KafkaError` if it never can.

        >>> from types import SimpleNamespace
        >>> message = SimpleNamespace(headers=lambda: None, key=lambda: b"plain")
        >>> values, errors = SchemaRegistry("https://registry.example").decode_values([message], [b"text"])
        >>> values, str(errors[0])[:34]
        ([None], 'does not begin with the number of ')
        """
        self._refused.clear()
        found: list[bytes | None] = []
        errors: dict[int, FieldError] = {}
        for number, value in enumerate(values):
            try:
                found.append(None if value is None else self._decode(value, messages[number], "value"))
            except FieldError as error:
                found.append(None)
                errors[number] = error
        return found, errors

    def decode_key(self, message: Any) -> bytes | str | None:
        """Return the key of a message as JSON, or its text if it is a text.  A key without a schema is returned unchanged.

        >>> from types import SimpleNamespace
        >>> message = SimpleNamespace(headers=lambda: None, key=lambda: b"plain")
        >>> SchemaRegistry("https://registry.example").decode_key(message)
        b'plain'
        """
        key = message.key()
        if not isinstance(key, bytes) or (key[:1] not in (b"\0", b"\1") and not _id_in_header(message, "key")):
            return key
        decoded = self._decode(key, message, "key")
        return json.loads(decoded) if decoded.startswith(b'"') else decoded

    def _decode(self, data: bytes, message: Any, part: Literal["value", "key"]) -> bytes:
        prefix = _id_in_header(message, part)
        start = 0
        if prefix is None:
            start = 17 if data[:1] == b"\1" else 5
            prefix = data[:start]
        decode = self._decoders.get(prefix)
        return (decode or self._decoder(prefix))(data, start)

    def _decoder(self, prefix: bytes) -> Decode:
        """Return the function that decodes the messages of a schema, from the cache if possible.  Raises `FieldError`."""
        is_number = len(prefix) == 5 and prefix[0] == 0
        if not is_number and not (len(prefix) == 17 and prefix[0] == 1):
            raise FieldError(_NO_ID)
        if prefix in self._refused:
            raise FieldError(self._refused[prefix])
        name = f"schema {int.from_bytes(prefix[1:]) if is_number else uuid.UUID(bytes=prefix[1:])}"
        try:
            if is_number:
                schema = self._call(name, lambda: self.client.get_schema(int.from_bytes(prefix[1:])))
            else:
                schema = self._call(name, lambda: self.client.get_schema_by_guid(str(uuid.UUID(bytes=prefix[1:]))))
            decode = self._decode_of(schema, name)
        except FieldError as error:
            self._refused[prefix] = error.message
            raise
        self._decoders[prefix] = decode
        return decode

    def _decode_of(self, schema: Any, name: str) -> Decode:
        kind = schema.schema_type or "AVRO"
        if kind not in ("AVRO", "JSON") or (self.format is not None and SCHEMA_TYPES[self.format] != kind):
            expected = "Avro or JSON Schema" if self.format is None else _NAMES[SCHEMA_TYPES[self.format]]
            raise FieldError(f"is of {name}, which is {_NAMES.get(kind, kind)}; expected {expected}")
        return _payload if kind == "JSON" else _avro_decoder(self._parse(schema, name, {}), name)

    def _parse(self, schema: Any, name: str, named: dict[str, Any]) -> Any:
        """Parse a schema of Avro with fastavro, after the schemas that it refers to.  The types of these go into `named`."""
        for other in schema.references or ():
            if other.name not in named:
                what = f"{name}, which refers to version {other.version} of the subject {other.subject}"
                found = self._call(what, partial(self.client.get_version, other.subject, other.version))
                self._parse(found.schema, name, named)
        try:
            return _package("fastavro").parse_schema(_with_logical_types(json.loads(schema.schema_str)), named_schemas=named)
        except Exception as error:  # the parser has many kinds of errors for an invalid schema
            raise FieldError(f"is of {name}, which is not a valid schema of Avro: {error}") from error

    # --- the registry ----------------------------------------------------------------------------------------

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        """Send a request to the registry.

        Raises `FieldError` for a schema that it does not have, `RegistryAwayError` if it does not answer, and `KafkaError`
        if it refuses.
        """
        if self.wait():
            raise RegistryAwayError(self._away_message)
        errors = _package("confluent_kafka.schema_registry.error")
        try:
            found = call()
        except errors.SchemaRegistryError as error:
            status, code = error.http_status_code, error.error_code or 0
            if status in (408, 429) or status >= 500:
                raise self._unreachable(error) from None
            self._mark_reachable()
            if status == 404 and code // 100 == 404:
                raise FieldError(f"is of {what}, which the schema registry at {self.url} does not have") from None
            hint = ""
            if status in (401, 403):
                hint = f"; a login is in the URL, in {LOGIN}, or in basic.auth.user.info of --schema-registry-config"
            elif status == 404:
                hint = "; is a part of the path missing, such as /apis/ccompat/v7?"
            raise KafkaError(f"{self.url}: the schema registry refuses the request: {self._redact(error)}{hint}") from None
        except Exception as error:
            if any(kind.__name__ in ("TransportError", "OAuthTokenError") for kind in type(error).__mro__):
                raise self._unreachable(error) from None
            raise KafkaError(f"{self.url}: is not a schema registry: {self._redact(error)}") from error
        self._mark_reachable()
        return found

    def _unreachable(self, error: Exception) -> RegistryAwayError:
        reason = self._redact(error) or type(error).__name__
        if self.away_since is None:
            self.away_since = time.monotonic()
            log_warning("waiting for the schema registry", url=self.url, reason=reason)
        self._wait = min(LONGEST_WAIT, self._wait * 2 or FIRST_WAIT)
        self._next_call = time.monotonic() + self._wait
        self._away_message = f"{self.url}: no schema registry answers: {reason}"
        return RegistryAwayError(self._away_message)

    def _mark_reachable(self) -> None:
        if self.away_since is not None:
            log_event("the schema registry is back", url=self.url)
        self.away_since, self._wait, self._next_call, self.was_reached = None, 0.0, float("-inf"), True

    def _redact(self, error: object) -> str:
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise KafkaError(
            f"messages of a schema registry need the extra avro: {install_command('avro')} ({error.name} is not installed)"
        ) from error


def _without_login(url: str) -> tuple[str, str]:
    """Return a URL, or several separated by commas, without its login, and the login.

    >>> _without_login("https://me:a%3Ab@one.example,https://two.example/path")
    ('https://one.example,https://two.example/path', 'me:a:b')
    """
    plain, login = [], ""
    for one in url.split(","):
        parts = urlsplit(one.strip())
        if parts.scheme not in ("http", "https", "mock"):
            without = one.rpartition("@")[2].strip()
            raise KafkaUsageError(f"--schema-registry {without}: is not a URL; expected one such as http://localhost:8081")
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        plain.append(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/"))
    return ",".join(plain), login


def _settings(url: str, login: str, user_settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a client that sends each request once; the run repeats it."""
    for name, why in _RESERVED.items():
        if name in user_settings:
            raise KafkaUsageError(f"--schema-registry-config: {name} cannot be set: {why}")
    settings: dict[str, Any] = {"timeout": CALL_SECONDS, **user_settings, "url": url, "max.retries": 0}
    for name, type_ in (("timeout", float), ("cache.capacity", int)):
        try:
            settings |= {name: type_(settings[name])} if name in settings else {}
        except ValueError:
            raise KafkaUsageError(f"--schema-registry-config: {name} is {settings[name]!r}; expected a number") from None
    if login and "basic.auth.user.info" in user_settings:
        raise KafkaUsageError("--schema-registry: has a login, and basic.auth.user.info another one; give one of the two")
    login = login or os.environ.get(LOGIN, "")
    if login and not {"basic.auth.user.info", "bearer.auth.credentials.source"} & {*user_settings}:
        settings["basic.auth.user.info"] = login
    return settings


def _id_in_header(message: Any, part: str) -> bytes | None:
    headers: Iterable[tuple[str, Any]] | None = message.headers()
    return next((value for name, value in headers if name == _HEADERS[part]), None) if headers else None


def _payload(data: bytes, start: int) -> bytes:
    """Return the JSON in a message of JSON Schema, which follows the number of its schema."""
    return data[start:]


def _avro_decoder(schema: Any, name: str) -> Decode:
    """Return a function that decodes records of a parsed schema."""
    fastavro, orjson = _package("fastavro"), _package("orjson")
    read, dumps, option = fastavro.schemaless_reader, orjson.dumps, orjson.OPT_UTC_Z
    _package("fastavro.read").LOGICAL_READERS.update(_TIME_READERS)

    def decode(data: bytes, start: int) -> bytes:
        stream = BytesIO(data)
        stream.seek(start)
        try:
            found: bytes = dumps(read(stream, schema, None), _json_of, option)
        except Exception as error:  # fastavro may raise anything for arbitrary bytes
            reason = str(error) or "it ends too early"
            raise FieldError(f"is cut off or damaged, or not of {name}: {reason}") from error
        if (left := len(data) - stream.tell()) > 0:
            raise FieldError(f"is not of {name}, which describes all but its last {left} bytes")
        return found

    return decode


def _json_of(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not a value of Avro")


def _time_reader(parts: int, zone: str) -> Callable[..., datetime | str | int]:
    """Return a reader of times since 1970, with `parts` in a second.  A time beyond the calendar remains a number."""
    begin = datetime(1970, 1, 1, tzinfo=UTC if zone else None)

    def read(number: int, writer: object = None, reader: object = None) -> datetime | str | int:
        seconds, part = divmod(number, parts)
        try:
            if parts <= 1_000_000:
                return begin + timedelta(seconds=seconds, microseconds=part * (1_000_000 // parts))
            return f"{(begin + timedelta(seconds=seconds)).isoformat()[:19]}.{part:09}{zone}"
        except OverflowError:
            return number

    return read


def _date(number: int, writer: object = None, reader: object = None) -> date | int:
    """Return the date of a number of days since 1970, or the number if no calendar has the date."""
    try:
        return date(1970, 1, 1) + timedelta(days=number)
    except OverflowError:
        return number


_TIME_READERS: dict[str, Callable[..., Any]] = {
    "int-rpq-date": _date,
    **{
        f"long-rpq-{local}timestamp-{unit}": _time_reader(parts, zone)
        for local, zone in (("", "Z"), ("local-", ""))
        for unit, parts in (("millis", 1000), ("micros", 1_000_000), ("nanos", 1_000_000_000))
    },
}
"""Readers of logical types that fastavro lacks, or for which it rejects a message if a time is beyond its calendar."""


def _with_logical_types(schema: Any) -> Any:
    """Return a schema of Avro whose times have types of `_TIME_READERS`, including the times named by Kafka Connect.

    >>> _with_logical_types({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"})["logicalType"]
    'rpq-local-timestamp-micros'
    """
    if isinstance(schema, list):
        return [_with_logical_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = ("type", "items", "values", "fields")
    found = {key: _with_logical_types(value) if key in inner else value for key, value in schema.items()}
    logical = f"rpq-{found.get('logicalType') or _TIMES_OF_CONNECT.get(str(found.get('connect.name')))}"
    return {**found, "logicalType": logical} if f"{found.get('type')}-{logical}" in _TIME_READERS else found
