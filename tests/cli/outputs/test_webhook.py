"""`--output https://…`: batches reach a real receiver at least once, with the same key and body, whatever fails."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rpq.run import loop, webhook
from tests.cli.test_cli_checkpoint import call_and_die, make_stream, small_steps  # noqa: F401
from tests.services.kafka_topics import edges

PATH = ["a/b*", "--window", "20", "--slide", "3", "--semantics", "explicit"]


class Receiver:
    """A server in a thread, which answers as `script` says, then with 204; it records what it receives, also if it fails.

    An answer is a status, a status with headers, "drop" (close the connection) or "hang" (say nothing until the end).
    """

    def __init__(self) -> None:
        self.script: list[object] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.accepted: list[tuple[str, bytes]] = []
        self.port = 0
        self.start()

    def start(self) -> None:
        receiver, self.released = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                answer = receiver.script.pop(0) if receiver.script else 204
                if answer == "hang":
                    receiver.released.wait(60)
                if isinstance(answer, str):
                    self.close_connection = True
                    return
                status, headers = answer if isinstance(answer, tuple) else (answer, {})
                if status < 300:
                    receiver.accepted.append((self.headers["Idempotency-Key"], body))
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def url(self, login: str = "") -> str:
        return f"http://{login}127.0.0.1:{self.port}/rows?list=1"

    def rows(self) -> list[dict]:
        """The rows of all keys, which must count up and always have the same body, in their order."""
        bodies: dict[str, bytes] = {}
        for _, headers, body in self.requests:
            assert bodies.setdefault(headers["Idempotency-Key"], body) == body
        accepted = {key for key, _ in self.accepted}
        assert accepted == {*bodies} and len({key.partition("-")[0] for key in bodies}) == 1
        assert [int(key.partition("-")[2]) for key in bodies] == [*range(1, len(bodies) + 1)]
        return [row for body in bodies.values() for row in json.loads(body)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.stop()


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The pauses between attempts, which take no time."""
    found: list[float] = []
    monkeypatch.setattr(webhook.WebhookSink, "_pause", lambda self, seconds: found.append(seconds))
    monkeypatch.setattr(webhook, "REQUEST_SECONDS", 0.5)
    return found


@pytest.fixture
def run(rpq, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "FIRST_SLICE", 16)
    make_stream(Path("edges.txt"), 150, seed=3)
    assert rpq("run", *PATH, "--input", "edges.txt", "--output", "whole.jsonl", "--message", "{source} → {target}")[0] == 0
    return lambda *args: rpq("run", *PATH, "--input", "edges.txt", *args)


def whole() -> list[dict]:
    rows = [json.loads(line) for line in Path("whole.jsonl").read_text().splitlines()]
    assert len(rows) > 100
    return rows


def without_messages(rows: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "message"} for row in rows]


def bag(rows: list[dict]) -> Counter:
    return Counter(json.dumps(row) for row in rows)


def test_rows_are_posted_in_order_signed_and_with_the_login(run, receiver, monkeypatch):
    monkeypatch.setenv("RPQ_WEBHOOK_SECRET", "of the environment")
    status, _, err = run("--output", receiver.url("ann:se%40cret@"), "--webhook-batch", 7)
    assert status == 0 and "cret" not in err
    assert receiver.rows() == without_messages(whole())
    assert max(len(json.loads(body)) for _, body in receiver.accepted) == 7
    path, headers, body = receiver.requests[0]
    assert path == "/rows?list=1" and headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == f"Basic {base64.b64encode(b'ann:se@cret').decode()}"
    signature = hmac.new(b"of the environment", body, hashlib.sha256).hexdigest()
    assert headers["X-Hub-Signature-256"] == f"sha256={signature}"


def test_a_template_makes_bodies_of_rows_and_messages(run, receiver):
    Path("secret").write_text("of a file\n")
    template = '{{"text": {messages}, "id": {key}, "rows": {rows}}}'
    options = ["--message", '{source} "→" {target}', "--webhook-body", template, "--webhook-secret", "secret"]
    assert run("--output", receiver.url(), *options)[0] == 0
    bodies = [json.loads(body) for body in dict(receiver.accepted).values()]
    assert [{**row, "message": row["message"].replace('"', "")} for body in bodies for row in body["rows"]] == whole()
    assert [line.replace('"', "") for body in bodies for line in body["text"].split("\n")] == [
        row["message"] for row in whole()
    ]
    assert [body["id"] for body in bodies] == [key for key, _ in receiver.accepted]
    signature = hmac.new(b"of a file", receiver.requests[0][2], hashlib.sha256).hexdigest()
    assert receiver.requests[0][1]["X-Hub-Signature-256"] == f"sha256={signature}"


def test_what_fails_is_sent_again_until_it_is_accepted(run, receiver, pauses):
    receiver.script = [500, "drop", 204, "hang", (429, {"Retry-After": "77"}), (503, {"Retry-After": "soon"}), 204, 502]
    assert run("--output", receiver.url(), "--webhook-batch", 20)[0] == 0
    assert receiver.rows() == without_messages(whole())
    assert len(pauses) == 6 and pauses[3] == 77 and max(pauses[:3]) < 1  # back-off begins anew with each batch
    assert pauses[2] < 0.21 and 0.4 <= pauses[4] <= 1.6


