"""Following changes: what comes, going on after a break, and those who are too slow."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from concurrent.futures import Future
from urllib.parse import urlsplit

import pytest

import rpq
from rpq.serve import changes
from rpq.serve.changes import FEW_ROWS, PART_ROWS, PublishedChanges
from rpq.serve.engine_thread import EngineCall, FollowerQueue
from rpq.serve.models import ServeLimits
from rpq.serve.requests import parse_query
from tests.services.served import Served, arrow

PATH = {"expression": "a+", "window": 1000, "slide": 10, "semantics": "explicit"}
EDGES = {"expression": "b", "window": 1000, "slide": 10, "semantics": "explicit", "name": "edges"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def stars(served: Served, count: int, *, time: int = 1, label: str = "a") -> int:
    """Post so many edges at once, each of which is a change; the position."""
    body = arrow(
        source=["x"] * count, target=[f"{time} {number}" for number in range(count)], label=[label] * count,
        timestamp=[time] * count,
    )  # fmt: skip
    response = served.client.post("/tuples", content=body, headers=ARROW)
    assert response.status_code == 200, response.text
    return response.json()["position"]


# --- what comes ------------------------------------------------------------------------------------------------------


def test_changes_come_with_position_and_time_those_that_leave_too():
    with Served(PATH) as served, served.follow() as events:
        assert served.client.get("/statistics").json()["followers"] == 1
        assert events.next("start") == {"position": 1, "time": None}
        served.post(("x", "y", "a", 1))
        assert events.next("changes") == {
            "position": 2, "time": 1, "changes": [{"query": "a+", "op": "+", "timestamp": 1, "values": ["x", "y"]}],
        }  # fmt: skip
        served.post(("x", "y", "a", 2, "-"), ("p", "q", "a", 5))
        assert events.rows(2) == [("a+", "-", 2, ("x", "y")), ("a+", "+", 5, ("p", "q"))]
        served.post(("p", "q", "c", 2000))
        assert events.rows(1) == [("a+", "-", 1010, ("p", "q"))]


def test_those_who_follow_one_query_have_its_changes_alone_and_its_end():
    with Served(PATH, EDGES) as served, served.follow("edges") as one, served.follow("a+", "edges") as both:
        served.post(("x", "y", "a", 1), ("x", "y", "b", 2), ("y", "z", "b", 3))
        assert [row[0] for row in one.rows(2)] == ["edges", "edges"]
        assert [row[0] for row in both.rows(3)] == ["a+", "edges", "edges"]
        assert served.client.delete("/queries/edges").status_code == 204
        assert one.next("end") == {"reason": "the query 'edges' was dropped"}
        served.post(("y", "q", "a", 4))
        assert len(both.rows(2)) == 2
        missing = served.client.get("/changes?query=edges")
        assert missing.status_code == 404 and missing.json()["error"]["type"] == "NoSuchQuery"


def test_values_that_json_does_not_have_are_text():
    text = "SELECT ?x (AVG(?v) AS ?mean) { ?x <v> ?v } GROUP BY ?x"
    with Served({"expression": text, "window": 100, "slide": 10, "name": "mean"}) as served, served.follow() as events:
        served.post(("x", '"1.5"^^<http://www.w3.org/2001/XMLSchema#decimal>', "v", 1))
        ((_, op, _, values),) = events.rows(1)
        assert (op, values[0]) == ("+", "x") and served.of("mean", "answers").json()["rows"] == [list(values)]


def test_a_query_that_comes_later_tells_its_first_answers():
    with Served(keep=rpq.Window(size=100, slide=1)) as served, served.follow() as events:
        events.next("start")
        served.post(("x", "y", "a", 1))
        served.register("a+", window=100, slide=10, name="late")
        assert events.rows(1) == [("late", "+", 1, ("x", "y"))]


def test_many_changes_of_a_push_come_in_parts_in_the_order_of_time():
    count = 3 * PART_ROWS + 7
    with Served(PATH, EDGES) as served, served.follow() as events:
        events.next("start")
        stars(served, count)
        found = [(events.id, content) for kind, content in (next(iter(events)) for _ in range(4)) if kind == "changes"]
        assert [id.split("-")[0] for id, _ in found] == ["3.1", "3.2", "3.3", "3"]
        assert [len(content["changes"]) for _, content in found] == [1000, 1000, 1000, 7]
        values = [tuple(change["values"]) for _, content in found for change in content["changes"]]
        assert sorted(values) == sorted(("x", f"1 {number}") for number in range(count))


@pytest.mark.parametrize("count", [FEW_ROWS, FEW_ROWS + 1])
def test_rows_are_the_same_one_by_one_and_column_by_column(count):
    window = rpq.Window(size=100, slide=10)
    names = ['say "hi"', "<b>", "a,b\n", "ü", "\\"]
    queries = [rpq.Query("a", window=window, name=name) for name in names[:3]]
    engine = rpq.Engine(*queries, rpq.Query("?x a ?y", window=window))
    edges = [(names[number % 5], f"{number},+", "a", number) for number in range(-(-count // 4))]
    changes = engine.push_rows(edges)
    expected = [(row.query, row.op, row.timestamp, row[1:-2]) for row in changes.rows()]
    found = PublishedChanges(changes, position=1, time=1, run="aa").parts(None)
    sent = [one for part in found for one in json.loads(part.split(b"data: ")[1])["changes"]]
    rows = [(one["query"], one["op"], one["timestamp"], tuple(one["values"])) for one in sent]
    assert sorted(rows) == sorted(expected) and [row[2] for row in rows] == sorted(row[2] for row in rows)
    wanted = frozenset(names[:2])
    some = PublishedChanges(changes, position=1, time=1, run="aa")
    counts = some.rows_of(wanted), some.rows_of(None), some.rows_of(frozenset({"?x a ?y", "unknown"}))
    assert counts == (sum(row[0] in wanted for row in expected), len(expected), sum(row[0] == "?x a ?y" for row in expected))
    names = [one["query"] for part in some.parts(wanted) for one in json.loads(part.split(b"data: ")[1])["changes"]]
    assert sorted(names) == sorted(row[0] for row in expected if row[0] in wanted)


# --- going on --------------------------------------------------------------------------------------------------------


def test_one_who_comes_back_has_what_came_meanwhile():
    with Served(PATH) as served:
        with served.follow() as events:
            events.next("start")
            served.post(("x", "1", "a", 1))
            events.next("changes")
            last = events.id
        for number in (2, 3, 4):
            served.post(("x", str(number), "a", number))
        for given in ({"header": last}, {"after": last}, {"after": last.split("-")[0]}):
            with served.follow(**given) as events:
                assert events.next("start")["position"] == 5
                assert [row[2] for row in events.rows(3)] == [2, 3, 4]
        with served.follow(header=events.id) as events:
            events.next("start")
            served.post(("x", "1", "a", 5, "-"), ("x", "1", "a", 5))
            assert [row[1] for row in events.rows(2)] == ["-", "+"]


def test_one_who_comes_back_in_the_middle_of_a_push_has_the_rest_of_it():
    with Served(PATH) as served:
        with served.follow() as events:
            events.next("start")
            stars(served, 2 * PART_ROWS + 5)
            events.next("changes")
            last, first = events.id, None
        assert last.startswith("2.1-")
        served.post(("y", "z", "a", 2))
        with served.follow(header=last) as events:
            events.next("start")
            second = events.next("changes")
            assert len(second["changes"]) == PART_ROWS and events.id.startswith("2.2-"), first
            assert len(events.rows(5)) == 5
            assert events.rows(1) == [("a+", "+", 2, ("y", "z"))]


def test_what_is_kept_no_more_is_told_as_a_gap():
    with Served(PATH, limits=ServeLimits(history_rows=10)) as served:
        with served.follow() as events:
            events.next("start")
            last = events.id
        for number in range(20):
            served.post(("x", str(number), "a", number))
        with served.follow(header=last) as events:
            events.next("start")
            gap = events.next("gap")
            assert gap["from"] == 1 and gap["to"] == 21 and "read the answers again" in gap["message"]
            answers = served.of("a+", "answers").json()
            assert answers["position"] == gap["to"] and answers["total"] == 20
            served.post(("x", "new", "a", 30))
            assert events.rows(1) == [("a+", "+", 30, ("x", "new"))]
            assert events.id == f"22-{served.service.run}"
        with served.follow(after="12") as events:
            events.next("start")
            assert len(events.rows(10)) == 10
        with served.follow(after="11") as events:
            events.next("start")
            events.next("gap")


def test_positions_of_another_run_are_a_gap():
    with Served(PATH) as served:
        served.post(("x", "y", "a", 1))
        for place in ("2-0000aaaa", "77"):
            with served.follow(after=place) as events:
                events.next("start")
                assert "another run" in events.next("gap")["message"]
        for place in ("x", "-1", "1.2.3", "1-", "9" * 30):
            refused = served.client.get("/changes", params={"after": place})
            assert refused.status_code == 422 and refused.json()["error"]["field"] == "after"


def test_one_who_comes_back_to_a_query_that_was_dropped_and_registered_anew_is_told_a_gap():
    anew = {**EDGES, "expression": "c"}
    with Served(PATH, EDGES, keep=rpq.Window(size=1000, slide=10)) as served:
        position = served.post(("x", "y", "b", 1), ("x", "y", "c", 1)).json()["position"]
        served.client.delete("/queries/edges")
        assert served.register(**anew).status_code == 201
        for queries in (("edges",), ("a+", "edges")):
            with served.follow(*queries, after=str(position)) as events:
                events.next("start")
                message = events.next("gap")["message"]
                assert f"the query 'edges' was dropped at position {position + 1}" in message
                assert served.post(("x", f"new {len(queries)}", "c", 2)).status_code == 200
                assert events.rows(1) == [("edges", "+", 2, ("x", f"new {len(queries)}"))]
        with served.follow("a+", after=str(position)) as events:  # which does not concern them
            events.next("start")
            served.post(("x", "y", "a", 3))
            assert events.rows(1) == [("a+", "+", 3, ("x", "y"))]
        with served.follow("edges", after=str(position + 1)) as events:
            events.next("start")
            assert events.rows(1) == [("edges", "+", 1, ("x", "y"))]


def in_one_batch(served: Served, *calls) -> list[object]:
    """Results of calls that the engine's thread executes together."""
    blocked, ahead = threading.Event(), Future()
    served.service.submit(EngineCall(blocked.wait, ahead))
    waiters: list[Future] = [Future() for _ in calls]
    for call, waiter in zip(calls, waiters):
        served.service.submit(EngineCall(call, waiter, writes=True))
    blocked.set()
    return [waiter.result(600) for waiter in [ahead, *waiters]][1:]


