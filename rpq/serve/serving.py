"""A server from the options of its command to its exit status."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import uvicorn

import rpq
from rpq.cli.checkpoint import input_identity
from rpq.cli.inputs import (
    LabelMonitor,
    are_regular,
    load_static,
    names_in,
    open_input,
    rdf_documents,
    rules_of,
    topics_and_clients,
)
from rpq.cli.options import named_inputs
from rpq.cli.reporting import compile_kernels, log_to
from rpq.cli.request import COMMAND, RunSettings, keep_window, max_ahead_of, read_query_entries, read_query_text, unit_hint
from rpq.cli.validation import check_ids
from rpq.errors import ExpressionError, QueryError, QueryTextError, RpqError
from rpq.kafka.client import KafkaUsageError, TextLines
from rpq.kafka.topic_names import is_topic
from rpq.language.options import OPTIONS
from rpq.language.query_file import QueryEntry
from rpq.language.readings import properties_of
from rpq.readers.column_names import ColumnNames
from rpq.serve.application import Application, KernelCompiler
from rpq.serve.connections import Connections, Repetitions, raise_file_limit
from rpq.serve.feeds import Feed, FileFeed, Playback, TopicFeed
from rpq.serve.logs import LIFECYCLE, JsonLines, audit
from rpq.serve.models import ServeLimits
from rpq.serve.operations import Admission, parse_tokens
from rpq.serve.requests import NameTaken, QueryDefaults, parse_query
from rpq.serve.service import INTERRUPT_SECONDS, Service
from rpq.serve.storage import EngineOptions
from rpq.stream.durations import NANOSECONDS, duration_text
from rpq.stream.window import UNBOUNDED, WindowTextError, kind_of_text, window_of

if TYPE_CHECKING:
    from rpq.readers import EdgeRules
    from rpq.readers.rdf.rdf_format import RdfDocuments

LOG = logging.getLogger("rpq.serve")

SWITCH_SECONDS = 0.001
"""The longest time that the engine's thread occupies the interpreter while a request waits."""

RELOADED = ("tokens", "tls_cert", "tls_key", "expressions", "query_files", "queries_file")
"""The parameters of the command that a server reads again when it is told to."""


@dataclass(frozen=True, kw_only=True)
class Reloadable:
    """The values of `RELOADED`: the roles of tokens, the certificate, and queries with their fields."""

    tokens: Mapping[str, frozenset[str]]
    tls: Tls | None
    queries: tuple[tuple[dict[str, Any], rpq.Query], ...]


