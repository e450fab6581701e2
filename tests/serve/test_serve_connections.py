"""Connections of hostile and unlucky clients: how many, how long, and what happens where descriptors run out."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rpq.serve.connections import Repetitions, raise_file_limit
from rpq.serve.models import ServeLimits
from rpq.serve.serving import Tls, TlsError
from tests.services.served import NOT_RELOADED, RELOADED, Command, Served, Talk

PATH = {"expression": "a+", "window": 100, "slide": 10}
HEAD = b"POST /tuples HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\ncontent-length: 1000\r\n\r\n"


def connected(served: Served, *parts: bytes) -> socket.socket:
    """A connection over which something was sent."""
    url = httpx.URL(served.url)
    connection = socket.create_connection((url.host, url.port), timeout=10)
    with contextlib.suppress(ConnectionResetError):  # the server may have answered the first part, and closed
        for part in parts:
            connection.sendall(part)
    return connection


def rest_of(connection: socket.socket) -> bytes:
    """Return all bytes until the server closes; waits ten seconds for that."""
    found = b""
    with connection, contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            found += part
    return found


def alive(connection: socket.socket) -> bool:
    """Return whether the response to one request for `/healthz` comes."""
    found = b""
    while not found.endswith(b"}") and (part := connection.recv(1 << 16)):
        found += part
    return b"alive" in found


def waited_for(condition) -> bool:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def impatient() -> Iterator[Served]:
    with Served(PATH, limits=ServeLimits(request_seconds=0.15, idle_seconds=0.25)) as served:
        yield served


@pytest.fixture(scope="module")
def ordinary() -> Iterator[Served]:
    with Served(PATH) as served:
        yield served


@pytest.mark.parametrize("part", [b"", b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-"])
def test_a_request_whose_head_does_not_come_is_ended(impatient, part):
    assert rest_of(connected(impatient, part)).startswith(b"HTTP/1.1 408 ")


def test_half_a_request_behind_a_whole_one_is_ended(impatient):
    whole = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with connected(impatient, whole) as connection:
        assert alive(connection)
        connection.sendall(b"G")
        assert b"408" in rest_of(connection)


def test_a_head_that_comes_letter_by_letter_is_ended_all_the_same(impatient):
    with connected(impatient) as connection, pytest.raises(OSError):
        for _ in range(200):
            connection.sendall(b"G")
            time.sleep(0.02)


@pytest.mark.parametrize("part", [b"", b"{"])
def test_a_body_that_does_not_come_is_ended(impatient, part):
    found = rest_of(connected(impatient, HEAD, part))
    assert found.startswith(b"HTTP/1.1 408 ") and b"BodyTooSlow" in found
    assert impatient.application.bodies.waiting_bytes == 0


def test_an_idle_connection_is_closed_and_a_used_one_stays(impatient):
    whole = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with connected(impatient) as connection:
        for _ in range(4):
            connection.sendall(whole)
            assert alive(connection)
            time.sleep(0.1)
        assert rest_of(connection) == b""


def test_followers_may_be_idle(impatient):
    with impatient.follow() as events:
        events.next("start")
        time.sleep(0.4)
        impatient.post(("p", "q", "a", 1))
        assert events.rows(1)[0][3] == ("p", "q")


def test_a_client_that_does_not_read_its_response_is_ended(impatient):
    impatient.post(*[("x" * 50, f"{number}" * 40, "a", 1) for number in range(20_000)])
    ask = b"GET /queries/a%2B/answers?limit=1000000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with connected(impatient, ask):
        server = impatient.application
        assert waited_for(lambda: impatient.connections() == 2)  # this one, and the one that has posted
        assert waited_for(lambda: impatient.connections() == 0)
        assert server.service.failure is None


# --- requests that a proxy may read differently ----------------------------------------------------------------------

POST = b"POST /tuples HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/csv\r\n"
CHUNKS = b"8\r\nx,y,a,1\n\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKS,
        POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n" + CHUNKS,
        POST + b"content-length: 8\r\ncontent-length: 5\r\n\r\nx,y,a,1\n",
        POST + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKS,
        POST + b"transfer-encoding:\r\n chunked\r\n\r\n" + CHUNKS,
        POST.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n" + CHUNKS,
        POST + b"transfer-encoding: chunked\r\n\r\n" + CHUNKS.replace(b"8\r", b"8"),
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: a\r\n\tb\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\nx: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\nhost: localhost\n\n",
        b"GET /healthz HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 1000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * (1 << 17),
    ],
    ids=[
        "two lengths", "two lengths, chunks first", "lengths that differ", "other coding", "folded coding", "chunks in 1.0",
        "LF in chunks", "folded", "LF in the head", "LF alone", "blank in a name", "many headers", "long header",
    ],
)  # fmt: skip
def test_a_request_that_a_proxy_may_read_differently_ends_the_connection(ordinary, request_bytes):
    found = rest_of(connected(ordinary, request_bytes, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"))
    assert found.startswith(b"HTTP/1.1 400 ") and found.count(b"HTTP/1.1") == 1
    assert not ordinary.answers("a+")


def test_a_request_in_pieces_is_read_like_a_whole_one(ordinary):
    with connected(ordinary) as connection:
        for _ in range(2):
            for letter in b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n":
                connection.sendall(bytes([letter]))
            assert alive(connection)


# --- number ----------------------------------------------------------------------------------------------------------


def test_connections_above_the_cap_are_turned_away_and_followers_count(caplog):
    with Served(PATH, limits=ServeLimits(connections=3)) as served, served.follow() as events:
        events.next("start")
        others = [connected(served) for _ in range(2)]
        assert waited_for(lambda: served.connections() == 3)
        found = [rest_of(connected(served)) for _ in range(5)]
        assert all(b"503" in one and b"retry-after" in one and b"TooManyConnections" in one for one in found)
        assert len([one for one in caplog.records if "which is the limit" in one.getMessage()]) == 1
        for other in others:
            other.close()
        assert waited_for(lambda: served.connections() == 1)
        assert served.post(("x", "y", "a", 1)).status_code == 200
        assert events.rows(1)


def test_where_descriptors_are_used_up_clients_are_told_and_the_log_stays_small(caplog):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Served(PATH) as served:
        assert served.post(("x", "y", "a", 1)).status_code == 200
        sockets = []
        clients = [socket.socket() for _ in range(5)]
        url = httpx.URL(served.url)
        lowest = os.open(os.devnull, os.O_RDONLY)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))
            with contextlib.suppress(OSError):
                while True:
                    sockets.append(os.open(os.devnull, os.O_RDONLY))
            for client in clients:
                client.settimeout(10)
                client.connect((url.host, url.port))
            found = [client.recv(1 << 16) for client in clients]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in [*sockets, lowest]:
                os.close(descriptor)
            for client in clients:
                client.close()
        assert all(one.startswith(b"HTTP/1.1 503 ") for one in found)
        warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
        assert len(warnings) == 1 and "Too many open files" in warnings[0], warnings
        assert served.post(("y", "z", "a", 2)).status_code == 200


def test_the_limit_on_open_files_is_raised_as_far_as_may_be(monkeypatch):
    limits = [(64, 64)]
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, pair: limits.append(pair))
    assert 1 <= raise_file_limit(2000) < 64
    limits.append((64, 100_000))
    assert raise_file_limit(2000) == 2000 and 2000 < limits[-1][0] < 3000 and limits[-1][1] == 100_000
    limits.append((64, resource.RLIM_INFINITY))
    assert raise_file_limit(2000) == 2000
    limits.append((resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert raise_file_limit(2000) == 2000


def test_a_message_that_comes_again_and_again_is_logged_a_few_times():
    def record(message: str) -> logging.LogRecord:
        return logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, message, (), None)

    now = Repetitions(limit=3, seconds=1000)
    assert sum(now.filter(record("Invalid HTTP request received.")) for _ in range(100)) == 3
    assert now.filter(record("another"))
    now._began -= 2000
    again = record("Invalid HTTP request received.")
    assert now.filter(again) and "97 repeated messages were left out" in again.getMessage()


# --- bytes that wait -------------------------------------------------------------------------------------------------


def test_bodies_that_are_not_whole_yet_count_as_waiting():
    with Served(PATH, limits=ServeLimits(waiting_bytes=1500)) as served:
        first = connected(served, HEAD, b" " * 990)
        assert waited_for(lambda: served.application.bodies.waiting_bytes == 990)
        found = rest_of(connected(served, HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), b" " * 990))
        assert found.startswith(b"HTTP/1.1 503 ") and b"TooMuchWaits" in found
        first.close()
        assert waited_for(lambda: served.application.bodies.waiting_bytes == 0)
        assert served.post(("x", "y", "a", 1)).status_code == 200


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two certificates, each with its key, and one key that is encrypted."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("one", "other"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
             "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"],
            check=True, capture_output=True,
        )  # fmt: skip
    locked = ["-aes128", "-passout", "pass:word", "-in", folder / "one.key", "-out", folder / "locked.key"]
    subprocess.run(["openssl", "ec", *locked], check=True, capture_output=True)
    (folder / "text").write_text("no certificate")
    return folder


def test_tls(certificates):
    tls = Tls(certificate=str(certificates / "one.pem"), key=str(certificates / "one.key"))
    with Served(PATH, tls=tls, limits=ServeLimits(connections=2, request_seconds=0.3)) as served:
        assert served.url.startswith("https://")
        with served.follow() as events:
            events.next("start")
            assert served.post(("x", "y", "a", 1)).status_code == 200
            assert events.rows(1) and served.answers("a+") == {("x", "y")}
            origin = {"origin": served.url}
            assert served.client.get("/queries", headers=origin).status_code == 200
            with pytest.raises((httpx.TransportError, ssl.SSLError)):  # one more than may be, in plain text
                Talk(served.url.replace("https", "http")).client.get("/healthz")
        served.client.close()
        assert waited_for(lambda: served.connections() == 0)
        assert rest_of(connected(served)) == b""  # the handshake does not come
        assert waited_for(lambda: served.connections() == 0)


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        ("one.pem", "other.key", "other.key: is not the key of the certificate .*one.pem"),
        ("nothing.pem", "one.key", "nothing.pem: cannot be read: No such file"),
        ("one.pem", "nothing.key", "nothing.key: cannot be read: No such file"),
        ("one.pem", "locked.key", "locked.key: is encrypted"),
        ("text", "one.key", "expected a certificate and its key in PEM"),
        ("one.pem", "text", "expected a certificate and its key in PEM"),
        ("one.pem", "", "cannot be read"),
    ],
)
def test_what_tls_cannot_be_spoken_with_is_an_error(certificates, certificate, key, message):
    with pytest.raises(TlsError, match=message):
        _ = Tls(certificate=str(certificates / certificate), key=str(certificates / key)).context


@pytest.mark.ci
def test_a_certificate_is_reloaded_for_further_connections(certificates, tmp_path):
    for name in ("pem", "key"):
        shutil.copy(certificates / f"one.{name}", tmp_path / f"server.{name}")
    options = ["a", "--window", "10", "--tls-cert", tmp_path / "server.pem", "--tls-key", tmp_path / "server.key"]
    one, other = (ssl.create_default_context(cafile=certificates / f"{name}.pem") for name in ("one", "other"))
    with Command(*options, log=tmp_path / "log", verify=one) as served, served.follow() as events:
        events.next("start")
        shutil.copy(certificates / "other.pem", tmp_path / "server.pem")
        served.reload(NOT_RELOADED)
        assert "server.key: is not the key of the certificate" in (tmp_path / "log").read_text()
        assert Talk(served.url, verify=one).client.get("/healthz").status_code == 200
        shutil.copy(certificates / "other.key", tmp_path / "server.key")
        served.reload(RELOADED)
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            Talk(served.url, verify=one).client.get("/healthz")
        assert Talk(served.url, verify=other).post(("x", "y", "a", 1)).status_code == 200
        assert events.rows(1) == [("a", "+", 1, ("x", "y"))]  # the connection stays
        assert served.end() == 0


def test_the_body_of_a_response_does_not_wait_for_the_acknowledgement_of_its_head():
    with Served(PATH) as served:
        assert served.client.get("/healthz").status_code == 200
        connections = served.application.figures.connections
        assert connections is not None
        sockets = [one.transport.get_extra_info("socket") for one in connections._state.connections]
        assert sockets and all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets)