def test_one_who_follows_a_dropped_query_has_nothing_of_another_of_its_name():
    with Served(PATH, EDGES, keep=rpq.Window(size=1000, slide=10)) as served, served.follow("edges") as events:
        events.next("start")
        served.post(("x", "y", "b", 1), ("x", "y", "c", 1))
        assert events.rows(1) == [("edges", "+", 1, ("x", "y"))]
        fields = {**EDGES, "expression": "c"}
        query = parse_query(fields, served.service.defaults)
        in_one_batch(
            served, lambda: served.service.drop("edges"), lambda: served.service.register(fields, query)
        )
        assert events.next("end") == {"reason": "the query 'edges' was dropped"}


def test_one_whose_query_is_dropped_before_the_first_event_is_told_so():
    with Served(PATH, EDGES) as served:
        hub, known_at = served.service.hub, served.service.position
        served.client.delete("/queries/edges")
        until(lambda: hub.position > known_at)
        ended = hub.follow(frozenset({"edges"}), None, known_at=known_at)
        assert str(ended.queue.ended) == "the query 'edges' was dropped"
        both = hub.follow(frozenset({"a+", "edges"}), None, known_at=known_at)
        assert both.queue.ended is None and both.live == {"a+"}
        for follower in (ended, both):
            hub.leave(follower)


