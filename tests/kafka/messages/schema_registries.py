"""Messages as the serializers of a schema registry write them, one that speaks its protocol over HTTP, and a real one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro

from tests.services.kafka_broker import STARTUP_SECONDS, NoBroker, die_with_parent, fetched, free_ports, java


def record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of Avro."""
    return {"type": "record", "name": name, "fields": [{"name": field, "type": type_} for field, type_ in fields.items()]}


def avro(schema: Any, value: Any, number: int | None, named: dict[str, Any] | None = None) -> bytes:
    """A value in Avro, behind the number of its schema unless that is None."""
    stream = io.BytesIO()
    parsed = fastavro.parse_schema(schema, named_schemas=named if named is not None else {})
    fastavro.schemaless_writer(stream, parsed, value)
    return prefix(number) + stream.getvalue()


def prefix(number: int | None) -> bytes:
    return b"" if number is None else b"\0" + number.to_bytes(4)


class HttpRegistry:
    """A registry at an address of this machine: `schemas` by number; `answer` is the status of all requests if not None."""

    def __init__(self, schemas: Sequence[Mapping[str, Any]] = (), *, port: int = 0) -> None:
        self.schemas = dict(enumerate(schemas, 1))
        self.answer: int | None = None
        self.requests: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append((self.path, self.headers.get("Authorization")))
                number = int(self.path.partition("?")[0].rpartition("/")[2])
                status, body = registry.answer or 200, {"error_code": registry.answer, "message": "as told"}
                if registry.answer is None and number in registry.schemas:
                    body = dict(registry.schemas[number])
                elif registry.answer is None:
                    status, body = 404, {"error_code": 40403, "message": "Schema not found"}
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *line: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def registered(schema: Any, type_: str | None = None) -> dict[str, Any]:
    """A schema as a registry describes it; its type is left out for Avro."""
    return {"schema": json.dumps(schema), **({} if type_ is None else {"schemaType": type_})}


APICURIO = """
3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba io/apicurio/apicurio-registry-app/2.6.13.Final/apicurio-registry-app-2.6.13.Final-all.tar.gz
""".split("\n")[1:-1]  # noqa: E501
"""Apicurio Registry, with the SHA-256 of its archive: 142 MB.  It runs on Java 17."""


def _unpacked() -> Path:
    """The folder of Apicurio, beside its archive in the cache; it is there as a whole or not at all."""
    folder = fetched(APICURIO, "apicurio-2.6.13")
    if not (folder / "app").exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            with tarfile.open(folder / Path(APICURIO[0].split("/")[-1])) as archive:
                archive.extractall(Path(temporary) / "app", filter="data")
            with contextlib.suppress(OSError):  # another process may have been faster
                os.rename(Path(temporary) / "app", folder / "app")
    return folder / "app"


class Apicurio:
    """A real registry, whose schemas are in memory; what it says goes to a file.  `NoBroker` where there can be none."""

    def __init__(self, log: Path) -> None:
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}/apis/ccompat/v7"
        (jar,) = _unpacked().glob("*-runner.jar")
        self._log = log
        settings = [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1"]
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *settings, "-jar", str(jar)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls the system alone
            )

    def wait(self) -> Apicurio:
        """Wait until it answers."""
        until = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/subjects", timeout=2):
                return self
            time.sleep(0.1)
        self.close()
        raise NoBroker(f"Apicurio does not answer: {self._log.read_text()[-2000:]}")

    def hang(self) -> None:
        """Stop answering requests until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
