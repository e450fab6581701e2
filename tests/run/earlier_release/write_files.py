"""Write saved states and checkpoints with the release that runs this, and the rows with which that release continues.

Its files are beside it, written in `/tmp/earlier_release` by the last commit before the engine was divided into the floors
of `docs/architecture.md`. `tests/run/test_earlier_release.py` continues from them. The script uses only public names, so
that a later release can run it to replace the files.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rpq

Row = tuple[Any, ...]

RUN = [
    *("run", "a/b*", "--input", "edges.txt", "--window", "20", "--slide", "3", "--semantics", "explicit"),
    *("--output", "rows.csv", "--late", "late.csv", "--checkpoint", "run.checkpoint", "--on-error", "skip", "--quiet"),
]
RUN_QUERIES = ["run", "--queries", "queries.toml", "--input", "edges.txt", "--checkpoint", "queries.checkpoint", "--quiet"]
QUERIES = """[[query]]
name = "pattern"
query = "?x a ?y . ?y b ?z"
window = 20
slide = 3
report = "slide"
output = "pattern.jsonl"

[[query]]
name = "counts"
query = "SELECT ?x (COUNT(?y) AS ?n) { ?x <a> ?y } GROUP BY ?x"
window = 20
slide = 3
output = "counts.csv"
"""
SERVE = ["serve", "a+", "--window", "20", "--slide", "3", "--semantics", "explicit", "--checkpoint", "serve.checkpoint"]


def tuples(seed: int, count: int, start: int = 0) -> list[Row]:
    """Return inserts and deletes (source, target, label, timestamp, op), some of them late."""
    chance = random.Random(seed)
    return [
        (
            f"v{chance.randrange(7)}",
            f"v{chance.randrange(7)}",
            chance.choice("abc"),
            start + number // 3 + chance.choice((0, 0, 0, -2, -40)),
            chance.choice("+++++-"),
        )
        for number in range(count)
    ]


def engines() -> Iterator[tuple[str, rpq.Engine]]:
    """Yield engines of all kinds of queries and windows, which have read the first tuples."""
    window = rpq.Window(size=20, slide=3)
    walks = rpq.Engine(
        rpq.Query("a/b*", window=window, semantics="explicit", name="walks"),
        rpq.Query("(a|^b)+", window=rpq.CountWindow(size=12, step=2), semantics="explicit", name="counted"),
        rpq.Query("a+", window=rpq.UnboundedWindow(), sources=["v1", "v2"], name="some"),
        rpq.Query("a/b*/a", window=window, paths="simple", simple_budget=4, on_budget="set_aside", name="simple"),
        witness=True,
    )
    walks.load_static([("v0", "v1", "a"), ("v5", "v6", "b")])
    yield "paths", walks
    yield (
        "patterns",
        rpq.Engine(
            rpq.Query("?x a ?y . ?y b ?z", window=window, semantics="explicit", name="all"),
            rpq.Query("?x a ?y . ?y b* ?z", window=window, report="slide", select=["x"], distinct=True, name="slides"),
            rpq.Query("?x a ?y . ?x b ?z", window=window, matching="isomorphism", name="different"),
            keep=rpq.Window(size=40, slide=3),
        ),
    )
    yield (
        "sparql",
        rpq.Engine(
            rpq.Query("SELECT ?x (COUNT(?y) AS ?n) { ?x <a> ?y } GROUP BY ?x", window=window, name="counts"),
            rpq.Query("SELECT DISTINCT ?x ?z { ?x <a> ?y OPTIONAL { ?y <b> ?z } }", window=window, name="optional"),
            rpq.Query("SELECT ?x { ?x <a> ?y FILTER NOT EXISTS { ?y <c> ?x } }", window=window, report="time", name="not"),
        ),
    )


def rows_of(engine: rpq.Engine) -> list[list[Row]]:
    """Push the tuples that follow; return the rows of each, in an order of their own."""
    found = []
    for one in tuples(2, 120, start=40):
        rows = [tuple(row) for row in engine.push_rows([one]).rows()]
        found.append(sorted(json.loads(json.dumps(rows)), key=repr))
    return found


def serve(folder: Path, posts: list[list[Row]]) -> None:
    """Start a server, post tuples, register a query, and kill it."""
    command = [sys.executable, "-m", "rpq.cli", *SERVE, "--port", "0"]
    server = subprocess.Popen(command, cwd=folder, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = next(found[1] for line in server.stdout if (found := re.search(r"serving at (http://\S+?)/?\s", line)))

    def post(path: str, content: bytes, kind: str) -> None:
        request = urllib.request.Request(f"{address}{path}", data=content, headers={"content-type": kind})
        with urllib.request.urlopen(request) as answer:
            answer.read()

    names = ("source", "target", "label", "timestamp", "op")
    for number, rows in enumerate(posts):
        lines = b"".join(json.dumps(dict(zip(names, row, strict=True))).encode() + b"\n" for row in rows)
        post("/tuples", lines, "application/x-ndjson")
        if number == 0:
            query = {"expression": "?x a ?y . ?y b ?z", "name": "pattern", "start": "empty"}
            post("/queries", json.dumps(query).encode(), "application/json")
    time.sleep(0.2)
    server.kill()
    server.wait()


def main(folder: Path) -> None:
    """Write all files to a folder."""
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    rows: dict[str, Any] = {}
    for name, engine in engines():
        engine.push_rows(tuples(1, 120))
        engine.save(f"{name}.state")
        rows[name] = rows_of(rpq.Engine.restore(f"{name}.state"))
    Path("queries.toml").write_text(QUERIES, encoding="utf-8")
    begun = "".join(f"{' '.join(map(str, one))}\n" for one in tuples(3, 120))
    Path("edges.txt").write_text(begun, encoding="utf-8")
    for arguments in (RUN, RUN_QUERIES):
        subprocess.run([sys.executable, "-m", "rpq.cli", *arguments], check=True)
    serve(folder, [tuples(4, 60), tuples(5, 60, start=20)])
    Path("rows.json").write_text(json.dumps(rows, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
