"""`rpq mcp`: the command and its options."""

from __future__ import annotations

from urllib.parse import urlsplit

import click

from rpq.errors import install_command

EPILOG = """\b
  rpq mcp
  rpq mcp https://rpq.example.org/ --write    (with RPQ_TOKEN set)

\b
A client starts this command and talks to it through its standard input and output.  The certificate of an https address is
checked against the authorities of the system, or those in the file that SSL_CERT_FILE names.

\b
Exit status: 0 when the client ends, 1 after an error, 2 for an error in the options, 130 after Ctrl-C.
"""


def _checked_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or half of the brackets of IPv6
        is_address = False
    if not is_address:
        raise click.BadParameter(f"{value!r} is not the address of a server; expected http://HOST:PORT/ or https://…")
    return value


@click.command("mcp", epilog=EPILOG, short_help="Offer a running server to agents (MCP).")
@click.argument("url", default="http://127.0.0.1:8000/", callback=_checked_url)
@click.option("--write", is_flag=True, help="Also offer the tools that register and drop queries.")
@click.option("--token", envvar="RPQ_TOKEN", show_envvar=True, help="Token of the server (--token of rpq serve).")
def mcp(url: str, write: bool, token: str | None) -> None:
    """Offer the queries of the server at URL to agents, by the Model Context Protocol.

    Agents check queries, read answers and the edges behind them, and search for paths.  The answers of each query are also a
    resource whose subscribers are notified of changes.  URL is the address of rpq serve, by default http://127.0.0.1:8000/.
    """
    import asyncio

    try:
        from rpq.serve.mcp_server import AgentServer
    except ImportError as error:
        raise click.ClickException(f"rpq mcp needs the extra mcp: {install_command('mcp')} ({error})") from error
    asyncio.run(AgentServer(url, token=token, may_write=write).run())
