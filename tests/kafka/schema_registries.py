"""Messages as the serializers of a schema registry write them, and a registry that speaks the protocol over HTTP."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro


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