def serve_with(
    context: click.Context,
    *,
    host: str,
    port: int,
    is_open: bool,
    hosts: Sequence[str],
    origins: Sequence[str],
    inputs: Sequence[str],
    playback_speed: float | None,
    checkpoint: str | None,
    checkpoint_every: float,
    backup: str | None,
    push_limit: float | None,
    **options: Any,
) -> int:
    """Serve until a signal ends the server; return the exit status.  Usage errors are exceptions of click.

    All options are those in the context of the command. The other ones are fields of `ServeLimits` and of `RunSettings`.
    """
    paths, streams = named_inputs(inputs)
    options["static"], options["static_graphs"] = named_inputs(options["static"], "--static")
    option_limits = ServeLimits(**{one.name: options.pop(one.name) for one in fields_of(ServeLimits) if one.name in options})
    limits = replace(
        option_limits,
        connections=raise_file_limit(option_limits.connections),
        waiting_bytes=max(option_limits.waiting_bytes, 16 * option_limits.body_bytes),
    )
    of_run = {name: value for name, value in options.items() if name == "queries_file" or name not in RELOADED}
    settings = RunSettings(inputs=paths, streams=streams, checkpoint=checkpoint, **of_run)
    if settings.edges == "id":
        check_ids(settings)
    of_rdf = (settings.rdf_time, settings.rdf_graph, settings.rdf_base)
    documents = rdf_documents(settings) if any(of_rdf) else None
    if backup is not None:
        _check_backup(backup, checkpoint)
    defaults = _defaults(settings)
    first = _read_reloadable(context.params, settings, defaults)
    tls, queries = first.tls, [query for _, query in first.queries]
    listener = _listen_or_exit(host, port)
    with listener, _log_to_stderr(settings):
        compile_kernels(
            queries or [rpq.Query("a", window=rpq.Window(size=1, slide=1))],
            integers=False,
            threads=settings.threads,
            quiet=settings.quiet or settings.log == "json",
        )
        properties = frozenset().union(*map(properties_of, queries))
        if settings.changes is not None and settings.edges_from is None:
            raise click.UsageError("--changes: the server reads changes with --edges-from, which names the columns of edges")
        service = _service(
            settings,
            defaults,
            limits,
            checkpoint_every,
            push_limit=push_limit,
            properties=properties,
            documents=documents,
            rules=rules_of(settings),
        )
        _register(service, first.queries)
        playback, feeds = _feeds(service, settings, playback_speed)
        names = [*hosts, *([] if host in ("", "0.0.0.0", "::") else [host])]
        admission = Admission(hosts=names, origins=tuple(origins), tokens=first.tokens)
        kernels = KernelCompiler(threads=settings.threads)
        application = Application(service, admission=admission, playback=playback, kernels=kernels, backups=backup)
        sys.setswitchinterval(SWITCH_SECONDS)
        # Objects created so far live on: the garbage collector need not visit them each time.
        gc.collect()
        gc.freeze()

        say = partial(_say, log=settings.log)

        def ready(end: object) -> None:
            if is_open:
                say("anyone who reaches this address can use the server (--open)", logging.WARNING)
            if limits.connections < option_limits.connections:
                fewer = f"the system lets this process open so few files that it serves {limits.connections:,} connections"
                say(f"{fewer}, not {option_limits.connections:,} (--max-connections)", logging.WARNING)
            if service.is_resumed and (message := _keep_warning(settings, service.engine)):
                say(message, logging.WARNING)
            resumed = f", continues at position {service.position:,}" if service.is_resumed else ""
            say(f"serving at {address_of(listener, tls)}{resumed}")

        def read_again() -> Reloadable:
            options = context.obj().params
            for param in context.command.params:
                if param.name not in RELOADED and options.get(param.name) != context.params.get(param.name):
                    LOG.warning("%s: another value takes effect when the server is restarted", param.opts[0])
            found = _read_reloadable({**context.params, **{name: options[name] for name in RELOADED}}, settings, defaults)
            for _, query in found.queries:
                kernels.compile(query, integers=service.has_integers)
            return found

        reload = Reload(application, first, read_again)
        ended = asyncio.run(run_server(service, application, [listener], feeds=feeds, tls=tls, ready=ready, reload=reload))
        for outage in service.storage.outages:
            reason = f"{outage.reason}; acknowledged changes are in {service.storage.path} and its journal"
            say(reason, logging.ERROR)
        if service.failure is not None:
            say(service.failure, logging.ERROR)
    if service.failure is not None or service.storage.outages:
        return 1
    return 130 if ended == signal.SIGINT else 0


def _read_reloadable(options: Mapping[str, Any], settings: RunSettings, defaults: QueryDefaults) -> Reloadable:
    """Read the tokens, the certificate and the queries of options.  Raises errors of click."""
    tokens = _roles_of_tokens(options["tokens"])
    _check_access(options["host"], options["port"], has_token=bool(tokens), is_open=options["is_open"])
    tls = _tls(options["tls_cert"], options["tls_key"])
    settings = replace(settings, queries_file=options["queries_file"])
    fields = _query_fields(options["expressions"], options["query_files"], settings, defaults)
    return Reloadable(tokens=tokens, tls=tls, queries=tuple((one, parse_query(one, defaults)) for one in fields))


class Reload:
    """A function that reads the tokens, the certificate and the queries of a server again: all, or none after an error."""

    def __init__(self, application: Application, current: Reloadable, read: Callable[[], Reloadable]) -> None:
        self._application, self._current, self._read = application, current, read
        self._lock = asyncio.Lock()

    async def __call__(self) -> None:
        async with self._lock:
            try:
                dropped, registered = await self._try()
            except Exception as error:
                is_known = isinstance(error, (click.ClickException, RpqError))
                message = error.format_message() if isinstance(error, click.ClickException) else str(error)
                LOG.error("nothing is reloaded: %s", message, exc_info=not is_known)
                return
        for action, names in (("drop", dropped), ("register", registered)):
            for name in names:
                audit(action, name, by="a reload")
        LOG.info("tokens, certificate and queries are reloaded")

    async def _try(self) -> tuple[list[str], list[str]]:
        """Reload; return the names of queries that were dropped and registered."""
        application, before = self._application, self._current
        found = await asyncio.get_running_loop().run_in_executor(None, self._read)
        if (found.tls is None) is not (before.tls is None):
            raise click.UsageError("--tls-cert, --tls-key: TLS begins or ends when the server is restarted")
        replace_queries = partial(application.service.replace_queries, [one for _, one in before.queries], found.queries)
        names: tuple[list[str], list[str]] = await application.service.call(replace_queries, writes=True)
        application.guard.admission = replace(application.guard.admission, tokens=found.tokens)
        if found.tls is not None and application.figures.connections is not None:
            application.figures.connections.tls = found.tls.context
        self._current = found
        return names


