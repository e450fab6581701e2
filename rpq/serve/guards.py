"""What stands before all requests: where they may come from, who may ask, and what every response says."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rpq.serve.problems import Problem, refused

OPEN_PATHS = ("/", "/healthz", "/readyz", "/openapi.json", "/favicon.ico")
"""What may be read without a token: it says nothing of the stream."""

BLANKS = b" \t"
"""What may stand around the value of a header."""

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


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Who is let in: hosts by their names, beside addresses and localhost; origins beside the server's own; a token."""

    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    token: str | None = None

    def refusal(self, path: str, headers: Headers) -> Problem | None:
        """Why a request is refused; None where it is not."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_host(hosts[0]):
            return Problem(
                421,
                "HostRefused",
                f"this server is not called {hosts[0] if hosts else 'nothing'!r}: ask it by its address, or start it with "
                "--allow-host NAME",
            )
        origin = headers.get("origin")
        try:
            is_admitted = origin is None or self._is_origin(origin, hosts[0])
        except ValueError:
            return Problem(400, "BadOrigin", f"Origin: {origin!r} is no origin; expected one such as https://example.org")
        if not is_admitted:
            return Problem(
                403,
                "OriginRefused",
                f"pages of {origin} may not ask this server; start it with --allow-origin {origin} if they are to",
            )
        if self.token is not None and path not in OPEN_PATHS and not path.startswith("/page/"):
            scheme, _, given = headers.get("authorization", "").encode("latin-1").partition(b" ")
            if scheme.lower() != b"bearer" or not self._is_token(given):
                return Problem(
                    401,
                    "TokenMissing",
                    "this server asks for its token: Authorization: Bearer TOKEN",
                    headers={"WWW-Authenticate": 'Bearer realm="rpq"'},
                )
        return None

    def _is_host(self, host: str) -> bool:
        """Whether it is an address, which no other site can claim to be, or a name that is known."""
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

    def _is_token(self, given: bytes) -> bool:
        """Whether bytes of a header are the token: in UTF-8, as programs send it, or as browsers do, in Latin-1."""
        assert self.token is not None
        wanted = [self.token.encode(errors="surrogateescape")]
        with contextlib.suppress(UnicodeEncodeError):
            wanted.append(self.token.encode("latin-1"))
        return any(hmac.compare_digest(given.strip(BLANKS), one.strip(BLANKS)) for one in wanted)

    def _is_origin(self, origin: str, host: str) -> bool:
        if origin in self.origins:
            return True
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


class Guarded:
    """An application behind an admission, whose responses have the headers that keep browsers careful."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        is_foreign = origin is not None and origin in self._admission.origins

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
                "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
                "Access-Control-Max-Age": "600",
            }
            await Response(status_code=204, headers=allowed)(scope, receive, send_guarded)
            return
        problem = self._admission.refusal(scope["path"], headers)
        if problem is not None:
            await refused(problem)(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)
