"""Alert on large transfers to risky accounts, whose risk changes while the stream runs.

`rpq generate accounts` writes transfers, the records of the accounts (country, kind and risk), and the alerts that it has
planted. Half of the alerts have the time of a record: an account becomes risky after the transfer. A record that clears the
account withdraws the alert.

    transfers.csv: 4,000 transfers; accounts.csv: 380 records
    60 rows, which are those of truth.csv: 40 alerts, of which 20 are withdrawn
    the first: payer 0 to receiver 0 (risk 7)
    accounts that have a record: 300
"""

import csv
import subprocess
import sys
from heapq import merge

import rpq

command = [sys.executable, "-m", "rpq.cli", "generate", "accounts", "--edges", "4000", "--output", "transfers.csv"]
subprocess.run([*command, "--nodes", "accounts.csv", "--truth", "truth.csv"], check=True, stderr=subprocess.DEVNULL)


def rows_of(name: str) -> list[dict[str, str]]:
    with open(name, newline="") as file:
        return list(csv.DictReader(file))


query = rpq.Query(
    """MATCH (a:Account {country: 'KY'})-[t:TRANSFER WHERE t.amount > 1000]->(b:Account WHERE b.risk > 3)
       RETURN a, b, b.risk AS risk""",
    window=rpq.Window(size=7_200, slide=600),
    name="risky",
)
engine = rpq.Engine(query, edges="parallel")
transfers, accounts = rows_of("transfers.csv"), rows_of("accounts.csv")
alerts = []
for row in merge(accounts, transfers, key=lambda row: int(row["timestamp"])):  # a record comes before transfers of its time
    time = int(row["timestamp"])
    if "node" in row:
        facts = {"country": row["country"], "kind": row["kind"], "risk": int(row["risk"])}
        changes = engine.set_node(row["node"], labels=[row["labels"]], properties=facts, timestamp=time)
    else:
        amount = {"amount": int(row["amount"])}
        changes = engine.insert(row["source"], row["target"], row["label"], time, properties=amount)
    alerts += changes.rows()

print(f"transfers.csv: {len(transfers):,} transfers; accounts.csv: {len(accounts)} records")
found = sorted((alert.a, alert.b, str(alert.timestamp), alert.op) for alert in alerts)
planted = sorted(tuple(row.values()) for row in rows_of("truth.csv"))
same = "which are" if found == planted else "which are not"
withdrawn = sum(alert.op == "-" for alert in alerts)
print(f"{len(alerts)} rows, {same} those of truth.csv: {len(alerts) - withdrawn} alerts, of which {withdrawn} are withdrawn")
print(f"the first: {alerts[0].a} to {alerts[0].b} (risk {alerts[0].risk})")
print(f"accounts that have a record: {sum(engine.node(name) is not None for name in {row['node'] for row in accounts})}")