def _defaults(settings: RunSettings) -> QueryDefaults:
    fields = _as_json(settings.given_options)
    size = fields.get("window", fields.get("slide"))
    if size is not None:
        slide = fields.get("slide", size if kind_of_text(size) == "time" else None)
        try:
            window_of(size, slide, unit=settings.time_unit)
        except WindowTextError as error:
            raise click.UsageError(f"--{error.field}: {error}{unit_hint(settings.time_unit)}") from error
    return QueryDefaults(fields=fields, time_unit=settings.time_unit)


def _query_fields(
    expressions: Sequence[str], query_files: Sequence[str], settings: RunSettings, defaults: QueryDefaults
) -> list[dict[str, Any]]:
    """Return the fields of the queries on the command line."""
    if settings.queries_file is not None:
        if expressions or query_files:
            raise click.UsageError("--queries contains all queries; add the others to its file")
        return [_fields_of_entry(entry) for entry in read_query_entries(settings.queries_file, settings)]
    texts = [(expression, expression) for expression in expressions]
    texts += [(f"--query-file {path}", read_query_text(path)) for path in query_files]
    found: list[dict[str, Any]] = [{"expression": text} for _, text in texts]
    for (place, _), fields in zip(texts, found, strict=True):
        try:
            parse_query(fields, defaults)
        except (QueryError, ValueError) as error:
            of_text = error.__cause__ if isinstance(error.__cause__, (ExpressionError, QueryTextError)) else error
            raise click.UsageError(f"{place}: {of_text}") from error
    return found


def _fields_of_entry(entry: QueryEntry) -> dict[str, Any]:
    """Return what a file gives for a query, also where it is the default, since the command may have another."""
    given = {name for name, place in entry.places.items() if place is not COMMAND}
    values = {name: getattr(entry, name) for name in OPTIONS if name in given or name in ("name", "language")}
    return {"expression": entry.expression, **_as_json(values)}


def _as_json(options: Mapping[str, Any]) -> dict[str, Any]:
    given = ((name, value) for name, value in options.items() if value is not None)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given}


def _check_backup(folder: str, checkpoint: str | None) -> None:
    if checkpoint is None:
        raise click.UsageError("--backup needs --checkpoint, of which it has copies")
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise click.UsageError(f"--backup {folder}: is not a folder in which files can be written")


def _roles_of_tokens(texts: Sequence[str]) -> dict[str, frozenset[str]]:
    try:
        return parse_tokens(texts)
    except ValueError as error:
        raise click.UsageError(f"--token: {error}") from error


def _check_access(host: str, port: int, *, has_token: bool, is_open: bool) -> None:
    """Refuse to serve other machines without a token, unless `is_open`."""
    if has_token and is_open:
        raise click.UsageError("--open: admits everybody, and there is a token (--token, RPQ_TOKEN); leave out one")
    try:
        is_reached = not is_of_this_machine(host)
    except (OSError, UnicodeError) as error:
        raise _not_served_at(host, port, error) from error
    if is_reached and not has_token and not is_open:
        raise click.UsageError(
            f"--host {host}: other machines reach it, and there is no token: give one (--token, or better RPQ_TOKEN), or "
            "pass --open to admit everybody who reaches it"
        )


def _tls(certificate: str | None, key: str | None) -> Tls | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        option, missing = ("--tls-cert", "--tls-key") if key is None else ("--tls-key", "--tls-cert")
        raise click.UsageError(f"{option} needs {missing}: TLS takes a certificate and its key")
    tls = Tls(certificate=certificate, key=key)
    try:
        _ = tls.context
    except TlsError as error:
        raise click.ClickException(f"--tls-cert, --tls-key: {error}") from error
    return tls


