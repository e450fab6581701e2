"""Access and limits: hosts, origins, the token, limits of requests, and the guards of the engine."""

from __future__ import annotations

import gc
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pyarrow as pa
import pytest

from rpq import RowLimitError
from rpq.readers import open_reader
from rpq.serve import operations
from rpq.serve.engine_thread import EngineCall
from rpq.serve.feeds import FileFeed, Playback
from rpq.serve.models import ServeLimits
from rpq.serve.operations import Admission, parse_tokens
from rpq.serve.requests import NotApplied
from rpq.serve.service import LEAST_HOLD, ExcessiveTuples, TuplePush
from tests.services.served import CHECKS, NDJSON, Served, Talk, alive_at_reload, lines

PATH = {"expression": "a+", "window": 100, "slide": 10}


def columns(source: str, target: str, timestamp: int) -> dict[str, list[object]]:
    """Return the columns of one tuple with the label a."""
    return {"source": [source], "target": [target], "label": ["a"], "timestamp": [timestamp]}


# --- hosts, origins, the token ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_hosts() -> Iterator[Served]:
    with Served(PATH, admission=Admission(hosts=["known.example"])) as served:
        yield served


@pytest.mark.parametrize(
    ("host", "is_let_in"),
    [
        ("127.0.0.1:{port}", True), ("localhost:{port}", True), ("LOCALHOST", True), ("[::1]:{port}", True),
        ("10.1.2.3", True), ("known.example:{port}", True), ("evil.example", False), ("evil.example:{port}", False),
        ("", False),
        ("localhost.evil.example", False), ("127.0.0.1.evil.example", False), ("known.example@evil.example", False),
    ],
)  # fmt: skip
def test_the_host_has_to_be_known(with_hosts, host, is_let_in):
    host = host.format(port=with_hosts.url.rsplit(":")[-1])
    for path in ("/healthz", "/queries", "/"):
        response = with_hosts.client.get(path, headers={"host": host})
        if is_let_in:
            assert response.status_code == 200
        else:
            assert response.status_code in (400, 421)
            if host:
                assert response.json()["error"]["type"] == "HostRefused"


