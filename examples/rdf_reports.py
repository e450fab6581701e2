"""Report hot rooms from RDF over HTTP: post N-Quads to a server whose query in RSP-QL reports every five minutes.

The time of an observation is in the name of its graph, as in `<http://example.org/at/2024-05-01T12:00:00Z>`. The rooms of
the sensors do not change: these triples are in a file. A thread receives the reports as server-sent events while
observations are posted; the current answers are read at the end. The client needs only the standard library.

    serving http://example.org/hot
    12:05  kitchen at 30.50
    12:10  kitchen at 33.50
    12:15  hall at 30.40, kitchen at 38.50
    12:20  kitchen at 43.50
    posted 66 observations as N-Quads: 132 triples
    now: kitchen 44
"""

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

EX, SOSA, XSD = "http://example.org/", "http://www.w3.org/ns/sosa/", "http://www.w3.org/2001/XMLSchema#"
BEGIN, MINUTES = datetime(2024, 5, 1, 12, tzinfo=UTC), 20

ROOMS = {"s1": "kitchen", "s2": "hall", "s3": "attic"}

Path("rooms.nt").write_text("".join(f"<{EX}{sensor}> <{EX}in> <{EX}{room}> .\n" for sensor, room in ROOMS.items()))
Path("hot.rq").write_text("""
PREFIX ex: <http://example.org/>
PREFIX sosa: <http://www.w3.org/ns/sosa/>
REGISTER RSTREAM ex:hot AS
SELECT ?room (AVG(?value) AS ?mean)
FROM NAMED WINDOW ex:recent ON ex:observations [RANGE PT10M STEP PT5M]
WHERE {
  ?sensor ex:in ?room .
  WINDOW ex:recent { ?observation sosa:madeBySensor ?sensor ; sosa:hasSimpleResult ?value }
}
GROUP BY ?room HAVING (AVG(?value) > 30)
""")


def observations(minute: int) -> str:
    """Return the observations of a minute as N-Quads: the kitchen heats up, and the hall is hot for a while."""
    time = (BEGIN + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ")
    quads = []
    for sensor, value in {"s1": 28 + minute, "s2": 33 if 5 < minute < 14 else 20, "s3": 18}.items():
        observation, graph = f"<{EX}{sensor}/{minute}>", f"<{EX}at/{time}>"
        quads.append(f"{observation} <{SOSA}madeBySensor> <{EX}{sensor}> {graph} .\n")
        quads.append(f'{observation} <{SOSA}hasSimpleResult> "{value}"^^<{XSD}decimal> {graph} .\n')
    return "".join(quads)


def name(value: str) -> str:
    return value.removeprefix(EX)


def follow(address: str, query: str, begun: threading.Event) -> None:
    """Collect the reports up to the last one, and print them. Set `begun` when the server sends its first event."""
    reports: dict[int, list[str]] = {}
    with urlopen(f"{address}/changes?query={quote(query, safe='')}") as events:
        for line in events:
            if not line.startswith(b"data: "):
                continue
            begun.set()
            for change in json.loads(line[6:]).get("changes", ()):
                room, mean = change["values"]
                reports.setdefault(change["timestamp"], []).append(f"{name(room)} at {float(mean):.2f}")
            if reports and max(reports) >= (BEGIN + timedelta(minutes=MINUTES)).timestamp():
                break
    for time, rooms in sorted(reports.items()):
        print(f"{datetime.fromtimestamp(time, UTC):%H:%M}  {', '.join(sorted(rooms))}")


command = [sys.executable, "-m", "rpq.cli", "serve", "--query-file", "hot.rq", "--port", "0", "--time-unit", "s"]
options = ["--static", "rooms.nt", "--static-format", "rdf", "--rdf-time", "graph-name"]
with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
    try:
        address = next(line.split()[-1] for line in server.stderr if line.startswith("serving at")).rstrip("/")
        with urlopen(f"{address}/queries") as answer:
            (query,) = [one["name"] for one in json.load(answer)["queries"]]
        print(f"serving {query}")
        begun = threading.Event()
        follower = threading.Thread(target=follow, args=(address, query, begun))
        follower.start()
        begun.wait()
        triples = 0
        for minute in range(MINUTES + 2):  # a report is due when stream time has passed its boundary
            headers = {"content-type": "application/n-quads"}
            post = Request(f"{address}/tuples?stream={EX}observations", observations(minute).encode(), headers)
            with urlopen(post) as answer:
                triples += json.load(answer)["tuples"]
        follower.join()
        print(f"posted {triples // 2} observations as N-Quads: {triples} triples")
        with urlopen(f"{address}/queries/{quote(query, safe='')}/answers") as answer:
            print("now:", ", ".join(f"{name(room)} {mean}" for room, mean in json.load(answer)["rows"]))
    finally:
        server.terminate()