def _listen_or_exit(host: str, port: int) -> Any:
    try:
        return listening_socket(host, port)
    except (OSError, OverflowError) as error:
        raise _not_served_at(host, port, error) from error


def _not_served_at(host: str, port: int, error: Exception) -> click.ClickException:
    reason = getattr(error, "strerror", None) or error
    return click.ClickException(f"--host {host} --port {port}: cannot be served at: {reason}")


@contextlib.contextmanager
def _log_to_stderr(settings: RunSettings) -> Iterator[None]:
    """Log events of the service and of its libraries to stderr in this block; with --quiet, only warnings."""
    with contextlib.ExitStack() as stack:
        for name in ("rpq.serve", "rpq.kafka", "uvicorn.error", "asyncio"):
            handler = logging.StreamHandler(sys.stderr)
            if not name.startswith("rpq."):  # these log every bad request of a client
                handler.addFilter(Repetitions())
            plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
            of_text = TextLines() if name == "rpq.kafka" else plain
            handler.setFormatter(JsonLines() if settings.log == "json" else of_text)
            level = logging.WARNING if settings.quiet or not name.startswith("rpq.") else logging.INFO
            stack.enter_context(log_to(handler, logging.getLogger(name), level))
        yield


def _say(message: str, level: int = logging.INFO, *, log: str) -> None:
    """Print a line about the start or the end of the server, or log it where the log is in JSON."""
    if log == "json":
        LIFECYCLE.log(level, "%s", message)
    else:
        marks = {logging.WARNING: "warning: ", logging.ERROR: "Error: "}
        click.echo(f"{marks.get(level, '')}{message}", err=True)


def _service(
    settings: RunSettings,
    defaults: QueryDefaults,
    limits: ServeLimits,
    seconds: float,
    *,
    push_limit: float | None,
    properties: frozenset[str],
    documents: RdfDocuments | None,
    rules: EdgeRules | None,
) -> Service:
    of_engine: dict[str, Any] = {
        "threads": settings.threads,
        "memory_limit": settings.memory_limit,
        "max_rows": settings.max_rows,
        "_keeps_values": True,  # witnesses are asked for at any time
    }
    if settings.times is not None and settings.time_unit is None:
        raise click.UsageError(f"--times {settings.times}: expected --time-unit, the unit in which times count from 1970")
    times = None if settings.times is None else pa.timestamp(settings.time_unit, "UTC")
    keep = keep_window(settings, settings.time_unit)
    max_ahead = max_ahead_of(settings, settings.time_unit, durations=True)
    edge_properties = names_in(settings.edge_properties or "")

    def make(**further: Any) -> rpq.Engine:
        engine = rpq.Engine(
            keep=keep,
            time_unit=settings.time_unit,  # type: ignore[arg-type]
            edges=settings.edges,
            edge_properties=edge_properties,
            **of_engine,
            **further,
        )
        if times is not None:
            engine._times = engine._times.with_type(times)
        multigraph = engine._evaluation.multigraph
        if multigraph is not None:
            multigraph.statics.read_properties = properties
        load_static(settings, engine, LabelMonitor([]), properties=sorted(properties) if multigraph is not None else ())
        return engine

    def restore(path: str, **further: Any) -> rpq.Engine:
        engine = rpq.Engine.restore(path, **of_engine, **further)
        if engine.edges != settings.edges:
            raise QueryError(f"--edges {settings.edges}: the checkpoint has edges of the identity {engine.edges}")
        if edge_properties and {*edge_properties} != engine._evaluation.edge_properties:
            had = ",".join(sorted(engine._evaluation.edge_properties)) or "none"
            raise QueryError(f"--edge-properties {settings.edge_properties}: the checkpoint stores {had}: expected the same")
        if (unit := engine._times.unit) != settings.time_unit:
            had, has = ("no --time-unit" if one is None else f"--time-unit {one}" for one in (unit, settings.time_unit))
            raise QueryError(f"{path}: the checkpoint is of a server with {had}, and this one has {has}: expected the same")
        if times is not None and (engine._times.type is None or engine._times.is_of_numbers):
            raise QueryError(f"--times {settings.times}: the checkpoint is of a server that writes times as numbers")
        multigraph = engine._evaluation.multigraph
        if multigraph is not None:
            # The checkpoint accepted these queries, so its static edges have all values of the properties that they read.
            multigraph.statics.read_properties = multigraph.statics.properties.union(*map(properties_of, engine.queries))
        return engine

    try:
        return Service(
            EngineOptions(make=make, restore=restore, max_ahead=max_ahead, push_limit=push_limit),
            defaults=defaults,
            limits=limits,
            checkpoint=settings.checkpoint,
            checkpoint_seconds=seconds,
            documents=documents,
            rules=rules,
            names=ColumnNames(
                fixed=True,
                time_format=settings.time_format,
                text_vertices=settings.vertices == "text",
                trim=settings.trim,
            ),
        )
    except (RpqError, OSError) as error:  # of the checkpoint, the journal, or --static
        raise click.ClickException(str(error)) from error


