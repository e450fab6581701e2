"""The operations of the server and who may call them.

Decorators of the handlers fill one table with parameters, bodies and responses of each operation; the routes and the OpenAPI
document are derived from it.  `GuardedApplication` checks host, origin and token of a request before it reaches a route; the
roles of the token decide which operations it allows.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct
from msgspec.json import schema_components
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rpq import __version__
from rpq.serve import models
from rpq.serve.models import Json, ServeLimits
from rpq.serve.requests import NoSuchQuery, Problem, problem_response

Handler = Callable[..., Awaitable[ASGIApp]]
AnyHandler = TypeVar("AnyHandler", bound=Handler)
Content = dict[str, type[Struct] | Json]
"""Models, or schemas of contents that have no model, by content type."""

SCHEMAS = "#/components/schemas"
TEXT: Json = {"type": "string"}

DESCRIPTION = """Persistent queries over a streaming graph. Tuples (source, target, label, timestamp) are posted, path
expressions, graph patterns and queries in SPARQL are registered, and their answers are read or followed as they change.

`position` is the number of the last change of the engine: a push, or a query that was registered or dropped."""

REFUSALS = {
    400: ("Bad", "The body is no JSON, or `Origin` is no origin."),
    401: ("Token", "The token is missing or wrong."),
    403: ("Origin", "Pages of that origin may not send requests, or the token has another role."),
    404: ("Missing", "There is no query of that name, or nothing at that path."),
    408: ("Slow", "The body did not arrive in time."),
    409: ("Taken", "Another query has that name, or edges of the window were not stored."),
    413: ("Large", "The body is too large."),
    415: ("Type", "The content type or the coding is not supported."),
    421: ("Host", "The server does not answer to that host name."),
    422: ("Refused", "The request is invalid or cannot be fulfilled; `line`, `column` and `length` locate the error."),
    429: ("Many", "The limit on queries, followers or wrong tokens is reached."),
    503: ("Away", "The engine accepts no requests now; `Retry-After` says when to retry."),
    507: ("Limit", "The engine reached its limit on memory, rows or time."),
}

_NAME: Json = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The name of a query; a / in it is written as %2F.",
    "schema": {"type": "string", "minLength": 1},
}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation: `gives` is the content of its `status`, `refusals` are its error statuses besides the usual ones.

    A token needs the `role`. An operation that `is_open` needs no token, and its parameters are not checked.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    description: str = ""
    parameters: type[models.RequestFields] = models.RequestFields
    more_parameters: tuple[Json, ...] = ()
    takes: type[Struct] | Content | None = None
    gives: type[Struct] | Content | None = None
    status: int = 200
    headers: Json | None = None
    refusals: tuple[int, ...] = ()
    role: str = "read"
    is_open: bool = False

    def arguments(self, request: Request) -> list[Any]:
        """Return the arguments of the handler: request, name of a query, parameters if it has some.

        Raises `Problem`, also if the token of the request does not have the role.
        """
        if not self.is_open and self.role not in request.scope.get(ROLES_KEY, ()):
            raise Problem(403, "RoleMissing", f"this token may not do that; it takes one with the role {self.role}")
        found: list[Any] = [request]
        if "name" in request.path_params:
            try:
                found.append(unquote_to_bytes(request.path_params["name"]).decode())
            except UnicodeDecodeError:
                raise NoSuchQuery("the name of a query must be text in UTF-8") from None
        if self.is_open:
            return found
        params, properties = request.query_params, models.properties_of(self.parameters)
        for name in params:
            if len(params.getlist(name)) > 1 and properties.get(name, {}).get("type") != "array":
                raise Problem(422, "BadParameter", f"?{name}= occurs several times; expected it once", {"field": name})
        texts = {
            name: params.getlist(name) if properties.get(name, {}).get("type") == "array" else params[name]
            for name in params
        }
        try:
            parameters = models.read_model(texts, self.parameters, kind="parameter", are_texts=True)
        except models.FieldsError as error:
            raise Problem(422, "BadParameter", str(error), {"field": error.field}) from error
        return [*found, parameters] if properties else found

    def document(self, limits: ServeLimits) -> Json:
        """Return the description of the operation in OpenAPI."""
        good: Json = {"description": self.summary}
        if self.gives is not None:
            good["content"] = _document(self.gives)
        if self.headers is not None:
            good["headers"] = self.headers
        usual = [400, 403, 421, *([] if self.is_open else [401, 422, 429, 503])]
        usual += [404] * ("{name}" in self.path) + [408, 413, 415] * (self.takes is not None)
        refused = {
            str(status): {"$ref": f"#/components/responses/{REFUSALS[status][0]}"}
            for status in sorted({*usual, *self.refusals})
        }
        found: Json = {
            "operationId": self.handler.__name__,
            "summary": self.summary,
            "parameters": [*_parameters(self.parameters), *self.more_parameters],
            "responses": {str(self.status): good, **refused},
        }
        if self.description:
            found["description"] = self.description.format(limits=limits)
        if self.takes is not None:
            found["requestBody"] = {"required": True, "content": _document(self.takes)}
        found["security"] = [] if self.is_open else [{}, {"token": [self.role]}]
        return found


class OperationTable:
    """A table of operations, in their order."""

    def __init__(self) -> None:
        self._operations: list[Operation] = []

    def add(self, address: str, summary: str, **about: Any) -> Callable[[AnyHandler], AnyHandler]:
        """Return a decorator for the handler of an address such as `GET /queries`."""
        method, path = address.split()

        def register(handler: AnyHandler) -> AnyHandler:
            self._operations.append(Operation(method=method, path=path, handler=handler, summary=summary, **about))
            return handler

        return register

    def _operations_by_path(self) -> dict[str, dict[str, Operation]]:
        found: dict[str, dict[str, Operation]] = {}
        for operation in self._operations:
            found.setdefault(operation.path, {})[operation.method] = operation
        return found

    def routes(self, answer: Callable[[Operation, Request], Awaitable[ASGIApp]]) -> list[Route]:
        """Return a route for each path; `answer` handles its requests."""

        def route(path: str, operations: dict[str, Operation]) -> Route:
            async def endpoint(request: Request) -> ASGIApp:
                return await answer(operations["GET" if request.method == "HEAD" else request.method], request)

            return Route(path, endpoint, methods=[*operations])

        return [route(path, operations) for path, operations in self._operations_by_path().items()]

    def document(self, limits: ServeLimits) -> Json:
        """Return the OpenAPI document of a server with these limits."""
        contents = [_content(one) for operation in self._operations for one in (operation.takes, operation.gives) if one]
        used = [models.Error, *(one for content in contents for one in content.values() if isinstance(one, type))]
        paths: Json = {}
        for path, operations in self._operations_by_path().items():
            shared = {"parameters": [_NAME]} if "{name}" in path else {}
            paths[path] = shared | {one.method.lower(): one.document(limits) for one in operations.values()}
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "rpq serve",
                "version": __version__,
                "description": DESCRIPTION,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "security": [{}, {"token": []}],
            "paths": paths,
            "components": {
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
                "schemas": schema_components(used, ref_template=SCHEMAS + "/{name}")[1],
                "responses": {
                    name: {"description": text, "content": _document(models.Error)} for name, text in REFUSALS.values()
                },
            },
        }


def _content(content: type[Struct] | Content) -> Content:
    """Return content by content type; a model alone means JSON."""
    return content if isinstance(content, dict) else {"application/json": content}


def _document(content: type[Struct] | Content) -> Json:
    return {
        type_: {"schema": schema if isinstance(schema, dict) else {"$ref": f"{SCHEMAS}/{schema.__name__}"}}
        for type_, schema in _content(content).items()
    }


def _parameters(model: type[models.RequestFields]) -> Iterable[Json]:
    """Yield the parameters of an address in OpenAPI; a list is given by repeating its parameter."""
    for name, schema in models.properties_of(model).items():
        found = {"name": name, "in": "query", "schema": schema}
        yield {**found, "style": "form", "explode": True} if schema.get("type") == "array" else found


OPEN_PATHS = ("/", "/healthz", "/readyz", "/openapi.json", "/favicon.ico")
"""Paths that need no token: their contents reveal nothing of the stream."""

BLANKS = b" \t"
"""The bytes that may surround the value of a header."""

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


ROLES = frozenset({"read", "write", "register", "backup"})
"""The roles of tokens: to read answers and figures, to post tuples and control the input, to change the queries, to write
backups."""

ROLES_KEY = "rpq.roles"
"""The key of the roles of a request in its ASGI scope."""

WRONG_TOKEN_SECONDS, MAX_WRONG_TOKENS = 1.0, 5
"""The delay of the response to a wrong token, and the number of them that one address may wait for at a time."""


def parse_tokens(texts: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return tokens and their roles; a token without roles has all of them.  Raises `ValueError` for an empty token.

    >>> {token: sorted(roles) for token, roles in parse_tokens(["read,write=s1", "s2="]).items()}
    {'s1': ['read', 'write'], 's2=': ['backup', 'read', 'register', 'write']}
    """
    found: dict[str, frozenset[str]] = {}
    for text in texts:
        before, _, after = text.partition("=")
        roles = frozenset(before.split(","))
        token, roles = (after, roles) if roles <= ROLES else (text, ROLES)
        if not token.strip():
            raise ValueError("is empty; expected a secret that nobody can guess")
        found[token] = found.get(token, frozenset()) | roles
    return found


