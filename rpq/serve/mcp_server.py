"""A server of the Model Context Protocol (MCP), by which agents use a running `rpq serve` (extra `mcp`).

A tool is a request to the HTTP server: its input has the fields of the request, from the same models, and is checked there,
so that an agent reads the errors that every client gets.  The answers of a query are also a resource; while a client
subscribes to it, a follower of `/changes` notifies the client.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import httpx2
import mcp_types as types
import msgspec
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from rpq import __version__
from rpq.serve import models

Context = ServerRequestContext[None, Any]

ROWS = 100
"""The number of rows that a tool returns by default: as many as the server returns would fill the context of an agent."""

NOTIFY_SECONDS = 1.0
"""The time between two notifications of a resource, and until a follower whose connection broke connects again."""

TIMEOUT = httpx2.Timeout(120.0, connect=10.0)
"""The first query of a kind waits for its kernels; followers receive a comment every 15 seconds."""

INSTRUCTIONS = """\
Persistent queries over a graph that arrives as a stream of edges (source, target, label, timestamp). A registered query is
kept up to date over a sliding window of time: read_answers returns its answers, explain_answer the edges behind one of them,
and subscribers of rpq://queries/NAME/answers are notified of changes. find_pairs and find_path search the edges once.

Path expressions over labels of edges: a/b (a, then b), a|b, a* a+ a? a{1,3} (repeated), ^a (against the edge), !(a|b) (any
other label), a[amount > 1000] (a condition on properties of the edge), a/@[risk > 3]/b (on those of the vertex between),
"a b" or <http://a#b> (names with other characters). A path has at least one edge.
Patterns of paths: ?x a/b* ?y . ?y c ?z
SPARQL: SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y } GROUP BY ?x
MATCH of GQL and Cypher: MATCH (x)-[e:a WHERE e.amount > 1000]->(y) RETURN x, sum(e.amount)