def test_one_who_comes_back_after_a_restart_has_the_answers_of_queries_that_it_began_with(tmp_path):
    state = tmp_path / "state"
    with Served(PATH, checkpoint=state) as served:
        served.post(("x", "y", "a", 1))
        with served.follow() as events:
            events.next("start")
            last = events.id
    with Served(PATH, {**PATH, "name": "further"}, checkpoint=state) as served, served.follow(header=last) as events:
        assert events.next("start")["position"] == 3
        assert events.rows(1) == [("further", "+", 1, ("x", "y"))]


def test_one_who_waits_for_long_gets_comments_and_then_the_changes(monkeypatch):
    monkeypatch.setattr(changes, "PING_SECONDS", 0.02)
    with Served(PATH) as served, served.follow() as events:
        events.next("start")
        assert [next(events._lines) for _ in range(4)] == [": ping", "", ": ping", ""]
        served.post(("x", "y", "a", 1))
        assert events.rows(1) == [("a+", "+", 1, ("x", "y"))]


def test_comments_wait_for_none_who_is_behind():
    waiting: FollowerQueue[str] = FollowerQueue(limit=10)
    assert waiting.is_idle
    waiting.put("all at once", 11)
    assert asyncio.run(waiting.get()) == [("all at once", 11)] and not waiting.is_idle  # it is on its way
    waiting.note_sent(11)
    assert waiting.is_idle and waiting.ended is None