def _keep_warning(settings: RunSettings, engine: rpq.Engine) -> str | None:
    """Return a warning if --keep is of another size than the window whose edges the checkpoint stores; None otherwise."""
    window = keep_window(settings, settings.time_unit)
    kept = None if engine._keep is None else _extent(engine._times.resolve(engine._keep).window)
    if (None if window is None else _extent(window)) == kept:
        return None
    given = "there is no --keep" if window is None else f"--keep {settings.keep} has no effect"
    if kept is None:
        stored = "only edges that its queries read"
    elif kept == UNBOUNDED:
        stored = "all edges"
    else:
        unit = engine._times.unit
        stored = f"the edges of {kept if unit is None or isinstance(kept, str) else duration_text(kept * NANOSECONDS[unit])}"
    return f"{given}: the checkpoint, with which the server continues, stores {stored}"


def _extent(window: rpq.Window | rpq.UnboundedWindow) -> int | str:
    """Return the size of a window of time, or the text of an unbounded one."""
    return window.size if isinstance(window, rpq.Window) else UNBOUNDED


def _register(service: Service, queries: Sequence[tuple[dict[str, Any], rpq.Query]]) -> None:
    """Register the queries of the command line, except those that the restored engine has already."""
    running = {query.name: query for query in service.engine.queries}
    try:
        for fields, query in queries:
            before = running.get(query.name)
            if before is None:
                service.register(fields, query)
            elif before != query:
                raise click.UsageError(
                    f"{service.storage.path}: has another query named {query.name!r}: {before!r}; give this one another name"
                )
        service.settle()
    except RpqError as error:
        kind = click.UsageError if isinstance(error, (QueryError, NameTaken)) else click.ClickException
        raise kind(str(error)) from error


def _feeds(service: Service, settings: RunSettings, speed: float | None) -> tuple[Playback | None, list[Feed]]:
    if settings.schema_registry is not None and not any(map(is_topic, settings.inputs)):
        raise click.UsageError("--schema-registry applies to topics; expected --input kafka://BROKER/TOPIC")
    if not settings.inputs:
        return None, []
    if any(map(is_topic, settings.inputs)):
        if not all(map(is_topic, settings.inputs)):
            raise click.UsageError("--input: topics and files cannot be combined; name one of the two, and post the rest")
        return None, [_topic_feed(service, settings)]
    service.input_columns = service.further_columns
    opened = open_input(settings, properties=service.further_columns)
    playback = Playback(speed=speed, time_unit=opened.time_unit)
    again = [one.url for one in opened.sources if one.guarantee != "none"]
    other_inputs = [path for path in settings.inputs if path not in again]
    paths = [*map(input_identity, settings.inputs)] if are_regular(other_inputs) else None
    feed = FileFeed(service, opened.reader, playback, on_error=settings.on_error, paths=paths, sources=opened.sources)
    return playback, [feed]


def _topic_feed(service: Service, settings: RunSettings) -> Feed:
    """Return the feed of the topics that the options name.  Raises errors of click if they cannot be read."""
    service.input_columns = service.further_columns
    topics, clients = topics_and_clients(settings, properties=service.further_columns)
    try:
        return TopicFeed(service, topics, clients)
    except KafkaUsageError as error:
        raise click.UsageError(str(error)) from error
    except RpqError as error:
        raise click.ClickException(str(error)) from error


GRACE_SECONDS = 8.0
"""The seconds for responses in progress when the server ends."""

LAST_SECONDS = 4.0
"""The seconds after which the engine is interrupted then, so that requests in progress still get a response."""


DAY = 86_400


class TlsError(RpqError):
    """A certificate or key that cannot be used."""