def test_pages_of_other_origins_may_not_ask():
    with Served(PATH, admission=Admission(origins=["https://friend.example"])) as served:
        own = served.client.get("/queries", headers={"origin": served.url})
        assert own.status_code == 200 and "access-control-allow-origin" not in own.headers
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1", served.url.replace("http", "ftp")):
            for path in ("/queries", "/changes", "/", "/healthz"):
                response = served.client.get(path, headers={"origin": origin})
                assert response.status_code == 403 and "access-control-allow-origin" not in response.headers
            post = served.client.post("/tuples", content=lines(("x", "y", "a", 1)), headers={**NDJSON, "origin": origin})
            assert post.status_code == 403
        assert served.answers("a+") == set()
        friend = {"origin": "https://friend.example"}
        allowed = served.client.get("/queries", headers=friend)
        assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == friend["origin"]
        headers = {**friend, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        preflight = served.client.options("/tuples", headers=headers)
        assert preflight.status_code == 204 and "POST" in preflight.headers["access-control-allow-methods"]
        foreign = served.client.options("/tuples", headers={**headers, "origin": "https://evil.example"})
        assert foreign.status_code == 403


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(operations, "WRONG_TOKEN_SECONDS", 0.01)


def admitted(*tokens: str) -> dict[str, object]:
    """Return arguments of a server with tokens, and of its client, which has the last one."""
    value = tokens[-1].rpartition("=")[2].encode(errors="surrogateescape")
    return {"admission": Admission(tokens=parse_tokens(tokens)), "headers": {"authorization": b"Bearer " + value}}


def test_the_token_is_asked_for(impatient):
    with Served(PATH, **admitted("s3cret")) as served:
        assert served.post(("x", "y", "a", 1)).status_code == 200 and served.answers("a+") == {("x", "y")}
        with served.follow() as events:
            events.next("start")
        anybody = Talk(served.url).client
        for method, path in [
            ("POST", "/tuples"), ("GET", "/queries"), ("POST", "/queries"), ("GET", "/queries/a%2B"),
            ("DELETE", "/queries/a%2B"), ("GET", "/queries/a%2B/answers"), ("GET", "/changes"), ("POST", "/check"),
            ("GET", "/statistics"), ("GET", "/metrics"), ("GET", "/playback"), ("POST", "/playback"), ("GET", "/nothing"),
        ]:  # fmt: skip
            for given in (None, "Bearer wrong", "Basic s3cret", "Bearer", "s3cret"):
                headers = {} if given is None else {"authorization": given}
                response = anybody.request(method, path, headers=headers)
                assert response.status_code == 401, (method, path, given)
                assert response.headers["www-authenticate"].startswith("Bearer")
                assert "s3cret" not in response.text
        for path in ("/healthz", "/readyz", "/", "/openapi.json"):
            assert anybody.get(path).status_code == 200
        assert anybody.get("/page/nothing.js").status_code == 404
        assert served.answers("a+") == {("x", "y")}


@pytest.mark.parametrize("token", ["à", "clé-\N{SNOWMAN}", "a b", "caf\udce9"])
def test_tokens_are_bytes(token, impatient):
    written = token.encode(errors="surrogateescape")
    with Served(PATH, **admitted(token)) as served:
        assert served.client.get("/queries").status_code == 200
        others = [written + b"x", written[:-1].strip() or b"x", b"\xff\xfe", written * 1000]
        if all(ord(letter) < 256 for letter in token):  # as fetch() of a browser sends it
            assert served.client.get("/queries", headers={"authorization": b"Bearer " + token.encode("latin-1")}).is_success
        for other in others:
            assert served.client.get("/queries", headers={"authorization": b"Bearer " + other}).status_code == 401


REQUESTS = {
    "read": [
        ("GET", "/queries"), ("GET", "/queries/a%2B/answers"), ("GET", "/queries/a%2B/explain"), ("GET", "/statistics"),
        ("GET", "/metrics"), ("GET", "/playback"), ("POST", "/flush"), ("GET", "/changes?message=of+no+query"),
        ("POST", "/find"), ("GET", "/check?expression=a&source=x&target=y"),
    ],
    "write": [("POST", "/tuples"), ("POST", "/playback")],
    "register": [("POST", "/queries"), ("POST", "/check"), ("DELETE", "/queries/q")],
    "backup": [("POST", "/checkpoint")],
}  # fmt: skip


@pytest.mark.parametrize("roles", ["read", "write", "register", "backup", "read,write", "read,write,register", ""])
def test_a_token_allows_what_its_roles_are_for(roles):
    token = f"{roles}=one" if roles else "one"
    with Served(PATH, **admitted("write=other", token)) as served:
        for role, requests in REQUESTS.items():
            for method, path in requests:
                status = served.client.request(method, path).status_code
                assert (status != 403) == (role in roles or not roles), (method, path)
                assert status != 401
        assert served.client.get("/healthz").status_code == 200


def test_a_token_without_known_roles_is_what_it_is():
    with Served(PATH, admission=Admission(tokens=parse_tokens(["reader=one="]))) as served:
        assert served.client.get("/queries", headers={"authorization": "Bearer reader=one="}).status_code == 200


def test_wrong_tokens_are_slowed_down_and_no_one_elses(monkeypatch):
    monkeypatch.setattr(operations, "WRONG_TOKEN_SECONDS", 0.5)
    with Served(PATH, **admitted("right")) as served, ThreadPoolExecutor(20) as pool:
        def guess(number: int) -> int:
            headers = {"authorization": f"Bearer {number}", "x-forwarded-for": "10.1.2.3"}  # as from a proxy
            return Talk(served.url, **headers).client.get("/queries").status_code

        began = time.monotonic()
        guesses = [pool.submit(guess, number) for number in range(20)]
        assert served.client.get("/queries").status_code == 200 and not all(one.done() for one in guesses)
        found = [one.result() for one in guesses]
        assert found.count(401) >= operations.MAX_WRONG_TOKENS and set(found) == {401, 429}
        assert time.monotonic() - began > 0.5
        assert served.client.get("/queries", headers={"x-forwarded-for": "10.1.2.3"}).status_code == 200


@pytest.mark.parametrize("origin", [b"http://[", b"http://]", b"http://[v9]", b"https://[x]:1", b"//[\xff"])
def test_an_origin_that_is_none_is_the_fault_of_the_client(with_hosts, origin):
    refused = with_hosts.client.get("/queries", headers={"origin": origin})
    assert refused.status_code == 400 and refused.json()["error"]["type"] == "BadOrigin"
    preflight = with_hosts.client.options("/tuples", headers={"origin": origin, "access-control-request-method": "POST"})
    assert preflight.status_code == 400


def test_no_header_is_the_fault_of_the_server():
    names = ("host", "origin", "last-event-id", "authorization", "content-length", "content-type", "content-encoding",
             "transfer-encoding", "expect", "range", "if-modified-since", "connection", "idempotency-key")  # fmt: skip
    pieces = [
        b"[", b"]", b"://", b"http", b":", b"/", b"//", b"@", b"\xff", b"\xc2\xb2", b"\xb2", b"%", b"\\", b"-", b"1",
        b"99999", b"9" * 30, b".", b",", b";", b"=", b" ", b"\t", b"Bearer ", b"localhost", b"chunked", b"\x00", b"\x0b",
        b"100-continue", b"bytes", b"x" * 5000,
    ]  # fmt: skip
    draw = random.Random(7)
    with Served(PATH, admission=Admission(tokens=parse_tokens(["t"]))) as served:
        url = httpx.URL(served.url)
        for number in range(100):
            name = names[number % len(names)]
            value = b"".join(draw.choices(pieces, k=draw.randint(0, 5)))
            line = draw.choice([b"GET /changes", b"GET /queries", b"POST /tuples", b"POST /check", b"GET /", b"GET /page/x"])
            headers = {"host": b"localhost", "authorization": b"Bearer t", "connection": b"close", name: value}
            head = b"".join(key.encode() + b": " + text + b"\r\n" for key, text in headers.items())
            with socket.create_connection((url.host, url.port), timeout=10) as connection:
                connection.sendall(line + b" HTTP/1.1\r\n" + head + b"\r\n")
                connection.shutdown(socket.SHUT_WR)
                found = connection.recv(64)
            assert found == b"" or 200 <= int(found.split()[1]) < 500, (line, name, value, found)
        assert served.client.get("/healthz").status_code == 200


def test_every_response_is_careful():
    with Served(PATH) as served:
        for path in ("/", "/queries", "/nothing", "/queries/a%2B/answers", "/page/x", "/metrics"):
            headers = served.client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
            assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
            assert "server" not in headers


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_as_soon_as_that_is_known():
    with Served(PATH, limits=ServeLimits(body_bytes=1000)) as served:
        body = lines(*[("x", str(number), "a", number) for number in range(100)])
        response = served.client.post("/tuples", content=body, headers=NDJSON)
        assert response.status_code == 413 and response.json()["error"]["type"] == "BodyTooLarge"

        def parts():
            for _ in range(100):
                yield body[:200]

        in_parts = served.client.post("/tuples", content=parts(), headers=NDJSON)
        assert in_parts.status_code == 413
        packed = served.client.post("/tuples", content=b"\x1f\x8b", headers={**NDJSON, "content-encoding": "gzip"})
        assert packed.status_code == 415 and packed.json()["error"]["type"] == "CodingRefused"
        query = served.client.post("/queries", json={"expression": "a" * 2000, "window": 10})
        assert query.status_code == 413
        assert served.client.get("/statistics").json()["tuples"] == 0
        assert served.post(("x", "y", "a", 1)).status_code == 200


def test_more_queries_than_may_be_are_refused():
    with Served(PATH, limits=ServeLimits(queries=2)) as served:
        assert served.register("b", window=10, slide=1).status_code == 201
        refused = served.register("c", window=10, slide=1)
        assert refused.status_code == 429 and refused.json()["error"]["type"] == "TooManyQueries"
        served.client.delete("/queries/b")
        assert served.register("c", window=10, slide=1).status_code == 201


def test_more_tuples_than_may_wait_are_refused():
    with Served(PATH, limits=ServeLimits(waiting_bytes=3500)) as served:  # two bodies, but not with the tuples in the first
        hold = threading.Event()
        import asyncio

        blocked = asyncio.run_coroutine_threadsafe(served.service.call(lambda: hold.wait(60)), served._loop)
        body = [("x", str(number), "a", number) for number in range(25)]
        first = threading.Thread(target=served.post, args=body)
        first.start()
        end = time.monotonic() + 30
        while served.application.bodies.waiting_bytes < 2000 and time.monotonic() < end:
            time.sleep(0.01)
        refused = Talk(served.url).post(*body)
        assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
        assert served.client.get("/healthz").status_code == 200  # the loop is not held
        hold.set()
        blocked.result(30)
        first.join(30)
        assert len(served.answers("a+")) == 25


@pytest.mark.parametrize("body", [b"", b"[1", b'{"a": NaN}', b"\xff", b"[" * 100_000, b"null"], ids=range(6))
def test_what_is_no_json_is_refused(with_hosts, body):
    for path in ("/queries", "/check"):
        response = with_hosts.client.post(path, content=body, headers={"content-type": "application/json"})
        assert response.status_code in (400, 422), response.text
        assert response.json()["error"]["message"]


# --- guards of the engine --------------------------------------------------------------------------------------------


def test_a_tuple_with_too_many_rows_ends_a_server_that_has_no_state_to_go_on_from():
    with Served(PATH, max_rows=10) as served:
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        refused = served.post(("p", "q", "a", 2), ("y", "x", "a", 2))
        error = refused.json()["error"]
        assert refused.status_code == 507 and error["type"] == "RowLimitError"
        assert error["applied"] == 1 and error["query"] == "a+" and error["limit"] == 10
        again = served.post(("y", "z", "a", 3))
        assert again.status_code == 503 and "no checkpoint" in again.json()["error"]["message"]
        ready = served.client.get("/readyz")
        assert ready.status_code == 503 and "retry-after" in ready.headers
        assert served.client.get("/healthz").status_code == 200
        assert "rpq_failed 1.0" in served.client.get("/metrics").text


def test_followers_learn_that_the_server_takes_nothing_more():
    with Served(PATH, max_rows=10) as served, served.follow() as events:
        events.next("start")
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        assert served.post(("p", "q", "a", 2), ("y", "x", "a", 2)).status_code == 507
        assert [row[3] for row in events.rows(11)][-1] == ("p", "q")
        assert "no checkpoint" in events.next("end")["reason"]
        with served.follow() as later:
            later.next("start")
            assert "no checkpoint" in later.next("end")["reason"]


def test_a_tuple_with_too_many_rows_is_left_out_where_there_is_a_checkpoint(tmp_path):
    with Served(PATH, max_rows=10, checkpoint=tmp_path / "state") as served, served.follow() as events:
        events.next("start")
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        refused = served.post(("p", "q", "a", 2), ("y", "x", "a", 2), ("r", "s", "a", 2))
        assert refused.status_code == 507 and refused.json()["error"]["applied"] == 1
        assert served.client.get("/readyz").status_code == 200
        assert served.post(("t", "u", "a", 3)).status_code == 200
        assert served.answers("a+") == {("x", str(number)) for number in range(10)} | {("p", "q"), ("t", "u")}
        assert [row[3] for row in events.rows(12)][-2:] == [("p", "q"), ("t", "u")]


def test_an_engine_that_reached_a_limit_is_released_before_another_is_restored(tmp_path, monkeypatch):
    """Memory that is full has no room for two."""
    with Served(PATH, max_rows=10, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        were_alive = alive_at_reload(served, monkeypatch)
        gc.collect()
        gc.freeze()  # as the command does once it serves
        try:
            assert served.post(("y", "x", "a", 2)).status_code == 507
            assert served.post(("t", "u", "a", 3)).status_code == 200
            assert were_alive == [False]
        finally:
            gc.unfreeze()


def test_an_engine_that_cannot_be_restored_fails_the_server_with_the_reason(tmp_path):
    with Served(PATH, max_rows=10, checkpoint=tmp_path / "state") as served, served.follow("a+") as events:
        events.next("start")
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        (tmp_path / "state").write_bytes(b"damaged")
        assert served.post(("y", "x", "a", 2)).status_code == 507
        reason = next(content["reason"] for kind, content in events if kind == "end")
        assert "cannot be restored" in reason
        get = served.client.get
        for response in (served.post(("t", "u", "a", 3)), served.of("a+", "answers"), get("/readyz"), get("/queries")):
            assert response.status_code == 503 and "cannot be restored" in response.json()["error"]["message"]
        with served.follow("a+") as later:
            assert later.response.status_code == 503
        assert served.client.get("/statistics").json()["failure"] is not None


def test_a_post_that_was_applied_before_the_engine_was_lost_has_its_time(tmp_path):
    """Posts that wait are pushed together, and the tuples before the limit are on disk before the engine is restored."""
    with Served(PATH, max_rows=10, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        (tmp_path / "state").write_bytes(b"damaged")
        jobs = [TuplePush(pa.RecordBatch.from_pydict(one), Future()) for one in (columns("t", "u", 2), columns("y", "x", 2))]
        gate = threading.Event()
        served.service.submit(EngineCall(lambda: gate.wait(60), Future()))
        for job in jobs:
            served.service.submit(job)
        gate.set()
        applied = jobs[0].waiter.result(60)
        assert (applied.tuples, applied.time) == (1, 2)
        with pytest.raises(NotApplied):
            jobs[1].waiter.result(60)


def test_a_post_over_a_limit_that_is_repeated_does_not_restore_the_engine_each_time(tmp_path):
    with Served(PATH, max_rows=10, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        assert served.post(("y", "x", "a", 2)).status_code == 507
        engine = served.service.engine
        for time_ in range(3, 6):
            refused = served.post(("p", f"q{time_}", "a", time_), ("y", "x", "a", time_), ("r", "s", "a", time_))
            error = refused.json()["error"]
            assert refused.status_code == 507 and error["type"] == "RowLimitError", refused.text
            assert (error["applied"], error["query"], error["limit"]) == (1, "a+", 10) and "this tuple" in error["message"]
            assert int(refused.headers["retry-after"]) >= 1
        assert served.service.engine is engine, "the engine was restored for a tuple that was known"
        assert served.post(("y", "z", "a", 6), ("y", "x", "b", 6), ("x", "y", "a", 6, "-")).status_code == 200
        assert served.answers("a+") >= {("p", "q3"), ("p", "q4"), ("p", "q5"), ("y", "z")}


def test_a_tuple_over_a_limit_may_be_posted_again_later(tmp_path, monkeypatch):
    monkeypatch.setattr("rpq.serve.service.LEAST_HOLD", 0.2)
    monkeypatch.setattr("rpq.serve.service.CHECKPOINT_SHARE", 1.0)
    with Served(PATH, max_rows=10, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        assert served.post(("y", "x", "a", 2)).status_code == 507
        assert served.post(*[("x", str(number), "a", 3, "-") for number in range(5)]).status_code == 200
        end = time.monotonic() + 60
        while (refused := served.post(("y", "x", "a", 4))).status_code == 507:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert refused.status_code == 200 and ("y", "5") in served.answers("a+")


def test_a_tuple_over_a_limit_may_be_posted_again_after_its_query_is_dropped(tmp_path):
    other = PATH | {"name": "other", "expression": "b"}
    with Served(PATH, other, max_rows=10, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        began = time.monotonic()
        assert served.post(("y", "x", "a", 2)).status_code == 507
        assert served.client.delete("/queries/a%2B").status_code == 204
        again = served.post(("y", "x", "a", 3))
        assert again.status_code == 200 or time.monotonic() - began > LEAST_HOLD, again.text


def test_the_tuple_over_a_limit_is_found_by_all_its_fields():
    """Whatever the layout of its columns; and in a large post between the same vertices as soon as in any other."""
    excessive = ExcessiveTuples()
    error = RowLimitError("tuple 0 of the batch has too many rows", query="a+", row=0, number=11, limit=10)
    posted = pa.RecordBatch.from_pydict(columns("y", "x", 2) | {"op": ["+"], "weight": [5]})
    excessive.add(posted, error, seconds=60.0, now=100.0)

    def first(**changed: object) -> int | None:
        fields = {"source": "y", "target": "x", "label": "a", "timestamp": 3, "weight": 5} | changed
        found = excessive.first(pa.RecordBatch.from_pylist([fields]), now=101.0)
        return None if found is None else found[0]

    assert first() == first(op="+") == first(op=None) == first(delete=False) == first(other=None) == 0
    others = {"op": "-"}, {"delete": True}, {"label": "b"}, {"weight": 6}, {"weight": None}, {"other": 1}, {"source": "x"}
    for changed in others:
        assert first(**changed) is None, changed

    count = 1 << 16
    repeated = {name: value * count for name, value in columns("y", "x", 3).items()}
    same_ends = pa.RecordBatch.from_pydict(repeated | {"weight": range(6, count + 6)})
    encoded = same_ends.set_column(0, "source", same_ends.column("source").dictionary_encode())
    for number in range(16):
        excessive.add(posted.set_column(2, "label", pa.array([f"l{number}"])), error, seconds=60.0, now=100.0)
    began = time.process_time()
    assert excessive.first(same_ends, now=101.0) is None and excessive.first(encoded, now=101.0) is None
    assert time.process_time() - began < 3, "each row was looked at by itself"
    both = pa.concat_batches([same_ends, posted.select(same_ends.schema.names)])
    found = excessive.first(both, now=101.0)
    assert found is not None and found[0] == count


def test_an_input_is_not_refused_for_a_tuple_that_a_client_posted(tmp_path):
    """A feed ends at an error: what it reads is applied whenever that is possible."""
    with Served(PATH, max_rows=10, checkpoint=tmp_path / "state") as served:
        served.post(*[("x", str(number), "a", 1) for number in range(10)])
        assert served.post(("y", "x", "a", 2)).status_code == 507
        assert served.post(*[("x", str(number), "a", 3, "-") for number in range(5)]).status_code == 200
        read: Future = Future()
        served.service.submit(TuplePush(pa.RecordBatch.from_pydict(columns("y", "x", 4)), read, waits_for_storage=True))
        assert read.result(60).tuples == 1 and ("y", "x") in served.answers("a+")


SLOW = {"expression": "a/(b/a)+", "paths": "simple", "window": 100_000, "slide": 100, "name": "hard"}
OTHER = {"expression": "a", "window": 100_000, "slide": 100, "name": "other"}


def hard_edges() -> list[tuple[str, str, str, int]]:
    """Return edges of which the last thousand take minutes each in the query `SLOW`, and some before them a second."""
    chosen = random.Random(1)
    return [(f"v{chosen.randrange(200)}", f"v{chosen.randrange(200)}", chosen.choice("ab"), i) for i in range(1600)]


def pairs(edges: list[tuple[str, str, str, int]]) -> set[tuple[str, str]]:
    return {(source, target) for source, target, label, _ in edges if label == "a"}


@contextmanager
def busy(served: Served) -> Iterator[Future]:
    """Post edges that keep the engine busy in another thread. Yield the response once the engine has been so for a while."""
    with ThreadPoolExecutor(1) as pool:
        response = pool.submit(served.post, *hard_edges())
        while served.service.busy_seconds < 1:
            time.sleep(0.05)
        yield response


@pytest.mark.ci
def test_tuple_that_takes_too_long_is_refused_and_the_server_answers_meanwhile(tmp_path):
    with Served(SLOW, OTHER, push_limit=1.0, checkpoint=tmp_path / "state") as served:
        with busy(served) as response:
            while not response.done():
                began = time.monotonic()
                assert "rpq_busy_seconds" in served.client.get("/metrics").text
                listed = served.client.get("/queries").json()["queries"]
                assert [query["name"] for query in listed] == ["hard", "other"]
                assert served.client.get("/healthz").status_code == 200
                assert time.monotonic() - began < 10
                time.sleep(0.2)
        refused = response.result()
        error = refused.json()["error"]
        assert refused.status_code == 507 and error["type"] == "PushLimitError" and error["query"] == "hard"
        assert error["applied"] > 100 and f"tuple {error['applied']} " in error["message"], error
        assert served.answers("other") == pairs(hard_edges()[: error["applied"]])
        assert served.post(("x", "y", "a", 1600)).status_code == 200 and ("x", "y") in served.answers("other")
        again = served.post(hard_edges()[error["applied"]])
        assert again.status_code == 507 and "retry-after" in again.headers


@pytest.mark.ci
def test_drop_of_a_query_interrupts_its_tuple_which_is_applied_without_it(tmp_path):
    with Served(SLOW, OTHER, checkpoint=tmp_path / "state") as served:
        with busy(served) as response:
            while served.client.get("/readyz").status_code == 200:
                time.sleep(0.2)
            assert served.client.delete("/queries/hard").status_code == 204
        assert response.result().status_code == 200 and response.result().json()["tuples"] == 1600
        assert served.answers("other") == pairs(hard_edges()) and served.of("hard").status_code == 404
        assert served.client.get("/readyz").status_code == 200
    with Served(checkpoint=tmp_path / "state") as served:
        assert [query["name"] for query in served.client.get("/queries").json()["queries"]] == ["other"]
        assert served.answers("other") == pairs(hard_edges())


@pytest.mark.ci
def test_signal_ends_a_busy_server_and_what_was_acknowledged_remains(tmp_path):
    with Served(SLOW, OTHER, checkpoint=tmp_path / "state") as served:
        served.post(("x", "y", "a", 0))
        with busy(served) as response:
            began = time.monotonic()
            served.stop()
            assert time.monotonic() - began < 40
            assert response.result().status_code == 503 and response.result().json()["error"]["applied"] > 100
    with Served(checkpoint=tmp_path / "state") as served:
        assert ("x", "y") in served.answers("other")


def test_a_client_cannot_raise_the_budget_of_simple_paths():
    with Served(PATH) as served:
        refused = served.register(**SLOW | {"simple_budget": 10_000_001})
        assert refused.status_code == 422 and "simple_budget" in refused.json()["error"]["message"]
        assert served.register(**PATH | {"name": "b", "simple_budget": 10}).status_code == 201


def test_a_query_that_would_begin_with_too_many_rows_is_refused_and_nothing_else():
    with Served(PATH, max_rows=10) as served:
        for number in range(20):
            served.post(("x", str(number), "a", 1))
        refused = served.register("a", window=100, slide=10, name="other")
        assert refused.status_code == 507 and refused.json()["error"]["type"] == "RowLimitError"
        assert served.post(("y", "z", "a", 2)).status_code == 200


def test_a_search_that_takes_more_than_its_budget_is_told_and_applied():
    hard = {"expression": "(a/b)*/c", "window": 1000, "slide": 10, "paths": "simple", "simple_budget": 1, "name": "hard"}
    with Served(hard) as served:
        edges = [(f"{x}", f"{y}", label, 1) for label in "abc" for x in range(6) for y in range(6) if x != y]
        response = served.post(*edges)
        assert response.status_code == 200 and response.json()["tuples"] == len(edges)
        assert any("set aside" in warning for warning in response.json().get("warnings", [])), response.json()


def test_a_search_that_takes_more_than_its_budget_is_logged_for_a_file(tmp_path, caplog):
    hard = {"expression": "(a/b)*/c", "window": 1000, "slide": 10, "paths": "simple", "simple_budget": 1, "name": "hard"}
    path = tmp_path / "edges.txt"
    edges = [(x, y, label) for label in "abc" for x in range(6) for y in range(6) if x != y]
    path.write_text("".join(f"v{x} v{y} {label} 1\n" for x, y, label in edges))
    with Served(hard) as served:
        feed = FileFeed(served.service, open_reader("edges", path), Playback(speed=None, time_unit=None))
        feed.start()
        assert feed.has_ended.wait(60)
        feed.stop()
        assert feed.error is None and served.service.engine.set_aside("hard")
    assert any("set aside" in record.getMessage() for record in caplog.records)


# --- queries that take long ------------------------------------------------------------------------------------------

HARD = "/".join(f"l{number}" for number in range(1900))
"""Takes a quarter of a minute to be compiled."""


def test_a_long_query_has_no_picture_and_is_explained_soon():
    with Served(PATH) as served:
        found = served.client.post("/check", json={"expression": "/".join("ab" * 150), "window": 10}, timeout=60)
        assert found.status_code == 200 and found.json()["svg"] is None and "301 states" in found.json()["text"]


@pytest.fixture(scope="module")
def short_of_time() -> Iterator[Served]:
    with Served(PATH, limits=ServeLimits(check_seconds=0.5, expression_bytes=20_000)) as served:
        assert served.client.post("/check", json={"expression": "a", "window": 10}).status_code == 200  # it has started
        yield served


def test_a_query_that_takes_too_long_is_refused_and_others_go_on(short_of_time):
    served = short_of_time
    hard = threading.Thread(target=lambda: found.append(Talk(served.url).client.post("/queries", json=fields)))
    found: list[httpx.Response] = []
    fields = {"expression": HARD, "window": 10, "slide": 1}
    began = time.monotonic()
    hard.start()
    answers = 0
    while hard.is_alive():
        assert served.of("a+", "answers").status_code == 200
        answers += hard.is_alive()
        time.sleep(0.05)
    assert answers and time.monotonic() - began >= 0.5
    error = found[0].json()["error"]
    assert found[0].status_code == 422 and error["type"] == "QueryTooLarge" and "0.5 seconds" in error["message"], error
    again = served.client.post("/check", json={"expression": "a/b", "window": 10})  # it starts another process
    assert again.status_code == 200 and "<svg" in again.json()["svg"]


@pytest.mark.parametrize("path", ["/check", "/queries"])
def test_a_query_that_is_too_long_is_refused(short_of_time, path):
    expression = "|".join(f"l{number}" for number in range(4000))
    refused = short_of_time.client.post(path, json={"expression": expression, "window": 10, "slide": 1})
    error = refused.json()["error"]
    assert refused.status_code == 422 and error["type"] == "QueryTooLarge" and error["field"] == "expression"
    assert "20,000 bytes" in error["message"]


def test_the_work_of_a_check_ends_when_its_client_goes():
    limits = ServeLimits(check_seconds=300.0)
    with Served(PATH, limits=limits) as served:
        with pytest.raises(httpx.ReadTimeout):
            served.client.post("/check", json={"expression": HARD, "window": 10}, timeout=0.3)
        found = served.client.post("/check", json={"expression": "a", "window": 10}, timeout=30)
        assert found.status_code == 200 and found.json()["columns"] == ["source", "target"]


def test_more_checks_than_may_wait_are_refused(monkeypatch):
    monkeypatch.setattr("rpq.serve.query_checks.MAX_WAITING", 0)
    with Served(PATH, limits=ServeLimits(check_seconds=0.5)) as served:
        first = threading.Thread(target=lambda: served.client.post("/check", json={"expression": HARD, "window": 10}))
        first.start()
        end = time.monotonic() + 10
        while not CHECKS._waiting and time.monotonic() < end:
            time.sleep(0.01)
        refused = Talk(served.url).client.post("/check", json={"expression": "a", "window": 10})
        assert refused.status_code == 503 and refused.json()["error"]["type"] == "TooManyChecks"
        first.join()
