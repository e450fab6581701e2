"""Find which descendants of a process connected to an address, in the logs of a host: nested JSON lines.

The logs are written in three schemas: Sysmon, ECS and OCSF. The rules in `examples/edge_rules` convert each event to an
edge: `spawned`, `connected` or `wrote`. An intruder's shell is planted among ordinary processes. It starts a chain of
processes, and the last of them connects to 203.0.113.9. The query is the same for all logs.

    12,009 events of 4,003 processes
    ecs: the intruder's shell reached 203.0.113.9 through 3 processes
    sysmon: the intruder's shell reached 203.0.113.9 through 3 processes
    ocsf: the intruder's shell reached 203.0.113.9 through 3 processes
    the same with the command: 1 row
"""

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import rpq
from rpq.readers import ColumnNames, EdgeRules, open_reader

RULES = Path(__file__).parent / "edge_rules"
BEGIN, SHELL, TARGET = datetime(2024, 5, 1, tzinfo=UTC), "p2000", "203.0.113.9"

generator = random.Random(3)
events = []  # (time, what happens, process, parent or address or path)
parents = {number: generator.randrange(max(0, number - 50), number) for number in range(1, 4000)}
for number, parent in parents.items():
    time = BEGIN + timedelta(seconds=number)
    events.append((time, "start", f"p{number}", f"p{parent}"))
    events.append((time + timedelta(seconds=2), "connect", f"p{number}", f"10.0.0.{number % 250}"))
    events.append((time + timedelta(seconds=3), "write", f"p{number}", f"/tmp/{number % 90}"))
chain = [SHELL, "x1", "x2", "x3"]
for number, (parent, process) in enumerate(pairwise(chain)):
    time = BEGIN + timedelta(seconds=2010 + 60 * number)
    events.append((time, "start", process, parent))
    events.append((time + timedelta(seconds=1), "write", process, f"/tmp/{process}"))
events += [
    (BEGIN + timedelta(seconds=2300), "connect", "x3", TARGET),
    (BEGIN + timedelta(seconds=2301), "write", "x3", "/tmp/loot"),
    (BEGIN + timedelta(seconds=2302), "connect", "p7", "10.0.0.9"),
]
events += [(BEGIN + timedelta(seconds=4100 + number), "write", "p0", "/var/log/end") for number in range(3)]
events.sort(key=lambda event: event[0])
print(f"{len(events):,} events of {len({process for _, _, process, _ in events}):,} processes")


def ecs(time: datetime, what: str, process: str, other: str) -> dict:
    """Return an event of the Elastic Common Schema."""
    actions = {"start": "start", "connect": "connection_attempted", "write": "creation"}
    event = {"@timestamp": time.isoformat(), "event": {"action": actions[what]}, "user": {"name": "ann"}}
    further = {
        "start": {"process": {"entity_id": process, "parent": {"entity_id": other}}},
        "connect": {"process": {"entity_id": process}, "destination": {"ip": other, "port": 443}},
        "write": {"process": {"entity_id": process}, "file": {"path": other}},
    }
    return event | further[what]


def sysmon(time: datetime, what: str, process: str, other: str) -> dict:
    """Return an event of Sysmon."""
    names = {"start": "ParentProcessGuid", "connect": "DestinationIp", "write": "TargetFilename"}
    data = {"ProcessGuid": process, names[what]: other}
    number = {"start": 1, "connect": 3, "write": 11}[what]
    return {"@timestamp": time.isoformat(), "winlog": {"event_id": number, "event_data": data}}


def ocsf(time: datetime, what: str, process: str, other: str) -> dict:
    """Return an event of the Open Cybersecurity Schema Framework."""
    event = {"time": int(time.timestamp() * 1000), "activity_id": 1}
    further = {
        "start": {"class_uid": 1007, "actor": {"process": {"uid": other}}, "process": {"uid": process}},
        "connect": {"class_uid": 4001, "actor": {"process": {"uid": process}}, "dst_endpoint": {"ip": other}},
        "write": {"class_uid": 1001, "actor": {"process": {"uid": process}}, "file": {"path": other}},
    }
    return event | further[what]


for name, make in {"ecs": ecs, "sysmon": sysmon, "ocsf": ocsf}.items():
    Path(f"{name}.jsonl").write_text("".join(json.dumps(make(*event)) + "\n" for event in events))
    rules = EdgeRules.read(str(RULES / f"{name}.toml"))
    reader = open_reader("jsonl", f"{name}.jsonl", rules=rules, columns=ColumnNames(), time_unit="ms")
    query = rpq.Query("spawned+/connected", sources=[SHELL], targets=[TARGET], window=rpq.Window(size="1h", slide="1m"))
    engine = rpq.Engine(query, time_unit="ms", witness=True)
    for batch in reader:
        for row in engine.push(batch.columns).to_arrow(query.name).to_pylist():
            steps = len(engine.witness(SHELL, TARGET).labels)
            print(f"{name}: the intruder's shell reached {row['target']} through {steps - 1} processes")

command = [sys.executable, "-m", "rpq.cli", "run", "spawned+/connected", "--source", SHELL, "--target", TARGET]
options = ["--input", "ecs.jsonl", "--edges-from", str(RULES / "ecs.toml"), "--window", "1h", "--slide", "1m"]
subprocess.run([*command, *options, "--output", "rows.csv", "--quiet"], check=True)
rows = Path("rows.csv").read_text().splitlines()[1:]
print(f"the same with the command: {len(rows)} row")