check_query explains a query, or says what is wrong with it, where, and what would be right."""


@dataclass(frozen=True)
class AgentTool:
    """A request as a tool: `takes` are its parameters or its body; tools with `changes` are for agents that may write."""

    name: str
    request: str
    description: str
    _: KW_ONLY
    takes: type[msgspec.Struct] = models.RequestFields
    changes: bool = False

    def describe(self) -> types.Tool:
        """Return the description of the tool in the protocol."""
        schema = msgspec.json.schema_components([self.takes])[1][self.takes.__name__]
        properties, required = schema["properties"], schema["required"]
        properties.pop("format", None)
        if "limit" in properties:
            properties["limit"]["default"] = ROWS
        if "{name}" in self.request:
            properties = {"name": {"type": "string", "description": "The name of the query."}, **properties}
            required = ["name", *required]
        hints = types.ToolAnnotations(
            read_only_hint=not self.changes, destructive_hint=self.request.startswith("DELETE"), open_world_hint=False
        )
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return types.Tool(name=self.name, description=self.description, input_schema=schema, annotations=hints)


TOOLS = (
    AgentTool(
        "list_queries", "GET /queries", "List the registered queries: name, expression, window, columns, number of answers."
    ),
    AgentTool(
        "check_query",
        "POST /check",
        "Check a query without registering it: how it is understood, the labels that it reads, its columns and what its "
        "evaluation involves; or what is wrong with it, where, and what would be right.",
        takes=models.QueryRequest,
    ),
    AgentTool(
        "explain_query", "GET /queries/{name}/explain", "Explain what a registered query means and how it is evaluated."
    ),
    AgentTool(
        "read_answers",
        "GET /queries/{name}/answers",
        "Return current answers of a registered query, and their number (`total`). If `cursor` is not null, pass it as "
        "`after` to read further ones.",
        takes=models.AnswersParameters,
    ),
    AgentTool(
        "explain_answer",
        "GET /queries/{name}/witness",
        "Return the edges behind a current answer of a registered query, which are the reason why it holds.",
        takes=models.WitnessParameters,
    ),
    AgentTool(
        "find_pairs",
        "POST /find",
        "Search once for the pairs between which a path expression has a path now, from some sources, to some targets, or "
        "both; with `witness`, a path for each. Edges that no registered query reads are stored by rpq serve --keep alone.",
        takes=models.FindRequest,
    ),
    AgentTool(
        "find_path",
        "GET /check",
        "Search once for a path that a path expression has now between two vertices, among the edges of find_pairs; null if "
        "there is none.",
        takes=models.CheckParameters,
    ),
    AgentTool(
        "register_query",
        "POST /queries",
        "Register a query, whose answers are kept up to date from now on. Check it first with check_query.",
        takes=models.QueryRequest,
        changes=True,
    ),
    AgentTool("drop_query", "DELETE /queries/{name}", "Drop a registered query and its answers.", changes=True),
)


class AgentServer:
    """An MCP server for one client, with the tools of the server at `url`; those that change something if it `may_write`."""

    def __init__(self, url: str, *, token: str | None = None, may_write: bool = False) -> None:
        headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode()}
        limits = httpx2.Limits(max_connections=None)  # a follower has a connection as long as the client subscribes
        self._client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT, limits=limits)
        self._tools = {one.name: one for one in TOOLS if may_write or not one.changes}
        self._followers: dict[str, asyncio.Task[None]] = {}  # of resources, by their URI
        self.server = Server(
            "rpq",
            version=__version__,
            instructions=INSTRUCTIONS,
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
        )

    async def run(self) -> None:
        """Serve the client at standard input and output until it ends."""
        async with stdio_server() as (read, write):
            await self.server.run(read, write, self.server.create_initialization_options())

    @asynccontextmanager
    async def _lifespan(self, server: Server[None]) -> AsyncIterator[None]:
        async with self._client:
            try:
                yield
            finally:
                for task in self._followers.values():
                    task.cancel()

    async def _send(self, request: str, fields: Mapping[str, Any] | None = None) -> Any:
        """Return the content of a response.  Raises `MCPError`, with what the server says if it refuses the request."""
        method, path = request.split()
        given = {name: value for name, value in (fields or {}).items() if value is not None}
        content: dict[str, Any] = {"json": given} if method == "POST" else {"params": given}
        try:
            response = await self._client.request(method, path, **content)
            if not response.is_success:
                raise MCPError(types.INVALID_PARAMS, response.text or f"status {response.status_code}")
            return response.json() if response.content else {}
        except (httpx2.RequestError, ValueError) as error:
            message = f"rpq serve does not respond at {self._client.base_url}: {error or type(error).__name__}"
            raise MCPError(types.INTERNAL_ERROR, message) from error

    # --- tools -----------------------------------------------------------------------------------------------

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[one.describe() for one in self._tools.values()])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            message = f"there is no tool {params.name!r}; expected {', '.join(self._tools)}"
            raise MCPError(types.INVALID_PARAMS, message)
        fields, request = dict(params.arguments or {}), tool.request
        if "{name}" in request:
            request = request.format(name=quote(str(fields.pop("name", "")), safe=""))
        if "limit" in models.properties_of(tool.takes):
            fields.setdefault("limit", ROWS)
        fields.pop("format", None)  # of answers, which are JSON here
        try:
            content = await self._send(request, fields)
        except MCPError as error:
            return types.CallToolResult(content=[types.TextContent(text=error.message)], is_error=True)
        content.pop("svg", None)  # a drawing of what the text explains
        return types.CallToolResult(content=[types.TextContent(text=models.json_text(content).decode())])

    # --- resources -------------------------------------------------------------------------------------------

    async def _list_resources(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        resources = [
            types.Resource(
                uri=f"rpq://queries/{quote(query['name'], safe='')}/answers",
                name=query["name"],
                description=f"The answers of {query['expression']}",
                mime_type="application/json",
            )
            for query in (await self._send("GET /queries"))["queries"]
        ]
        return types.ListResourcesResult(resources=resources)

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        text = models.json_text(await self._answers(params.uri, limit=ROWS)).decode()
        content = types.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[content])

    async def _answers(self, uri: str, *, limit: int) -> Any:
        return await self._send(f"GET /queries/{quote(_query_of(uri), safe='')}/answers", {"limit": limit})

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Notify of changes of a resource; protocols before 2026-07-28 subscribe like this."""
        position = (await self._answers(params.uri, limit=1))["position"]
        if params.uri not in self._followers:
            notify = partial(ctx.session.send_resource_updated, params.uri)
            self._followers[params.uri] = asyncio.create_task(self._follow(params.uri, position, notify))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        if (task := self._followers.pop(params.uri, None)) is not None:
            task.cancel()
        return types.EmptyResult()

    async def _listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
        """Notify of changes of resources until the client cancels this request; newer protocols subscribe like this."""
        uris = params.notifications.resource_subscriptions or ()
        positions = {uri: (await self._answers(uri, limit=1))["position"] for uri in uris}
        bus = InMemorySubscriptionBus()
        followers = [
            asyncio.create_task(self._follow(uri, position, partial(bus.publish, ResourceUpdated(uri))))
            for uri, position in positions.items()
        ]
        try:
            return await ListenHandler(bus)(ctx, params)
        finally:
            for task in followers:
                task.cancel()

    async def _follow(self, uri: str, position: int, notify: Callable[[], Awaitable[None]]) -> None:
        """Call `notify` when answers have changed after a position, at most once in `NOTIFY_SECONDS`; never return."""
        changed, query, after = asyncio.Event(), _query_of(uri), str(position)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_notify_of(changed, notify))
            while True:
                with suppress(httpx2.RequestError):
                    where = {"query": query, "after": after}
                    async with self._client.sse("/changes", params=where, max_event_size=None) as events:
                        async for event in events:
                            after = event.id or after
                            if event.event != "start":
                                changed.set()
                await asyncio.sleep(NOTIFY_SECONDS)


async def _notify_of(changed: asyncio.Event, notify: Callable[[], Awaitable[None]]) -> None:
    while True:
        await changed.wait()
        changed.clear()
        await notify()
        await asyncio.sleep(NOTIFY_SECONDS)


def _query_of(uri: str) -> str:
    """Return the name of the query whose answers are a resource.

    >>> _query_of("rpq://queries/a%2Fb/answers")
    'a/b'
    """
    found = re.fullmatch("rpq://queries/([^/]+)/answers", uri)
    if found is None:
        message = f"there is no resource {uri!r}; expected rpq://queries/NAME/answers, with each / of the name as %2F"
        raise MCPError(types.INVALID_PARAMS, message)
    return unquote(found[1])
