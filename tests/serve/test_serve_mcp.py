"""`rpq mcp`: what agents can do with a running server, by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rpq.serve.operations import Admission
from tests.services.served import ROOT, Command, Served

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ResourceUpdatedNotification

from rpq.serve import mcp_server
from rpq.serve.mcp_server import AgentServer

READING = ["list_queries", "check_query", "explain_query", "read_answers", "explain_answer", "find_pairs", "find_path"]
PATH = {"expression": "a/b*", "window": 100, "slide": 10, "semantics": "explicit"}
URI = "rpq://queries/a%2Fb%2A/answers"


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(PATH) as server:
        yield server


async def call(client: Client, tool: str, **fields: Any) -> Any:
    """Call a tool that succeeds; return what it says."""
    result = await client.call_tool(tool, fields)
    assert not result.is_error, result
    return json.loads(result.content[0].text)


async def refused(client: Client, tool: str, **fields: Any) -> str:
    result = await client.call_tool(tool, fields)
    assert result.is_error, result
    return result.content[0].text


def test_only_an_agent_that_may_write_has_the_tools_that_change_something(served):
    async def main():
        async with Client(AgentServer(served.url).server) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == READING and all(tool.annotations.read_only_hint for tool in tools)
            with pytest.raises(MCPError, match="there is no tool 'drop_query'"):
                await client.call_tool("drop_query", {"name": "a/b*"})
        async with Client(AgentServer(served.url, may_write=True).server) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == [*READING, "register_query", "drop_query"]
            assert [tool.name for tool in tools if tool.annotations.destructive_hint] == ["drop_query"]

    asyncio.run(main())
    assert served.of("a/b*").status_code == 200


def test_a_query_is_checked_registered_read_explained_and_dropped(monkeypatch):
    monkeypatch.setattr(mcp_server, "ROWS", 2)

    async def main():
        async with Client(AgentServer(served.url, may_write=True).server) as client:
            query = {"expression": "a/b*", "window": 100, "name": "reach"}
            checked = await call(client, "check_query", **query)
            assert checked["columns"] == ["source", "target"] and "Label a" in checked["text"] and "svg" not in checked
            assert (await call(client, "list_queries"))["queries"] == []
            assert (await call(client, "register_query", **query))["name"] == "reach"
            served.post(("x", "y", "a", 1), ("y", "z", "b", 2), ("z", "w", "b", 3))
            assert [one["answers"] for one in (await call(client, "list_queries"))["queries"]] == [3]

            first = await call(client, "read_answers", name="reach")
            rest = await call(client, "read_answers", name="reach", after=first["cursor"], source=None)
            assert (len(first["rows"]), first["total"], rest["cursor"]) == (2, 3, None)
            assert sorted(first["rows"] + rest["rows"]) == [["x", "w"], ["x", "y"], ["x", "z"]]
            assert len((await call(client, "read_answers", name="reach", limit=3))["rows"]) == 3
            why = await call(client, "explain_answer", name="reach", value=["x", "z"])
            assert [(edge["source"], edge["label"]) for edge in why["edges"]] == [("x", "a"), ("y", "b")]
            assert "minimal automaton" in (await call(client, "explain_query", name="reach"))["text"]

            found = await call(client, "find_pairs", expression="a/b*", source="x", witness=True)
            assert (len(found["pairs"]), found["is_cut"], len(found["paths"])) == (2, True, 2)
            path = await call(client, "find_path", expression="b+", source="y", target="w")
            assert [edge["target"] for edge in path["path"]] == ["z", "w"]
            await call(client, "drop_query", name="reach")
            assert (await client.list_resources()).resources == []

    with Served() as served:
        asyncio.run(main())


def test_an_agent_reads_the_errors_of_the_server(served):
    async def main():
        async with Client(AgentServer(served.url, may_write=True).server) as client:
            query = {"expression": "a/b||c", "window": 10}
            for tool, method, path, fields in (
                ("check_query", "POST", "/check", query),
                ("register_query", "POST", "/queries", query | {"wndow": 10}),
                ("find_pairs", "POST", "/find", {"expression": "a+", "source": ["x"], "max_edges": 0, "limit": 100}),
            ):
                assert await refused(client, tool, **fields) == served.client.request(method, path, json=fields).text
            assert await refused(client, "read_answers", name="none/such") == served.of("none/such", "answers").text
            no_answer = served.of("a/b*", "witness", value=["p", "q"]).text
            assert await refused(client, "explain_answer", name="a/b*", value=["p", "q"]) == no_answer
            assert "expected /queries/NAME" in await refused(client, "explain_query")

    asyncio.run(main())


def test_a_token_is_sent_and_a_server_that_is_not_there_is_named():
    async def main(token: str | None) -> list[str]:
        async with Client(AgentServer(served.url, token=token).server) as client:
            called = [await client.call_tool(*one) for one in (("list_queries", {}), ("check_query", {"expression": "a"}))]
            return [result.content[0].text for result in called]

    with Served(admission=Admission(tokens={"sésame": frozenset({"read"})})) as served:
        listed, checked = asyncio.run(main("sésame"))
        assert json.loads(listed) == {"queries": []} and "it takes one with the role register" in checked
        assert all("Authorization: Bearer TOKEN" in one for one in asyncio.run(main(None)))
    assert all(f"rpq serve does not respond at {served.url}" in one for one in asyncio.run(main("sésame")))


class Notified:
    """A client that subscribes to the answers of the query, in one of the two ways of the protocol."""

    def __init__(self, served: Served, mode: str) -> None:
        self._updates: asyncio.Queue[str] = asyncio.Queue()
        self.client = Client(AgentServer(served.url).server, mode=mode, message_handler=self._note)
        self._is_old = mode == "legacy"

    async def _note(self, message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            self._updates.put_nowait(message.params.uri)

    async def subscribe(self, uri: str) -> None:
        if self._is_old:
            with warnings.catch_warnings(action="ignore"):
                await self.client.subscribe_resource(uri)
        else:
            self._listening = self.client.listen(resource_subscriptions=[uri])
            await self._listening.__aenter__()

    async def unsubscribe(self, uri: str) -> None:
        if self._is_old:
            with warnings.catch_warnings(action="ignore"):
                await self.client.unsubscribe_resource(uri)
        else:
            await self._listening.__aexit__(None, None, None)

    async def next(self) -> str:
        return await asyncio.wait_for(self._updates.get(), 60)

    @property
    def waiting(self) -> int:
        """The number of notifications that nobody has read."""
        return self._updates.qsize()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_subscriber_is_notified_of_changes_until_it_unsubscribes(served, monkeypatch, mode):
    monkeypatch.setattr(mcp_server, "NOTIFY_SECONDS", 0.01)

    async def main():
        notified = Notified(served, mode)
        async with notified.client as client:
            assert [one.uri for one in (await client.list_resources()).resources] == [URI]
            with pytest.raises(MCPError, match="there is no query named 'b'"):
                await notified.subscribe("rpq://queries/b/answers")
            with pytest.raises(MCPError, match="expected rpq://queries/NAME/answers"):
                await notified.subscribe("file:///etc/passwd")
            await notified.subscribe(URI)
            for end, op in (("y", "+"), ("z", "+"), ("z", "-")):
                served.post(("x", end, "a", 1, op))
                assert await notified.next() == URI
            (content,) = (await client.read_resource(URI)).contents
            assert json.loads(content.text)["rows"] == [["x", "y"]]
            served.client.delete("/queries/a%2Fb%2A")
            assert await notified.next() == URI
            assert served.register(**PATH, start="empty").status_code == 201
            assert await notified.next() == URI  # the follower goes on with the new query
            await notified.unsubscribe(URI)
            await until(lambda: not served.service.hub.followers)
            served.post(("x", "w", "a", 2))
            assert served.answers("a/b*") and notified.waiting == 0

    asyncio.run(main())


async def until(holds: Any) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def test_changes_in_quick_succession_are_one_notification(served, monkeypatch):
    monkeypatch.setattr(mcp_server, "NOTIFY_SECONDS", 3600)

    async def main():
        notified = Notified(served, "auto")
        async with notified.client as client:
            await notified.subscribe(URI)
            served.post(("x", "y", "a", 1))
            await notified.next()
            with served.follow() as events:
                for number in range(20):
                    served.post(("x", f"z{number}", "a", 1))
                events.rows(20)
            await client.read_resource(URI)
            assert notified.waiting == 0
            await notified.unsubscribe(URI)

    asyncio.run(main())


@pytest.mark.ci
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_command_serves_a_client_over_a_running_server(tmp_path: Path, mode: str) -> None:
    async def main():
        environment = {**os.environ, "RPQ_TOKEN": "secret"}
        arguments = ["-m", "rpq.cli", "mcp", served.url]
        program = StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT, env=environment)
        notified = Notified(served, mode)
        notified.client = Client(program, mode=mode, message_handler=notified._note)
        async with notified.client as client:
            assert client.server_info.name == "rpq" and "Path expressions" in client.instructions
            served.post(("x", "y", "a", 1))
            assert (await call(client, "read_answers", name="a/b*"))["rows"] == [["x", "y"]]
            await notified.subscribe(URI)
            served.post(("x", "z", "a", 2))
            assert await notified.next() == URI

    arguments = ("a/b*", "--window", 100, "--token", "secret")
    with Command(*arguments, log=tmp_path / "log", headers={"authorization": "Bearer secret"}) as served:
        asyncio.run(main())


@pytest.mark.parametrize("url", ["ftp://host/", "127.0.0.1:8000", "http://host:port/", "http://[::1/", "http:///"])
def test_an_address_that_is_none_is_refused(rpq, url):
    status, _, message = rpq("mcp", url)
    assert status == 2 and "expected http://HOST:PORT/" in message


def test_without_its_packages_the_command_says_what_to_install(rpq, monkeypatch):
    monkeypatch.delitem(sys.modules, "rpq.serve.mcp_server")
    monkeypatch.setitem(sys.modules, "mcp", None)
    status, _, message = rpq("mcp")
    assert status == 1 and "rpq mcp needs the extra mcp: pip install" in message
