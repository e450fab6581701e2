"""The sink of rows that are posted to a URL as JSON: `--output https://…`.

The rows of a batch are one request, whose header `Idempotency-Key` is the run and the number of the batch.  A request is
repeated until the receiver accepts it: after errors of the connection, time-outs, 5xx and 429.  Any other answer is final,
also a redirect, which may lead to a place that should not have the rows.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import logging
import os
import random
import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, unquote, urlsplit

import pyarrow as pa

from rpq.errors import InputError
from rpq.files.destinations import synchronise
from rpq.rows.table_formats import MESSAGE, MessageTemplate, json_lines
from rpq.rows.typed_columns import WITNESS_COLUMNS
from rpq.run.loop import OutputError
from rpq.stream.providers import without_login
from rpq.stream.sinks import Sink

LOG = logging.getLogger("rpq.run")

SECRET = "RPQ_WEBHOOK_SECRET"
"""The environment variable with the secret of signatures."""

FIELDS = ("rows", "messages", "key")
"""The names in a template of bodies: the rows as a JSON array; their messages, as lines, and the key, as JSON texts."""

REQUEST_SECONDS = 10.0
"""The longest time without progress in a request."""

FIRST_WAIT, LONGEST_WAIT = 0.2, 30.0
"""The seconds before the second attempt, which double with each further one, up to a limit."""

IDLE_SECONDS = 5.0
"""The time for which a connection is kept; servers close those without requests."""

_ANSWER_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class WebhookOptions:
    """The options `--webhook-…`, and whether rows have a `witness`."""

    batch: int
    body: MessageTemplate | None
    secret: bytes | None
    give_up: float
    failed: str | None
    witness: bool


def webhook_secret(path: str | None) -> bytes | None:
    """Return the secret in a file, or in the environment variable; None if there is neither.  Raises `InputError`."""
    if path is None:
        return os.environ.get(SECRET, "").encode() or None
    try:
        with open(path, "rb") as file:
            secret = file.read().strip()
    except OSError as error:
        raise InputError(f"--webhook-secret {path}: cannot be read: {error.strerror or error}") from error
    if not secret:
        raise InputError(f"--webhook-secret {path}: is empty; expected a file with the secret")
    return secret


def parse_webhook(url: str) -> SplitResult:
    """Parse the URL of a webhook.  Raises `InputError`, whose message has no login.

    >>> parse_webhook("https://ann:secret@example.org/rows?list=1").hostname
    'example.org'
    """
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError
    except ValueError:
        parts, port = urlsplit(""), 0
    if not parts.hostname or port == 0 or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(
            f"{without_login(url)}: is not the URL of a webhook; expected https://HOST[:PORT]/PATH, with characters "
            "beyond ASCII as %XX"
        )
    return parts


class _Refused(Exception):
    """An answer after which a request is not repeated."""


class _Away(Exception):
    """A failure after which a request is repeated, at the earliest after `seconds`."""

    def __init__(self, reason: str, seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.seconds = seconds


class WebhookSink(Sink):
    """The sink of a URL.  While it waits for the receiver, `check` is called, which raises if the run must end."""

    guarantee = "key"

    def __init__(self, url: str, options: WebhookOptions, *, check: Callable[[], None] = lambda: None) -> None:
        parts = parse_webhook(url)
        self.name, self.batch_rows = without_login(url), options.batch
        self._options, self._check = options, check
        self._is_secure, self._host, self._port = parts.scheme.lower() == "https", str(parts.hostname), parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {"Content-Type": "application/json", "User-Agent": "rpq"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        self._run = ""
        self._rows: pa.Table | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    def begin(self, run: str, position: int | None) -> None:
        self._run = run

    def write(self, rows: pa.Table) -> None:
        self._rows = rows

    def commit(self, number: int) -> None:
        """Post the rows, until the receiver accepts or refuses them, or does not answer for too long."""
        key = f"{self._run}-{number}"
        body = self._body(key)
        headers = {**self._headers, "Idempotency-Key": key}
        if self._options.secret is not None:
            digest = hmac.new(self._options.secret, body, hashlib.sha256).hexdigest()
            headers["X-Hub-Signature-256"] = f"sha256={digest}"
        try:
            self._deliver(body, headers)
        except _Refused as refused:
            if self._options.failed is None:
                raise OutputError(
                    f"{self.name}: {refused}.  With --checkpoint, the run sends this batch again when it is started again; "
                    "with --webhook-failed FILE, it sets it aside"
                ) from refused
            LOG.warning("%s: batch %s is set aside in %s: %s", self.name, key, self._options.failed, refused)
            record = {"url": self.name, "key": key, "reason": str(refused), "body": body.decode()}
            with open(self._options.failed, "ab") as file:
                file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
                synchronise(file)

    def _body(self, key: str) -> bytes:
        assert self._rows is not None
        lines = json_lines(self._rows, json_columns=WITNESS_COLUMNS[:1] if self._options.witness else ())
        rows = b"".join(map(memoryview, lines)).decode().rstrip("\n").replace("\n", ",\n")
        if self._options.body is None:
            return f"[{rows}]\n".encode()
        messages = self._rows.column(MESSAGE).to_pylist() if MESSAGE in self._rows.column_names else []
        values = {"rows": f"[{rows}]", "messages": json.dumps("\n".join(messages)), "key": json.dumps(key)}
        return self._options.body.message(values).encode()

    def _deliver(self, body: bytes, headers: dict[str, str]) -> None:
        """Post a body until it is accepted.  Raises `_Refused`."""
        until, wait, is_away = time.monotonic() + self._options.give_up, FIRST_WAIT, False
        while True:
            try:
                self._post(body, headers)
            except _Away as away:
                pause = max(away.seconds, wait * random.uniform(0.5, 1.0))
                if time.monotonic() + pause > until:
                    raise _Refused(f"does not accept a batch within {self._options.give_up:g} seconds: {away}") from away
                if not is_away:
                    LOG.warning("%s: is tried again: %s", self.name, away)
                is_away, wait = True, min(2 * wait, LONGEST_WAIT)
                self._pause(pause)
                continue
            if is_away:
                LOG.warning("%s: is back", self.name)
            return

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._check()
            time.sleep(min(left, 0.2))

    def _post(self, body: bytes, headers: dict[str, str]) -> None:
        """Post a body once.  Raises `_Away` and `_Refused`."""
        try:
            if time.monotonic() - self._used_at > IDLE_SECONDS:
                self.close()
            if self._connection is None:
                kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
                self._connection = kind(self._host, self._port, timeout=REQUEST_SECONDS)
            self._connection.request("POST", self._target, body, headers)
            answer = self._connection.getresponse()
            text = answer.read(_ANSWER_BYTES).decode(errors="replace")
            if not answer.isclosed():
                self.close()
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise _Refused(f"its certificate is not accepted: {error.verify_message}") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _Away(f"{type(error).__name__}: {error}") from error
        self._used_at = time.monotonic()
        if 200 <= answer.status < 300:
            return
        reason = f"answered {answer.status} {answer.reason}: {' '.join(text.split())[:200]}".rstrip(": ")
        if answer.status == 429 or answer.status >= 500:
            raise _Away(reason, _seconds_of(answer.getheader("Retry-After")))
        raise _Refused(reason)

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _seconds_of(retry_after: str | None) -> float:
    """Return the seconds until the time of a header `Retry-After`, which is a number of them or a date.

    >>> _seconds_of("7"), _seconds_of(None), _seconds_of("Wed, 21 Oct 2015 07:28:00 GMT"), _seconds_of("soon")
    (7.0, 0.0, 0.0, 0.0)
    """
    text = (retry_after or "0").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
