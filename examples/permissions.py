"""Maintain which documents users who are online may see, from the changelog of OpenFGA, with a reason for each.

Users are in groups, which are in other groups; documents are in folders. Groups and users have rights on both, may be
blocked from some, and everybody may see what is public. The rules in `examples/edge_rules/openfga.toml` convert each change
of a tuple to an edge, and `user:*` to a label. A tuple that is written or deleted changes the answer at once.

    2,992 changes of tuples
    user:7 may see 184, user:8 may see 162, user:9 may see 134; 35 are public
    because of user:7 -> group:10 -> group:2 -> group:0 -> folder:15 -> folder:79 -> document:86
    because of user:100 -> group:8 -> group:2 -> group:0 -> folder:15 -> folder:79 -> document:86
    when group:10 is blocked from folder:76, 15 rows leave, of user:7
    when group:0 loses folder:15, 220 rows leave, of user:7, user:8, user:9
    with the command: 480 rows remain of those in rows.csv
"""

import csv
import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import rpq
from rpq.readers import ColumnNames, EdgeRules, open_reader

RULES = Path(__file__).parent / "edge_rules" / "openfga.toml"
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
ONLINE = ["user:7", "user:8", "user:9"]
PATH = "MATCH ANY (u)-[:member]->*()-[:{}]->()<-[:parent]-*(d)"
SEEN = f"""
    {PATH.format("viewer|editor|owner")}
    WHERE id(u) IN $online AND NOT EXISTS {{ {PATH.format("blocked")} }}
    RETURN DISTINCT u, d
"""
PUBLIC = "MATCH ANY (:Public)<-[:parent]-*(d) RETURN DISTINCT d"

generator = random.Random(5)


def drawn(kind: str, count: int) -> str:
    """Return one of `count` objects of a kind."""
    return f"{kind}:{generator.randrange(count)}"


def subject() -> str:
    """Return what may have a right: a user, or the members of a group."""
    return drawn("user", 300) if generator.random() < 0.5 else f"{drawn('group', 60)}#member"


written = [(f"group:{number}#member", "member", f"group:{number // 4}") for number in range(1, 60)]
written += [(f"folder:{number // 5}", "parent", f"folder:{number}") for number in range(1, 80)]
written += [(drawn("folder", 80), "parent", f"document:{number}") for number in range(1_000)]
written += [(drawn("user", 300), "member", drawn("group", 60)) for _ in range(600)]
for _ in range(900):
    written.append((subject(), generator.choice(["viewer", "editor", "owner"]), drawn("document", 1_000)))
written += [(subject(), "viewer", drawn("folder", 80)) for _ in range(60)]
written += [(subject(), "blocked", drawn("document", 1_000)) for _ in range(100)]
written += [("user:*", "viewer", f"folder:{number}") for number in (41, 42, 43)]
generator.shuffle(written)
changes = [("WRITE", *one) for one in dict.fromkeys(written)]
changes += [("DELETE", *change[1:]) for change in generator.sample(changes, 200)]
with open("changes.jsonl", "w") as file:
    for number, (operation, user, relation, target) in enumerate(changes):
        time = (BEGIN + timedelta(seconds=number)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        key = {"user": user, "relation": relation, "object": target}
        change = {"tuple_key": key, "operation": f"TUPLE_OPERATION_{operation}", "timestamp": time}
        file.write(json.dumps(change) + "\n")

queries = [
    rpq.Query(text, name=name, window=rpq.UnboundedWindow(), semantics="explicit", node_label=None, parameters=parameters)
    for name, text, parameters in (("seen", SEEN, {"online": ONLINE}), ("public", PUBLIC, {}))
]
engine = rpq.Engine(*queries, time_unit="ms")
reader = open_reader("jsonl", "changes.jsonl", rules=EdgeRules.read(str(RULES)), columns=ColumnNames(), time_unit="ms")
for _ in engine.run(reader):
    pass
print(f"{len(changes):,} changes of tuples")
seen = engine.answers("seen").to_arrow().to_pylist()
counts = [f"{user} may see {sum(row['u'] == user for row in seen)}" for user in ONLINE]
print(f"{', '.join(counts)}; {engine.answers('public').to_arrow().num_rows} are public")
for user in (ONLINE[0], "user:100"):  # of whom the second is not online
    reason = engine.check("member*/(viewer|editor|owner)/^parent*", user, "document:86")
    print("because of", " -> ".join(reason.vertices))
for what, rows in (
    ("group:10 is blocked from folder:76", engine.insert("group:10", "folder:76", "blocked", engine.time)),
    ("group:0 loses folder:15", engine.delete("group:0", "folder:15", "viewer", engine.time)),
):
    lost = rows.to_arrow("seen")
    print(f"when {what}, {lost.num_rows} rows leave, of {', '.join(sorted(set(lost['u'].to_pylist())))}")

command = [sys.executable, "-m", "rpq.cli", "run", SEEN, "--node-label", "", "--param", f"online={json.dumps(ONLINE)}"]
options = ["--input", "changes.jsonl", "--edges-from", str(RULES), "--time-unit", "ms", "--window", "unbounded"]
subprocess.run([*command, *options, "--output", "rows.csv", "--quiet"], check=True)
with open("rows.csv", newline="") as file:
    count = sum(1 if row["op"] == "+" else -1 for row in csv.DictReader(file))
print(f"with the command: {count} rows remain of those in rows.csv")