@dataclass(frozen=True, kw_only=True)
class Tls:
    """A certificate chain and its key: two files in PEM."""

    certificate: str
    key: str

    @cached_property
    def context(self) -> ssl.SSLContext:
        """The context for connections. Raises `TlsError`."""
        for path in (self.certificate, self.key):
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise TlsError(f"{path}: cannot be read: {error.strerror or error}") from error

        def refuse_encrypted() -> str:
            raise TlsError(f"{self.key}: is encrypted; expected a key without a passphrase")

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password=refuse_encrypted)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise TlsError(f"{self.key}: is not the key of the certificate {self.certificate}") from error
            raise TlsError(
                f"{self.certificate} and {self.key}: expected a certificate and its key in PEM "
                f"({error.reason or 'neither is found'})"
            ) from error
        return context


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller, and accepting to `Connections`."""

    def __init__(self, config: uvicorn.Config, limits: ServeLimits, tls: Tls | None) -> None:
        super().__init__(config)
        self.servers = []
        self.connections = Connections(config, self.server_state, limits, None if tls is None else tls.context)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.connections.start(sockets or [])
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.connections.stop_accepting()
        await super().shutdown(sockets)
        await self.connections.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_server(
    service: Service,
    application: Application,
    sockets: Sequence[socket.socket],
    *,
    feeds: Sequence[Feed] = (),
    tls: Tls | None = None,
    ready: Callable[[Callable[[signal.Signals], None]], None] = lambda end: None,
    reload: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> signal.Signals | None:
    """Serve until a signal ends the server; then end followers, finish requests in progress and write the checkpoint.

    Returns the signal.  `ready` is called when the server accepts requests, with a function that ends it as a signal does.
    SIGHUP calls `reload`.
    """
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(
        application.asgi,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        http="h11",
        timeout_keep_alive=DAY,  # `Connections` applies the limits of time
        timeout_graceful_shutdown=int(GRACE_SECONDS),
    )
    server = _Server(config, service.limits, tls)
    application.figures.connections = server.connections
    received: list[signal.Signals] = []
    tasks: list[asyncio.Future[None]] = []

    def end(number: signal.Signals) -> None:
        if received:
            server.force_exit = True
        received.append(number)
        service.is_stopping = True
        tasks.append(asyncio.ensure_future(_interrupt(service)))
        service.hub.end("the server is stopping")
        server.should_exit = True

    handlers: dict[signal.Signals, Callable[[], object]]
    handlers = {number: partial(end, number) for number in (signal.SIGINT, signal.SIGTERM)}
    if reload is not None and hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = lambda: tasks.append(asyncio.ensure_future(reload()))
    installed = []
    for number, handler in handlers.items():
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, handler)
            installed.append(number)
    service.start(loop)
    for feed in feeds:
        feed.start()
    serving = asyncio.ensure_future(server.serve(sockets=list(sockets)))
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        ready(end)
        await serving
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
        for feed in feeds:
            await loop.run_in_executor(None, feed.stop)
        await loop.run_in_executor(None, service.stop)
        for task in tasks:
            task.cancel()
        application.close()
    return received[0] if received else None


async def _interrupt(service: Service) -> None:
    """Interrupt the engine until it ends, if it does not do so soon: everything acknowledged is on disk, or nowhere."""
    await asyncio.sleep(LAST_SECONDS)
    while True:
        service.interrupt()
        await asyncio.sleep(INTERRUPT_SECONDS)


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.  Raises `OSError`."""
    family, address = _resolve_host(host, port)
    return socket.create_server(address, family=family, backlog=2048, reuse_port=False)


def is_of_this_machine(host: str) -> bool:
    """Return whether only programs of this machine reach an address.  Raises `OSError`.

    >>> is_of_this_machine("127.0.0.1"), is_of_this_machine("::1"), is_of_this_machine("0.0.0.0"), is_of_this_machine("::")
    (True, True, False, False)
    """
    address = ipaddress.ip_address(_resolve_host(host, 0)[1][0].partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _resolve_host(host: str, port: int) -> tuple[int, tuple[str, int]]:
    """Return family and address of a host name or an address in text."""
    family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return family, (str(address[0]), int(address[1]))


def address_of(listener: socket.socket, tls: Tls | None = None) -> str:
    """Return the URL at which a socket listens."""
    found: Any = listener.getsockname()
    host, port = found[0], found[1]
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"
