"""A server under load on this machine: a hundred followers, a tenth of them stalled, and a producer at full speed."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import zlib
from urllib.parse import urlsplit

import numpy as np
import pytest

import rpq
from tests.services.served import Command, arrow

ROWS = 200
"""The number of tuples of a post."""

WIDTH = 100
"""The length of a vertex: the changes of the shortest stream take 10 MB, more than the system keeps for a reader that has
stalled (4 MB on Linux) and what its lag allows.
"""


class Front:
    """The rows that the slowest of the active followers has read; a producer waits for it."""

    def __init__(self) -> None:
        self._read: dict[int, int] = {}
        self._moved = asyncio.Event()

    def note(self, follower: int, rows: int) -> None:
        self._read[follower] = rows
        self._moved.set()

    async def reaches(self, rows: int) -> None:
        """Wait until every active follower has read so many rows."""
        while min(self._read.values()) < rows:
            self._moved.clear()
            await self._moved.wait()


async def follow(
    host: str, port: int, expected: int, front: Front, number: int, received: list[bytes] | None = None
) -> tuple[int, int]:
    """Read all changes, as they come; how many rows there were, and a checksum of them."""
    front.note(number, 0)
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
    writer.write(f"GET /changes HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    rows = checksum = 0
    kind = b""
    while rows < expected:
        line = await reader.readline()
        assert line, "the server ended"
        if line.startswith(b"event: "):
            kind = line[7:].strip()
            assert kind in (b"start", b"changes"), line
        elif line.startswith(b"data: ") and kind == b"changes":
            rows += line.count(b'"op":')
            front.note(number, rows)
            checksum = zlib.crc32(line, checksum)
            if received is not None:
                received.append(line[6:])
    writer.close()
    return rows, checksum


def stall(host: str, port: int) -> socket.socket:
    """Follow, and read nothing."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((host, port))
    made.sendall(f"GET /changes HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return made


@pytest.mark.ci
def test_followers_and_a_producer_at_full_speed(tmp_path):
    followers, stalled, posts, lag = 20, 3, 120, 5_000
    drawn = np.random.default_rng(7)
    parts = [
        {
            "source": [f"s{one}".ljust(WIDTH, "-") for one in drawn.integers(0, 200, ROWS)],
            "target": [f"t{one}".ljust(WIDTH, "-") for one in drawn.integers(0, 200, ROWS)],
            "label": ["a"] * ROWS,
            "timestamp": np.arange(ROWS) + push * ROWS,
        }
        for push in range(posts)
    ]
    engine = rpq.Engine(rpq.Query("a", window=rpq.Window(size=5000, slide=100), semantics="explicit"))
    rows: list[rpq.Change] = []
    pushed = []  # the number of rows after each part
    for part in parts:
        rows += engine.push(part).rows()
        pushed.append(len(rows))
    options = ["a", "--window", "5000", "--slide", "100", "--semantics", "explicit", "--max-lag", str(lag)]
    received: list[bytes] = []
    with Command(*options, log=tmp_path / "log") as served:
        address = urlsplit(served.url)
        assert address.hostname is not None and address.port is not None
        host, port = address.hostname, address.port

        async def main() -> tuple[list[tuple[int, int]], list[float]]:
            silent = [stall(host, port) for _ in range(stalled)]
            front = Front()
            active = [follow(host, port, len(rows), front, number) for number in range(followers - stalled - 1)]
            active.append(follow(host, port, len(rows), front, len(active), received))
            took = []
            async with asyncio.TaskGroup() as group:
                reading = [group.create_task(one) for one in active]
                while served.client.get("/statistics").json()["followers"] < followers:
                    await asyncio.sleep(0.1)
                for part, before in zip(parts, [0, *pushed]):
                    # On a busy machine the active followers set the pace, so that only the stalled ones exceed the lag.
                    await front.reaches(before - lag // 2)
                    began = time.monotonic()
                    response = await asyncio.to_thread(
                        served.client.post,
                        "/tuples",
                        content=arrow(**part),
                        headers={"content-type": "application/vnd.apache.arrow.stream"},
                    )
                    assert response.status_code == 200
                    took.append(time.monotonic() - began)
            found = [one.result() for one in reading]
            until = time.monotonic() + 60
            while served.client.get("/statistics").json()["followers_dropped"] < stalled and time.monotonic() < until:
                await asyncio.sleep(0.1)
            for one in silent:
                one.close()
            return found, took

        found, took = asyncio.run(main())
        assert len(set(found)) == 1 and found[0][0] == len(rows)
        changes = [change for line in received for change in json.loads(line)["changes"]]
        assert [(one["op"], one["timestamp"], *one["values"]) for one in changes] == [
            (row.op, row.timestamp, row.source, row.target) for row in rows
        ]
        figures = served.client.get("/statistics").json()
        print(f"posts: median {np.median(took) * 1e3:.1f} ms, p99 {np.quantile(took, 0.99) * 1e3:.1f} ms; {figures}")
        assert figures["followers_dropped"] == stalled
        assert served.end() == 0