def _network(client: tuple[str, int] | None) -> str:
    """Return the address of a client; in IPv6 the first 64 bits of it, the rest of which a client chooses."""
    try:
        address = ipaddress.ip_address("" if client is None else client[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped is not None:
        return str(address)
    return address.exploded[:19]


@dataclass(frozen=True, kw_only=True)
class Admission:
    """The rules of access: host names besides addresses and localhost, origins besides the server's own, and tokens.

    `tokens` has the roles of each token; without tokens, everybody has all roles.
    """

    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    tokens: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def refusal(self, headers: Headers) -> Problem | None:
        """Return the problem for which a request is refused; None if it is admitted."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_host(hosts[0]):
            return Problem(
                421,
                "HostRefused",
                f"this server does not answer to the host name {hosts[0] if hosts else ''!r}: use its address, or start it "
                "with --allow-host NAME",
            )
        origin = headers.get("origin")
        try:
            is_admitted = origin is None or self._is_origin(origin, hosts[0])
        except ValueError:
            return Problem(400, "BadOrigin", f"Origin: {origin!r} is not an origin; expected one such as https://example.org")
        if not is_admitted:
            return Problem(
                403,
                "OriginRefused",
                f"pages of {origin} may not send requests to this server; to admit them, start it with "
                f"--allow-origin {origin}",
            )
        return None

    def roles_of(self, headers: Headers) -> frozenset[str]:
        """Return the roles that the token of a request has, none if it is wrong or missing."""
        if not self.tokens:
            return ROLES
        scheme, _, given = headers.get("authorization", "").encode("latin-1").partition(b" ")
        if scheme.lower() != b"bearer":
            return frozenset()
        return frozenset().union(*(roles for token, roles in self.tokens.items() if _is_token(given, token)))

    def _is_host(self, host: str) -> bool:
        """Return whether a host is an address, which no other site can claim to be, or a known name."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if name is None or "@" in host or "/" in host:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or name in {one.lower() for one in self.hosts}
        return True

    def _is_origin(self, origin: str, host: str) -> bool:
        if origin in self.origins:
            return True
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _is_token(given: bytes, token: str) -> bool:
    """Return whether the bytes of a header are a token, in UTF-8 (from programs) or in Latin-1 (from browsers)."""
    encodings = [token.encode(errors="surrogateescape")]
    with contextlib.suppress(UnicodeEncodeError):
        encodings.append(token.encode("latin-1"))
    return any(hmac.compare_digest(given.strip(BLANKS), one.strip(BLANKS)) for one in encodings)


class GuardedApplication:
    """An ASGI application behind an admission, whose responses get the security headers of browsers."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app = app
        self.admission = admission
        self._wrong_tokens: Counter[str] = Counter()  # by address, those whose responses are delayed

    async def _authorize(self, scope: Scope, headers: Headers) -> Problem | None:
        """Add the roles of the token of a request to its scope; return the problem if it has none.

        The delay limits how many tokens an address can guess per second; others, and right tokens, need not wait.
        """
        network = _network(scope.get("client"))
        is_given = "authorization" in headers
        if is_given and self._wrong_tokens[network] >= MAX_WRONG_TOKENS:
            message = "too many wrong tokens come from this address"
            return Problem(429, "TooManyTokens", message, headers={"Retry-After": str(math.ceil(WRONG_TOKEN_SECONDS))})
        scope[ROLES_KEY] = self.admission.roles_of(headers)
        if scope[ROLES_KEY]:
            return None
        if is_given:
            self._wrong_tokens[network] += 1
            try:
                await asyncio.sleep(WRONG_TOKEN_SECONDS)
            finally:
                self._wrong_tokens[network] -= 1
                self._wrong_tokens += Counter()  # without those that wait for none
        return Problem(
            401,
            "TokenMissing",
            "this server requires its token: Authorization: Bearer TOKEN",
            headers={"WWW-Authenticate": 'Bearer realm="rpq"'},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        is_foreign = origin is not None and origin in self.admission.origins

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    found.setdefault(name, value)
                if is_foreign and origin is not None:
                    found["Access-Control-Allow-Origin"] = origin
                    found["Cross-Origin-Resource-Policy"] = "cross-origin"
                    found.add_vary_header("Origin")
                if not scope["path"].startswith("/page/"):
                    found.setdefault("Cache-Control", "no-store")
            await send(message)

        if is_foreign and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            allowed = {
                "Access-Control-Allow-Methods": "GET, POST, DELETE",
                "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, Last-Event-ID",
                "Access-Control-Max-Age": "600",
            }
            await Response(status_code=204, headers=allowed)(scope, receive, send_guarded)
            return
        path = scope["path"]
        problem = self.admission.refusal(headers)
        if problem is None and path not in OPEN_PATHS and not path.startswith("/page/"):
            problem = await self._authorize(scope, headers)
        if problem is not None:
            await problem_response(problem)(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)
