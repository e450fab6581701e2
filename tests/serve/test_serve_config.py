"""`rpq serve --config FILE`, what a server reads again at SIGHUP, and its log."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest

from rpq.serve.command import serve
from rpq.serve.logs import JsonLines
from rpq.serve.operations import Admission, parse_tokens
from tests.services.served import NOT_RELOADED, RELOADED, Command, Served

OPTIONS = [one for one in serve.params if isinstance(one, click.Option) and one.name != "config"]


def options_of(*arguments: object) -> dict[str, Any]:
    """The options of the command for these arguments."""
    return serve.make_context("serve", [*map(str, arguments)]).params


def other_values(option: click.Option) -> Iterator[str]:
    """Values of an option, of which one at least is valid and not the default."""
    yield from option.type.choices if isinstance(option.type, click.Choice) else ()
    yield from ("7", "x=y", "%Y")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda one: one.opts[0])
def test_every_option_can_be_in_the_file(option, tmp_path, monkeypatch):
    monkeypatch.delenv("RPQ_TOKEN", raising=False)
    file, flag, before = tmp_path / "server.toml", option.opts[0], options_of()
    for value in other_values(option):
        try:
            expected = options_of(flag, *[value] * (not option.is_flag))
        except click.BadParameter:
            continue
        if expected != before:
            break
    else:
        pytest.fail(f"{flag}: no value is known to be valid")
    content = True if option.is_flag else [value] if option.multiple else value
    file.write_text(f"{flag[2:]} = {json.dumps(content)}")
    assert options_of("--config", file) == expected
    if not option.is_flag and value.isdecimal():
        file.write_text(f"{flag[2:]} = {f'[{value}]' if option.multiple else value}")
        assert options_of("--config", file) == expected


def test_the_command_line_comes_before_the_file(tmp_path, monkeypatch):
    file = tmp_path / "server.toml"
    file.write_text('port = 1\nmax-rows = 10\ntoken = ["read=a", "b"]\n')
    monkeypatch.delenv("RPQ_TOKEN", raising=False)
    found = options_of("--config", file, "--port", 2)
    assert (found["port"], found["max_rows"], found["tokens"]) == (2, 10, ("read=a", "b"))
    monkeypatch.setenv("RPQ_TOKEN", "c")
    assert options_of("--config", file)["tokens"] == ("c",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("max_rows = 10", "field max_rows: is not an option of rpq serve; did you mean 'max-rows'?"),
        ('config = "other.toml"', "field config: is not an option of rpq serve"),
        ("[tls]\ncert = 1", "field tls: is not an option of rpq serve"),
        ('port = "http"', "field port: 'http' is not a valid integer range."),
        ("port = 1.5", "field port: '1.5' is not a valid integer range."),
        ("port = true", "field port: expected a text or a number"),
        ('open = "yes"', "field open: expected true or false"),
        ('token = "t"', "field token: expected an array of texts or numbers"),
        ('host = ["x"]', "field host: expected a text or a number"),
        ('param = ["x"]', "field param: expected NAME=VALUE, such as min=3 or user=alice, not 'x'"),
        ('idle-timeout = "soon"', "field idle-timeout: 'soon' is not a duration; expected one such as 5s, 200ms or 1m"),
        ("port = ", ": is not TOML: "),
    ],
)
def test_a_file_that_is_wrong_is_a_usage_error(rpq, tmp_path, content, message):
    file = tmp_path / "server.toml"
    file.write_text(content)
    code, _, stderr = rpq("serve", "--config", file)
    assert code == 2 and f"{file}" in stderr and message in stderr, stderr
    code, _, stderr = rpq("serve", "--config", tmp_path / "nothing.toml")
    assert code == 2 and "nothing.toml: cannot be read: No such file" in stderr


# --- SIGHUP ----------------------------------------------------------------------------------------------------------


def query(name: str, text: str = "a+", window: int = 100) -> str:
    """A query in a file of queries."""
    return f'[[query]]\nname = "{name}"\nquery = "{text}"\nwindow = {window}\nslide = 1\nsemantics = "explicit"\n'


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """A folder with the options of a server and its queries: q is to change, r to go, s to stay."""
    monkeypatch.delenv("RPQ_TOKEN", raising=False)
    (tmp_path / "queries.toml").write_text(query("q") + query("r", "b+") + query("s", "a"))
    texts = {name: json.dumps(str(tmp_path / name)) for name in ("queries.toml", "state")}
    (tmp_path / "server.toml").write_text(
        f'token = ["old"]\nqueries = {texts["queries.toml"]}\ncheckpoint = {texts["state"]}\n'
    )
    return tmp_path


def names_of(served: Command) -> dict[str, str]:
    return {one["name"]: one["expression"] for one in served.client.get("/queries").json()["queries"]}


@pytest.mark.ci
def test_tokens_and_queries_are_reloaded_and_a_restart_has_them(files):
    options, queries = files / "server.toml", files / "queries.toml"
    with Command("--config", options, log=files / "log", headers=bearer("old")) as served:
        served.post(("x", "y", "a", 1), ("y", "z", "b", 2))
        served.register("b", name="posted", window=10, slide=1)
        events = served.follow()
        events.next("start")
        options.write_text(options.read_text().replace("old", "new") + "max-body = 1000\n")
        queries.write_text(query("q", "a/b") + query("s", "a") + query("t", "b"))
        served.reload(RELOADED)
        assert served.client.get("/queries").status_code == 401
        served.client.headers.update(bearer("new"))
        now = {"q": "a/b", "s": "a", "t": "b", "posted": "b"}
        assert names_of(served) == now and served.answers("q") == {("x", "z")} and served.answers("t") == {("y", "z")}
        rows = [(row["query"], *row["values"]) for _, content in zip("12", events) for row in content[1].get("changes", ())]
        assert rows == [("t", "y", "z"), ("q", "x", "z")]  # the connection, which had the old token, stays
        events.close()
        log = (files / "log").read_text()
        assert "--max-body: another value takes effect when the server is restarted" in log
        lines = [f"INFO {what} by a reload: done" for what in ("drop 'q'", "drop 'r'", "register 'q'", "register 't'")]
        assert re.findall("INFO .* by a reload.*", log) == lines
        served.kill()
    with Command("--config", options, log=files / "log", headers=bearer("new")) as served:
        assert names_of(served) == now and served.answers("q") == {("x", "z")}
        assert served.end() == 0


WRONG = [
    ("server.toml", 'token = ["new"', "is not TOML"),
    ("server.toml", 'token = [" "]', "--token: is empty"),
    ("server.toml", 'tls-cert = "no.pem"\ntls-key = "no.key"', "no.pem: cannot be read"),
    ("queries.toml", query("q", "a||"), "unexpected"),
    ("queries.toml", query("t") + query("posted", "c"), "there is a query named 'posted' already"),
    ("queries.toml", query("t") + query("u", "a", 2**63 - 1), "exceed 64 bits"),  # the engine refuses the second one
]


@pytest.mark.ci
def test_a_wrong_file_changes_nothing(files):
    with Command("--config", files / "server.toml", log=files / "log", headers=bearer("old")) as served:
        served.post(("x", "y", "a", 1))
        served.register("b", name="posted", window=10, slide=1)
        before = names_of(served)
        options = (files / "server.toml").read_text().partition("\n")[2]
        for file, content, message in WRONG:
            (files / "server.toml").write_text(f'token = ["new"]\n{options}')
            (files / file).write_text(content + f"\n{options}" * (file == "server.toml"))
            served.reload(NOT_RELOADED)
            assert message in (files / "log").read_text().rpartition(NOT_RELOADED)[2]
            assert names_of(served) == before
        assert served.end() == 0


@pytest.mark.ci
def test_a_query_that_a_client_has_replaced_is_not_dropped(files):
    with Command("--config", files / "server.toml", log=files / "log", headers=bearer("old")) as served:
        for name in ("q", "r"):
            served.client.delete(f"/queries/{name}")
        served.register("c", name="q", window=10, slide=1)
        (files / "queries.toml").write_text(query("r", "b+"))
        served.reload(RELOADED)
        assert names_of(served) == {"q": "c", "r": "b+"}
        assert served.end() == 0


# --- the log ---------------------------------------------------------------------------------------------------------


def test_each_response_has_the_id_of_its_request():
    with Served(admission=Admission(tokens=parse_tokens(["read=r"])), headers={"authorization": "Bearer r"}) as served:
        for given in ("a-1.b:2/c", "x" * 128):
            assert served.client.get("/queries", headers={"x-request-id": given}).headers["x-request-id"] == given
        found = [served.client.get("/queries", headers=headers) for headers in ({}, {"x-request-id": "a b"})]
        found += [served.client.get("/nothing"), served.client.get("/queries", headers={"authorization": "Bearer w"})]
        assert [one.status_code for one in found] == [200, 200, 404, 401]
        ids = {one.headers["x-request-id"] for one in found}
        assert len(ids) == 4 and all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)


def test_an_exception_is_a_field_of_its_line():
    try:
        raise KeyError("x")
    except KeyError:
        record = logging.LogRecord("rpq.serve", logging.ERROR, "", 1, "%s failed", ("that",), sys.exc_info())
    (line,) = JsonLines().format(record).splitlines()
    found = json.loads(line)
    assert datetime.fromisoformat(found["time"]).utcoffset() is not None
    assert found["exception"].startswith("Traceback") and found["exception"].endswith("KeyError: 'x'")
    rest = {name: found[name] for name in found if name not in ("time", "exception")}
    assert rest == {"level": "error", "logger": "rpq.serve", "message": "that failed", "request_id": None}


REGISTERED = [
    ("register", "near", "anyone", "done"),
    ("register", "near", "anyone", "409 NameTaken"),
    ("register", None, "anyone", "422 ExpressionError"),
    ("drop", "near", "anyone", "done"),
    ("drop", "near", "anyone", "404 NoSuchQuery"),
]


def register_and_drop(served: Command) -> None:
    """Send the requests that the log has as `REGISTERED`, whose ids are `a`, `b`, …"""
    for request_id, (action, query, _, outcome) in zip("abcde", REGISTERED, strict=True):
        served.client.headers["x-request-id"] = request_id
        if action == "register":
            found = served.register("a+" if query else "a||", name="near", window=10, slide=1)
        else:
            found = served.client.delete(f"/queries/{query}")
        assert found.is_success is (outcome == "done")


@pytest.mark.ci
def test_the_log_is_in_json_with_who_changes_queries(tmp_path):
    with Command("--log", "json", "--quiet", log=tmp_path / "log") as served:
        register_and_drop(served)
        assert served.end() == 0
    found = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert found[0]["message"].startswith("serving at http://") and found[0]["logger"] == "rpq.serve.lifecycle"
    audit = [one for one in found if one["logger"] == "rpq.serve.audit"]
    assert [(one["action"], one["query"], one["by"], one["outcome"]) for one in audit] == REGISTERED
    assert "".join(one["request_id"] for one in audit) == "abcde"


@pytest.mark.ci
def test_a_log_for_people_has_who_changes_queries(tmp_path):
    with Command("--token", "read,register=t", log=tmp_path / "log", headers={"authorization": "Bearer t"}) as served:
        register_and_drop(served)
        assert served.end() == 0
    found = [line.split(" ", 1)[1] for line in (tmp_path / "log").read_text().splitlines() if "request" in line]
    who = "a token for read,register"
    assert found == [
        f"INFO {action} {query!r} by {who}, request {request_id}: {outcome}"
        for request_id, (action, query, _, outcome) in zip("abcde", REGISTERED, strict=True)
    ]


def test_a_token_without_the_role_to_register_is_in_the_log(caplog):
    tokens = parse_tokens(["read=r"])
    with Served(admission=Admission(tokens=tokens), headers={"authorization": "Bearer r"}) as served:
        assert served.client.delete("/queries/a%2Fb").status_code == 403
    assert "drop 'a/b' by a token for read, request " in caplog.text and ": 403 RoleMissing" in caplog.text