# --- too slow --------------------------------------------------------------------------------------------------------


class Stalled:
    """One who follows and reads nothing, with the smallest buffers that there can be."""

    def __init__(self, served: Served) -> None:
        parts = urlsplit(served.url)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect((parts.hostname, parts.port))
        request = f"GET /changes HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n"
        self.socket.sendall(request.encode())

    def rest(self) -> bytes:
        """All that comes until the end of the response; the connection may stay for another request."""
        self.socket.settimeout(30)
        found = b""
        while not found.endswith(b"\r\n0\r\n\r\n") and (part := self.socket.recv(1 << 16)):
            found += part
        return found

    def close(self) -> None:
        self.socket.close()


def until(holds, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_slow_follower_is_dropped_with_the_reason_and_the_others_have_everything(monkeypatch):
    monkeypatch.setattr(changes, "GOODBYE_SECONDS", 600.0)
    names, pushes = 1000, 40
    with Served(PATH, limits=ServeLimits(lag_rows=20_000)) as served:
        stalled = Stalled(served)
        until(lambda: len(served.service.hub.followers) == 1)
        followers = [served.follow() for _ in range(3)]
        found: list[int] = [0] * 3

        def read(number: int) -> None:
            while found[number] < names * pushes:
                found[number] += len(followers[number].rows(1))

        threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        slowest = 0.0
        for push in range(pushes):
            began = time.monotonic()
            stars(served, names, time=push)
            slowest = max(slowest, time.monotonic() - began)
            until(lambda: min(found) > (push - 10) * names, 600)  # these three keep up, if not always at once
        for thread in threads:
            thread.join(600)
        assert found == [names * pushes] * 3
        until(lambda: served.client.get("/statistics").json()["followers_dropped"] == 1)
        end = stalled.rest()
        assert b"event: end" in end and b"it reads too slowly" in end
        stalled.close()
        for follower in followers:
            follower.close()
        until(lambda: not served.service.hub.followers)
        assert slowest < 60  # nobody is waited for


def test_rows_of_other_queries_are_no_lag():
    with Served(PATH, EDGES, limits=ServeLimits(lag_rows=1000)) as served, served.follow("edges") as events:
        events.next("start")
        for push in range(10):
            stars(served, 2000, time=push)
        served.post(("x", "y", "b", 10))
        assert events.rows(1) == [("edges", "+", 10, ("x", "y"))] and served.service.hub.dropped == 0


def test_a_follower_that_never_reads_again_is_let_go_of(monkeypatch):
    monkeypatch.setattr(changes, "GOODBYE_SECONDS", 0.2)
    with Served(PATH, limits=ServeLimits(lag_rows=1000)) as served:
        stalled = Stalled(served)
        until(lambda: len(served.service.hub.followers) == 1)
        for push in range(100):
            stars(served, 1000, time=push)
        until(lambda: not served.service.hub.followers)
        assert served.service.hub.dropped == 1
        stalled.close()


def test_more_followers_than_may_be_are_refused():
    with Served(PATH, limits=ServeLimits(followers=2)) as served, served.follow() as one, served.follow() as two:
        one.next("start"), two.next("start")
        refused = served.client.get("/changes")
        assert refused.status_code == 429 and refused.json()["error"]["type"] == "TooManyFollowers"
        one.close()
        until(lambda: len(served.service.hub.followers) == 1)
        with served.follow() as three:
            three.next("start")


def test_followers_that_come_at_once_are_no_more_than_may_be():
    with Served(PATH, limits=ServeLimits(followers=2)) as served:
        blocked, followers = threading.Event(), []
        served.service.submit(EngineCall(blocked.wait, Future()))
        threads = [threading.Thread(target=lambda: followers.append(served.follow())) for _ in range(5)]
        for thread in threads:
            thread.start()
        until(lambda: served.service._jobs.qsize() == 5)  # all of them have been looked at
        blocked.set()
        for thread in threads:
            thread.join(600)
        assert sorted(one.response.status_code for one in followers) == [200, 200, 429, 429, 429]
        for one in followers:
            one.close()


def test_one_encoding_serves_all_who_follow_the_same(monkeypatch):
    calls = []
    encoded = PublishedChanges._encode
    monkeypatch.setattr(PublishedChanges, "_encode", lambda self, *key: calls.append(key) or encoded(self, *key))
    with Served(PATH, EDGES) as served:
        followers = [served.follow(*(["edges"] if number % 2 else [])) for number in range(10)]
        served.post(("x", "y", "b", 1))
        for follower in followers:
            assert len(follower.rows(1)) == 1
            follower.close()
        assert sorted(calls, key=str) == sorted([(None, None), (frozenset({"edges"}), None)], key=str)


def test_rows_have_the_message_that_a_follower_asks_for() -> None:
    with Served({"expression": "?x a ?y", "window": 100, "slide": 10, "name": "q"}) as served:
        with served.follow("q", message='{y}: "{x}" {op} {{{timestamp}}} {query}') as texts, served.follow("q") as plain:
            for events in (texts, plain):
                events.next("start")
            served.post(("é", 'v"1"', "a", 1), ("u", "w", "a", 2))
            rows = texts.next("changes")["changes"]
            assert [row["message"] for row in rows] == ['v"1": "é" + {1} q', 'w: "u" + {2} q']
            expected = plain.next("changes")["changes"]
            assert [{name: row[name] for name in row if name != "message"} for row in rows] == expected
        served.post(*((f"u{number}", "w", "a", 3) for number in range(100)))  # encoded column by column
        with served.follow("q", after="2", message="{x}") as later:
            later.next("start")
            found = {row["message"] for row in later.next("changes")["changes"]}
            assert found == {f"u{number}" for number in range(100)}
        for queries, text, reason in (
            ((), "{x}", "expected \\?query= with the name of one"),
            (("q",), "{z}", "there is no column 'z'; the columns of the rows are query, x, y, timestamp, op"),
            (("q",), "{x", "expected '}'"),
            (("q",), 1001 * "x", "has 1,001 characters; expected at most 1,000"),
        ):
            parameters = {"query": queries, "message": text}
            refused = served.client.get("/changes", params=parameters)
            assert refused.status_code == 422 and re.search(reason, refused.text) and '"field":"message"' in refused.text
