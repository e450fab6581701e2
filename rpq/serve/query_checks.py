"""Compilation and explanation of clients' queries in a separate process, so that no query can block the server.

The time for a query is limited, and its work ends when its client disconnects: then the process is killed, and the next
query gets a new one. A thread could not be ended, and would occupy the interpreter meanwhile.

Explanations have pictures of automata and patterns: SVG that a page can include, in the page's colour, without styles and
scripts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import threading
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from msgspec import UNSET

from rpq.engine.explanation import explain_query
from rpq.errors import RpqError
from rpq.language.query import Query
from rpq.serve.models import Explained, ServeLimits, Understood
from rpq.serve.requests import Problem, QueryDefaults, parse_query, problem_of

if TYPE_CHECKING:
    from rpq.engine.explanation import Drawing

LOG = logging.getLogger("rpq.serve")

MAX_WAITING = 16
"""Maximum number of queries that wait for the one in progress."""

START_SECONDS = 120.0
"""The seconds within which the process must start."""

MEMORY = 2 << 30
"""The number of bytes that the process may allocate after its start."""

_LENGTH = struct.Struct("!Q")
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rpq.serve.query_checks import work; work()"


@dataclass(eq=False)
class _Job:
    """A request to the process."""

    message: bytes
    seconds: float
    is_stopped: bool = False
    is_too_slow: bool = False


class QueryChecks:
    """A service that compiles and explains clients' queries, one after the other.

    All methods raise `Problem` for errors in a query, and for one that takes too long. Cancelling the waiting task ends
    the work.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rpq-check")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._running: _Job | None = None
        self._waiting = 0

    async def compile(self, fields: Any, defaults: QueryDefaults, limits: ServeLimits) -> Query:
        """Return the query that a JSON object describes."""
        return await self._request("compile", (_check_length(fields, limits), defaults), limits)

    async def check(self, fields: Any, defaults: QueryDefaults, limits: ServeLimits) -> Understood:
        """Return explanation, columns and warnings of the query that a JSON object describes."""
        return await self._request("check", (_check_length(fields, limits), defaults), limits)

    async def explain(self, query: Query, running: str | None, limits: ServeLimits) -> Explained:
        """Return the explanation of a query; `running` is that of the engine that runs it."""
        return await self._request("explain", (query, running), limits)

    def close(self) -> None:
        """End the work in progress, and the process."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            if self._running is not None:
                self._running.is_stopped = True
            self._kill()

    async def _request(self, what: str, arguments: tuple[Any, ...], limits: ServeLimits) -> Any:
        if self._waiting > MAX_WAITING:
            raise Problem(503, "TooManyChecks", "other queries are being compiled; try again", None, {"Retry-After": "1"})
        job = _Job(pickle.dumps((what, arguments)), limits.check_seconds)
        self._waiting += 1
        try:
            kind, content = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, job)
        except asyncio.CancelledError:
            self._stop(job)
            raise
        finally:
            self._waiting -= 1
        if kind == "problem":
            raise content
        if kind == "failed":
            LOG.error("a query could not be checked\n%s", content)
            raise Problem(500, "InternalError", "the server failed; its log says more")
        return content

    def _run(self, job: _Job) -> tuple[str, Any]:
        """Execute a job in the process; runs in the thread."""
        with self._lock:
            if job.is_stopped:
                return "stopped", None
            self._running = job
        try:
            process = self._ready_process(job)
            with self._time_limit(job, job.seconds):
                return _exchange(process, job.message)
        except (OSError, EOFError) as error:
            with self._lock:
                self._kill()
            if job.is_stopped:
                return "stopped", None
            if job.is_too_slow:
                message = f"compiling and explaining the query takes over {job.seconds:g} seconds; expected a smaller one"
                return "problem", Problem(422, "QueryTooLarge", message, {"field": "expression"})
            if isinstance(error, EOFError):  # it was killed, or its stack overflowed
                message = "the process that compiles queries crashed at this one; expected a smaller one"
                return "problem", Problem(422, "QueryTooLarge", message, {"field": "expression"})
            message = f"no process can be started to compile the query: {error.strerror or error}"
            return "problem", Problem(503, "NoProcess", message, None, {"Retry-After": "5"})
        finally:
            with self._lock:
                self._running = None

    def _ready_process(self, job: _Job) -> subprocess.Popen[bytes]:
        """Return the process, after it has reported that it is ready."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            self._kill()
            process = self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, json.dumps(sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        with self._time_limit(job, START_SECONDS):
            assert process.stdout is not None
            _receive(process.stdout)
        return process

    @contextlib.contextmanager
    def _time_limit(self, job: _Job, seconds: float) -> Any:
        """Kill the process if the context takes longer than `seconds`."""

        def stop() -> None:
            job.is_too_slow = True
            self._stop(job, is_stopped=False)

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _stop(self, job: _Job, *, is_stopped: bool = True) -> None:
        """Prevent a job from starting, or end it."""
        with self._lock:
            job.is_stopped = job.is_stopped or is_stopped
            if self._running is job and self._process is not None:
                self._process.kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        process.wait()


def _check_length(fields: Any, limits: ServeLimits) -> Any:
    text = fields.get("expression") if isinstance(fields, Mapping) else None
    if isinstance(text, str) and len(text.encode(errors="surrogatepass")) > limits.expression_bytes:
        message = f"the text of the query has more than {limits.expression_bytes:,} bytes (--max-expression)"
        raise Problem(422, "QueryTooLarge", message, {"field": "expression"})
    return fields


# --- messages between the processes ----------------------------------------------------------------------------------


def _exchange(process: subprocess.Popen[bytes], message: bytes) -> tuple[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    _send(process.stdin, message)
    found: tuple[str, Any] = pickle.loads(_receive(process.stdout))
    return found


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    return _read_exactly(stream, length)


def _read_exactly(stream: IO[bytes], length: int) -> bytes:
    found = stream.read(length)
    if len(found) < length:
        raise EOFError
    return found


# --- the process -----------------------------------------------------------------------------------------------------


def work() -> None:
    """Execute the requests on standard input until it ends; the main function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not mix with messages
    _limit_memory()
    texts = ("a/b*", "?x a ?y", "SELECT * { ?x <a> ?y }", "MATCH (x)-->(y) RETURN x")
    for text in texts:  # to import everything that a query needs
        _answer("check", ({"expression": text, "window": 1}, QueryDefaults(fields={})))
    _send(sink, b"")
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            what, arguments = pickle.loads(_receive(source))
            _send(sink, pickle.dumps(_answer(what, arguments)))


def _answer(what: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    text = arguments[0].get("expression") if isinstance(arguments[0], Mapping) else None
    try:
        return "done", _WORK[what](*arguments)
    except RecursionError:
        message = "the query is nested too deeply"
        return "problem", Problem(422, "QueryError", message, {"field": "expression"})
    except MemoryError:
        message = "the query takes too much memory; expected a smaller one"
        return "problem", Problem(422, "QueryTooLarge", message, {"field": "expression"})
    except (RpqError, ValueError) as error:
        return "problem", problem_of(error, text if isinstance(text, str) else None)
    except Exception:
        return "failed", traceback.format_exc()


def _check_query(fields: Any, defaults: QueryDefaults) -> Understood:
    query = parse_query(fields, defaults)
    about = explain(query)
    warnings = list(getattr(query, "warnings", ())) or UNSET
    return Understood(
        text=about.text, svg=about.svg, language=query.notation, columns=list(query.columns), warnings=warnings
    )


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


MAX_ARROWS = 200
"""Maximum number of arrows in a picture: time is quadratic in it, and larger pictures are illegible."""


def explain(query: Query, running: str | None = None) -> Explained:
    """Return the explanation of a query; `running` is that of an engine, unless none runs it or it is a path query."""
    explanation = explain_query(query)
    drawing = explanation.drawing(most_arrows=MAX_ARROWS)
    return Explained(str(explanation) if running is None else running, None if drawing is None else draw(drawing))


def draw(drawing: Drawing) -> str:
    """Return a drawing as SVG: an automaton from left to right, a pattern on a circle with dashed arrows for paths."""
    is_automaton = drawing.kind == "automaton"
    across, up = (1.5, 1.2) if is_automaton else (1.3, 1.1)
    nodes = [
        PictureNode(text, x * across, y * up, shape, is_start=is_automaton and number == 0)
        for number, (text, (x, y), shape) in enumerate(drawing.nodes)
    ]
    return draw_graph(nodes, [PictureArrow(*arrow) for arrow in drawing.arrows], title=drawing.kind)


SCALE = 80.0
"""Pixels per unit of the coordinates."""

RADIUS, HEIGHT, LETTER, FONT = 18.0, 30.0, 8.0, 14
MARGIN = 24.0
LONGEST = 40
"""Maximum number of characters of a label."""

UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
"""Control characters, among them those that change the direction of writing, and line separators."""

INVISIBLE_CHARACTERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f"
    "\uffa0\ufff0-\ufff8\ufffe\uffff\U000e0000-\U000e0fff]"
)
"""Invisible characters of other categories: fillers, selectors, the Braille blank, and characters that XML excludes."""


class TextPart(NamedTuple):
    """A piece of a drawn text: as it is, or the escape of one invisible character."""

    text: str
    is_escape: bool


@dataclass(frozen=True)
class PictureNode:
    """A node at a place; `y` grows upwards."""

    text: str
    x: float
    y: float
    shape: Literal["circle", "double", "round", "box"]
    is_start: bool = False

    @property
    def label_parts(self) -> list[TextPart]:
        return _parts(self.text)

    @property
    def reach(self) -> tuple[float, float]:
        """Half of the width and half of the height."""
        if self.shape in ("circle", "double"):
            return RADIUS, RADIUS
        return max(RADIUS, _length(self.label_parts) * LETTER / 2 + 8), HEIGHT / 2

    @property
    def place(self) -> tuple[float, float]:
        return self.x * SCALE, -self.y * SCALE


@dataclass(frozen=True)
class PictureArrow:
    """An arrow between two nodes, given by their numbers."""

    start: int
    end: int
    text: str
    is_dashed: bool = False


def draw_graph(nodes: Sequence[PictureNode], arrows: Sequence[PictureArrow], *, title: str) -> str:
    """Return the picture of a graph as SVG; the texts of nodes and arrows are escaped.

    >>> picture = draw_graph([PictureNode("<b>", 0, 0, "box")], [], title="one")
    >>> "&lt;b&gt;" in picture, "<b>" in picture
    (True, False)

    Characters that are invisible, or change the direction of text, are shown as escapes:

    >>> "‹U+202E›" in draw_graph([PictureNode("\u202ebob", 0, 0, "box")], [], title="one")
    True
    """
    places = [node.place for node in nodes]
    together = Counter(frozenset((arrow.start, arrow.end)) for arrow in arrows)
    seen: Counter[frozenset[int]] = Counter()
    shapes: list[str] = []
    xs = [x + sign * (node.reach[0] + 14) for node, (x, _) in zip(nodes, places, strict=True) for sign in (-1, 1)]
    ys = [y + sign * (node.reach[1] + 14) for node, (_, y) in zip(nodes, places, strict=True) for sign in (-1, 1)]
    for arrow in arrows:
        ends = frozenset((arrow.start, arrow.end))
        number, seen[ends] = seen[ends], seen[ends] + 1
        if arrow.start == arrow.end:
            path, label = _loop(nodes[arrow.start], number)
        else:
            bend = _bend(arrow, nodes, number, together[ends])
            path, label = _curve(nodes[arrow.start], nodes[arrow.end], bend)
        dashes = ' stroke-dasharray="5 4"' if arrow.is_dashed else ""
        shapes.append(f'<path d="{path}" fill="none" stroke="currentColor"{dashes} marker-end="url(#rpq-{title}-tip)"/>')
        text = _parts(arrow.text)
        shapes.append(_text(label[0], label[1], text, "rpq-label", size=FONT - 2))
        half = _length(text) * LETTER / 2
        xs += [label[0] - half, label[0] + half]
        ys += [label[1] - 14, label[1] + 8]
    for node in nodes:
        shapes += _node(node, title)
        if node.is_start:
            xs.append(node.place[0] - RADIUS - 40)
    left, top = min(xs, default=0) - MARGIN, min(ys, default=0) - MARGIN
    width, height = max(xs, default=0) + MARGIN - left, max(ys, default=0) + MARGIN - top
    tip = (
        f'<defs><marker id="rpq-{title}-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="currentColor"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label={quoteattr(title)} class="rpq-drawing">'
        f"{tip}{''.join(shapes)}</svg>"
    )


def _parts(text: str) -> list[TextPart]:
    """Return a name with escapes for invisible characters, as the page writes names, truncated to `LONGEST`."""
    if not text:
        return [TextPart("‹empty›", True)]
    parts = [
        TextPart(f"‹U+{ord(letter):04X}›", True) if _is_unseen(text, at) else TextPart(letter, False)
        for at, letter in enumerate(text[: LONGEST + 1])
    ]
    return parts if len(text) <= LONGEST else [*parts[: LONGEST - 1], TextPart("…", False)]


def _is_unseen(text: str, at: int) -> bool:
    """Return whether a character is invisible, as blanks are at the ends of a text and after another blank."""
    letter = text[at]
    if letter == " ":
        return at in (0, len(text) - 1) or text[at - 1] == " "
    category = unicodedata.category(letter)
    return category in UNSEEN_CATEGORIES or category == "Zs" or INVISIBLE_CHARACTERS.match(letter) is not None


def _length(parts: list[TextPart]) -> int:
    return sum(len(part.text) for part in parts)


def _text(x: float, y: float, parts: list[TextPart], kind: str, *, size: int = FONT) -> str:
    written = "".join(
        f'<tspan class="rpq-escape" font-style="italic">{part.text}</tspan>' if part.is_escape else escape(part.text)
        for part in parts
    )
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" dominant-baseline="central" font-size="{size}" '
        f'font-family="system-ui, sans-serif" fill="currentColor" unicode-bidi="isolate" class="{kind}">{written}</text>'
    )


def _node(node: PictureNode, title: str) -> list[str]:
    x, y = node.place
    half, high = node.reach
    common = 'fill="none" stroke="currentColor" class="rpq-node"'
    shapes = []
    if node.shape in ("circle", "double"):
        shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" {common}/>')
        if node.shape == "double":
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS - 4}" {common}/>')
    else:
        corner = HEIGHT / 2 if node.shape == "round" else 2
        place = f'x="{x - half:.1f}" y="{y - high:.1f}" width="{2 * half:.1f}" height="{2 * high:.1f}"'
        shapes.append(f'<rect {place} rx="{corner}" {common}/>')
    if node.is_start:
        path = f"M{x - half - 36:.1f} {y:.1f}L{x - half - 2:.1f} {y:.1f}"
        shapes.append(f'<path d="{path}" fill="none" stroke="currentColor" marker-end="url(#rpq-{title}-tip)"/>')
    shapes.append(_text(x, y, node.label_parts, "rpq-name"))
    return shapes


def _bend(arrow: PictureArrow, nodes: Sequence[PictureNode], number: int, together: int) -> float:
    """Return the bend of an arrow, which is 0 unless several arrows join two nodes, or a node lies between them."""
    start, end = nodes[arrow.start], nodes[arrow.end]
    sign = 1 if arrow.start < arrow.end else -1
    if together > 1:
        return 0.22 * (number + 1) if sign > 0 or number else 0.22
    lies_between = any(
        node is not start and node is not end and abs(node.y - start.y) < 0.3 and abs(node.y - end.y) < 0.3
        and min(start.x, end.x) < node.x < max(start.x, end.x)
        for node in nodes
    )  # fmt: skip
    return 0.35 if lies_between else 0.0


def _curve(start: PictureNode, end: PictureNode, bend: float) -> tuple[str, tuple[float, float]]:
    """Return the SVG path of an arrow from rim to rim, and the place of its label."""
    (x1, y1), (x2, y2) = start.place, end.place
    length = math.dist((x1, y1), (x2, y2)) or 1.0
    across = ((y2 - y1) / length, -(x2 - x1) / length)
    middle = ((x1 + x2) / 2 + across[0] * bend * length, (y1 + y2) / 2 + across[1] * bend * length)
    first, last = _rim(start, middle), _rim(end, middle)
    path = f"M{first[0]:.1f} {first[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {last[0]:.1f} {last[1]:.1f}"
    top = tuple(0.25 * a + 0.5 * b + 0.25 * c for a, b, c in zip((x1, y1), middle, (x2, y2), strict=True))
    return path, (top[0] + across[0] * 12, top[1] + across[1] * 12)


def _rim(node: PictureNode, towards: tuple[float, float]) -> tuple[float, float]:
    """Return the point at which the line to another point leaves a node."""
    x, y = node.place
    dx, dy = towards[0] - x, towards[1] - y
    length = math.hypot(dx, dy) or 1.0
    half, high = node.reach
    if node.shape in ("circle", "double"):
        reach = RADIUS
    else:
        reach = min(half * length / abs(dx) if dx else math.inf, high * length / abs(dy) if dy else math.inf)
    reach += 2
    return x + dx / length * reach, y + dy / length * reach


def _loop(node: PictureNode, number: int) -> tuple[str, tuple[float, float]]:
    """Return the SVG path of an arrow from a node to itself, above it, and the place of its label."""
    x, y = node.place
    _, high = node.reach
    rise = 46 + 20 * number
    top = y - high - rise
    path = f"M{x - 9:.1f} {y - high:.1f}C{x - 30:.1f} {top:.1f} {x + 30:.1f} {top:.1f} {x + 9:.1f} {y - high - 1:.1f}"
    return path, (x, y - high - rise * 0.75 - 10)


_WORK: dict[str, Callable[..., Any]] = {"compile": parse_query, "check": _check_query, "explain": explain}
