"""Write the events of ten hosts in the Elastic Common Schema, as nested JSON lines: logons and processes.

The recipe "Logons of hosts, live" of docs/own-data.md posts them to a server. An intruder logs on from host to host, and
starts a tool in a shell of the last one.

    hosts.jsonl: 2,007 events: 1,003 logged-in, 1,004 start
"""

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

chance = random.Random(1)
events = []


def add(second: int, action: str, host: int, **fields: object) -> None:
    time = datetime(2026, 3, 2, tzinfo=UTC) + timedelta(seconds=second)
    of_host = {"name": f"host-{host}", "ip": [f"10.0.0.{host}", f"fe80::{host}"]}
    events.append({"@timestamp": time.isoformat(), "event": {"action": action}, "host": of_host, **fields})


def log_on(second: int, source: int, host: int, outcome: str, user: str) -> None:
    add(second, "logged-in", host, source={"ip": f"10.0.0.{source}"}, user={"name": user})
    events[-1]["event"]["outcome"] = outcome


def start(second: int, host: int, process: str, parent: str | None, command: str) -> None:
    named = {"entity_id": process, "command_line": command}
    add(second, "start", host, process=named | ({"parent": {"entity_id": parent}} if parent else {}))


for number in range(1_000):  # users log on from host 0, and nobody from 1 to 9 with success
    log_on(number * 30, chance.choice([0, 0, 0, 5]), chance.randrange(1, 10), "failure", "ann")
    start(number * 30, chance.randrange(10), f"p{number}", f"p{number // 2}" if number else None, "sh -c backup")
for place, (source, host) in enumerate([(0, 3), (3, 7), (7, 9)]):
    log_on(9_000 + 60 * place, source, host, "success", "svc")
for place, command in enumerate(["sshd", "bash", "python3 -", "mimikatz"]):
    start(9_300 + place, 9, f"x{place}", f"x{place - 1}" if place else "p0", command)
events.sort(key=lambda event: event["@timestamp"])
Path("hosts.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
counts = Counter(event["event"]["action"] for event in events)
print(f"hosts.jsonl: {len(events):,} events: {', '.join(f'{count:,} {action}' for action, count in sorted(counts.items()))}")