@pytest.mark.parametrize("answer", [404, (302, {"Location": "/elsewhere"})])
def test_a_batch_that_is_refused_ends_the_run_or_is_set_aside(run, receiver, pauses, answer):
    receiver.script = [204, answer]
    status, _, err = run("--output", receiver.url("ann:secret@"), "--checkpoint", "state")
    shown = f"http://127.0.0.1:{receiver.port}/rows?list=1"
    assert status == 1 and f"{shown}: answered {str(answer)[1:4] if isinstance(answer, tuple) else answer} " in err
    assert len(receiver.requests) == 2 and not pauses and "secret" not in err
    receiver.script = [answer]  # of the first batch that is sent again
    assert run("--output", receiver.url("bob:secret@"), "--checkpoint", "state", "--webhook-failed", "failed")[0] == 0
    assert not any(b"secret" in path.read_bytes() for path in Path().iterdir())
    (record,) = [json.loads(line) for line in Path("failed").read_text().splitlines()]
    assert record["url"] == shown and record["reason"].startswith("answered ")
    bodies = {headers["Idempotency-Key"]: body.decode() for _, headers, body in receiver.requests}
    assert record["body"] == bodies[record["key"]]
    assert [row for body in bodies.values() for row in json.loads(body)] == without_messages(whole())
    assert {*bodies} == {key for key, _ in receiver.accepted} | {record["key"]}


def test_a_receiver_that_stays_away_ends_the_run_which_continues_when_it_is_back(run, receiver):
    arguments = ["--output", receiver.url(), "--checkpoint", "state", "--webhook-give-up", "300ms"]
    receiver.script = [204, 204, *[503] * 99]
    status, _, err = run(*arguments)
    assert status == 1 and "does not accept a batch within 0.3 seconds: answered 503 Service Unavailable" in err
    receiver.stop()
    status, _, err = run(*arguments)
    assert status == 1 and "within 0.3 seconds: ConnectionRefusedError" in err
    receiver.script = []
    receiver.start()
    assert run(*arguments)[0] == 0
    assert bag(receiver.rows()) == bag(without_messages(whole()))
    assert "another run: --webhook-body was not given" in run(*arguments, "--webhook-body", "{rows}")[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of this process")
@pytest.mark.usefixtures("small_steps")
def test_a_run_and_a_receiver_that_are_killed_lose_no_batch_and_change_none(run, receiver, monkeypatch):
    monkeypatch.setattr(webhook, "FIRST_WAIT", 0.01)
    arguments = ["run", *PATH, "--input", "edges.txt", "--checkpoint", "state", "--quiet"]
    arguments += ["--output", receiver.url(), "--webhook-batch", "5"]
    chance, deaths = random.Random(4), 0
    while True:
        receiver.script = [chance.choice([204, 204, 500, "drop"]) for _ in range(40)]
        back = threading.Timer(0.3, receiver.start)
        if deaths % 2:
            receiver.stop()
            back.start()
        is_killed = call_and_die(arguments, at_event=chance.randint(12, 45))
        if deaths % 2:
            back.join()
        if not is_killed:
            break
        deaths += 1
    assert deaths >= 3 and len(receiver.accepted) > len({key for key, _ in receiver.accepted})
    wanted = without_messages(whole())
    assert bag(receiver.rows()) == bag(wanted)
    assert [row["timestamp"] for row in receiver.rows()] == [row["timestamp"] for row in wanted]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of this process")
def test_a_run_over_topics_that_is_killed_loses_no_batch_and_changes_none(kafka, receiver, rpq, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    topic, stream = kafka.new(), edges(600)
    arguments = ["run", *PATH, "--input", kafka.uri(topic), "--until-end", "--quiet", "--checkpoint"]
    posted = [*arguments, "state", "--output", receiver.url(), "--webhook-batch", "7"]
    for part in (stream[:300], stream[300:]):
        kafka.send(topic, part)
        assert sum(call_and_die(posted, at_event) for at_event in (25, 40, 60)) >= 2
    assert rpq(*posted)[0] == 0
    assert rpq(*arguments, "other", "--output", "whole.jsonl")[0] == 0
    assert len(receiver.accepted) > len({key for key, _ in receiver.accepted})
    assert bag(receiver.rows()) == bag(whole())


def test_each_query_of_a_file_may_have_a_webhook(run, receiver, rpq):
    outputs = {"one": receiver.url(), "two": receiver.url().replace("rows", "others"), "too": receiver.url()}
    text = "".join(f"[[query]]\nname = '{name}'\nquery = 'a'\noutput = '{url}'\n" for name, url in outputs.items())
    Path("queries.toml").write_text(text)
    assert rpq("run", "--queries", "queries.toml", *PATH[1:], "--input", "edges.txt")[0] == 0
    names = {(path, row["query"]) for path, _, body in receiver.requests for row in json.loads(body)}
    assert names == {("/rows?list=1", "one"), ("/rows?list=1", "too"), ("/others?list=1", "two")}
    assert len({key for key, _ in receiver.accepted}) == len(receiver.accepted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "http://ann:secret@/rows"], "http:///rows: is not the URL of a webhook; expected https://HOST"),
        (["--output", "https://ann:secret@host:x/rows"], "https://host:x/rows: is not the URL of a webhook"),
        (["--output", "rows.csv", "--webhook-batch", "9"], "--webhook-batch applies to webhooks; it needs"),
        (["--output", "https://host", "--webhook-body", "{row}"], "--webhook-body: there is no column 'row'"),
        (["--output", "https://host", "--webhook-body", "{messages}"], "--webhook-body: {messages} needs --message"),
        (["--output", "https://host", "--webhook-secret", "none"], "--webhook-secret none: cannot be read: No such file"),
        (["--output", "https://host", "--jobs", "2"], "--jobs writes rows to files, part by part"),
        (["--output", "https://host", "--late", "late.csv"], "--late late.csv: https://host receives batches with keys"),
        (["--output", "https://host", "--webhook-failed", "edges.txt"], "edges.txt"),
    ],
)
def test_what_a_webhook_cannot_serve_is_refused_by_name(run, options, message):
    status, _, err = run(*options)
    assert status == 2 and message in err and "secret@" not in err
