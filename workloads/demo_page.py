"""`rpq demo --page`: the stream of the demo played back by a server, whose page a browser shows."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
import webbrowser
from contextlib import closing
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pyarrow as pa

QUERIES = """\
[defaults]
semantics = "explicit"

[[query]]
name = "Whom does an answer reach, reply by reply?"
query = "answered/replied*"
window = "36h"
slide = "6h"

[[query]]
name = "Who replies to a rival who answered the same person?"
query = "?critic answered ?asker . ?rival answered ?asker . ?critic replied ?rival"
window = "10d"
slide = "1d"

[[query]]
name = "Who replies to somebody whom the other answered?"
query = "replied/^answered"
window = "2d"
slide = "6h"
"""
"""What the page begins with: a path, a pattern, and a path that goes against an edge. Their names say what they ask."""

VERBS = {"a2q": "answered", "c2a": "replied", "c2q": "commented"}
"""Labels of the stream as people say them: a reply is a comment on an answer, from who wrote it to who had answered."""

GIVEN = (
    "Ada Aiko Alma Amir Anna Arjun Asha Bao Bela Bruno Carla Chidi Clara Dana Dario Edda Elif Emil Esra Farid Finn Gita "
    "Greta Hana Hugo Ida Ines Ivan Jana Jin Juan Kaya Kofi Lara Leo Lena Lina Luca Maja Mara Mei Milo Mina Nadia Nia Noor "
    "Olga Omar Otto Pia Priya Rafa Rosa Sami Sara Tariq Tess Uma Vera Yuki"
).split()
INITIALS = "ABCDEFGHIJKLMNOPRSTUVWXYZ"

SPEED = 21_600
"""A quarter of a day of the stream a second: its 120 days take eight minutes, and an answer of 36 hours six seconds."""

KEPT = "10d"
"""So far back queries see that are written on the page."""

STARTED_SECONDS = 300.0
"""So long at most until the server answers: kernels may have to be compiled."""


def show_page(stream: pa.Table, *, port: int) -> int:
    """Serve the stream until Ctrl-C; the exit status. Raises click's exceptions."""
    from rpq.serve.command import serve
    from rpq.workloads.generate.writing import write_stream

    port = port or _free_port()
    with tempfile.TemporaryDirectory(prefix="rpq-demo-") as folder:
        queries, tuples = os.path.join(folder, "queries.toml"), os.path.join(folder, "stream.tsv")
        with open(queries, "w", encoding="utf-8") as file:
            file.write(QUERIES)
        write_stream(with_people(stream).to_batches(), tuples)
        click.echo(f"The page: http://127.0.0.1:{port}/  (Ctrl-C ends it)")
        click.echo("People of a question-and-answer site answer questions and reply to answers: who is joined by that?")
        if _shows_windows():
            threading.Thread(target=_open_once_it_answers, args=(port,), daemon=True).start()
        asked = [
            "--queries", queries, "--input", tuples, "--playback-speed", str(SPEED), "--time-unit", "s", "--keep", KEPT,
            "--port", str(port),
        ]  # fmt: skip
        try:
            serve.main(asked, prog_name="rpq serve", standalone_mode=False)
        except SystemExit as ended:
            # Ctrl-C is how the demo ends.
            return 0 if ended.code == 130 else int(ended.code or 0)
    return 0


def with_people(stream: pa.Table) -> pa.Table:
    """Return the stream with names of people in place of `u0`, `u1`, …, and with verbs as labels."""
    import pyarrow as pa

    names = {name: person(int(name[1:])) for end in ("source", "target") for name in stream[end].unique().to_pylist()}
    for column, words in (("source", names), ("target", names), ("label", VERBS)):
        codes = stream[column].combine_chunks().dictionary_encode()
        named = pa.array([words[word] for word in codes.dictionary.to_pylist()], pa.string()).take(codes.indices)
        stream = stream.set_column(stream.schema.get_field_index(column), column, named)
    return stream


def person(number: int) -> str:
    """Return the name of a user: a different one for each number.

    >>> person(0), person(1), person(60)
    ('Ada A.', 'Aiko B.', 'Ada B.')
    """
    turn, given = divmod(number, len(GIVEN))
    more, turn = divmod(turn, len(INITIALS))
    initial = INITIALS[(turn + given) % len(INITIALS)]
    return f"{GIVEN[given]} {initial}." if more == 0 else f"{GIVEN[given]} {initial}. {more + 1}"


def _free_port() -> int:
    """A port at which nobody listens."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _shows_windows() -> bool:
    """Whether somebody sits before this process, with a desktop on which a browser can open."""
    if not sys.stderr.isatty():
        return False
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _open_once_it_answers(port: int) -> None:
    """Let the browser of the system show the page as soon as the server answers."""
    end = time.monotonic() + STARTED_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            # A socket that listens is there before the engine is ready, and keeps the browser waiting until it is.
            webbrowser.open(f"http://127.0.0.1:{port}/")
            return
