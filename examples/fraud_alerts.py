"""Alert on rings of payments with the command: read `tx.csv` as a bank exports it, and write `alerts.csv`.

The export has its own column names, dates that begin with the day, and amounts with cents, all as text. Eight rings are
planted among random payments: money returns within two hours through two other accounts, in time order, and each payment
is at most five percent smaller than the one before. Three decoys are similar: one takes longer, one loses more, and the
payments of the third are in the opposite order.

    $ rpq run '?a ?e:paid ?b . ?b ?f:paid ?c . ?c ?g:paid ?a' --filter … --input tx.csv --edges parallel
    tx.csv: 6,033 payments between 300 accounts, with 8 rings and 3 decoys
    alerts.csv: 8 rows, which are the 8 rings
    the first alert: DE0231 -> DE0061 -> DE0111 -> DE0231, 15,351.26 of 16,660.70 returned after 56 min
"""

import csv
import json
import random
import subprocess
import sys
from datetime import datetime, timedelta

NOISE, ACCOUNTS, BEGIN = 6_000, 300, datetime(2024, 5, 1)

generator = random.Random(7)
payments = []  # (time, sender, receiver, cents)
for _ in range(NOISE):
    time = BEGIN + timedelta(seconds=generator.randrange(10 * 86_400))
    payments.append((time, *generator.sample(range(ACCOUNTS), 2), generator.randint(500, 1_000_000)))


def pay_around(*, minutes: int = 40, lost: float = 0.05, backwards: bool = False) -> tuple[str, ...]:
    """Add a ring of three payments, each at most `minutes` after the one before, and return its accounts."""
    accounts = generator.sample(range(ACCOUNTS), 3)
    time, cents = BEGIN + timedelta(seconds=generator.randrange(9 * 86_400)), generator.randint(1_000_000, 2_000_000)
    steps = list(zip(accounts, accounts[1:] + accounts[:1], strict=True))
    for sender, receiver in reversed(steps) if backwards else steps:
        payments.append((time, sender, receiver, cents))
        time += timedelta(seconds=generator.randint(30 * minutes, 60 * minutes))
        cents -= int(cents * lost * generator.uniform(0.5, 0.9))
    return tuple(f"DE{account:04}" for account in accounts)


rings = {pay_around() for _ in range(8)}
pay_around(minutes=150)
pay_around(lost=0.4)
pay_around(backwards=True)
payments.sort()
with open("tx.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["booked_at", "sender", "receiver", "amount", "currency"])
    for time, sender, receiver, cents in payments:
        when = time.strftime("%d.%m.%Y %H:%M:%S")
        writer.writerow([when, f"DE{sender:04}", f"DE{receiver:04}", f"{cents / 100:.2f}", "EUR"])

QUERY = "?a ?e:paid ?b . ?b ?f:paid ?c . ?c ?g:paid ?a"
FILTER = """
    ?e.timestamp < ?f.timestamp and ?f.timestamp < ?g.timestamp and ?g.timestamp - ?e.timestamp <= '2h'
    and ?e.amount >= 10000
    and ?f.amount between 0.95 * ?e.amount and ?e.amount
    and ?g.amount between 0.95 * ?f.amount and ?f.amount
"""
options = {
    "--filter": FILTER,
    "--input": "tx.csv",
    "--columns": "source=sender,target=receiver,timestamp=booked_at",
    "--label": "paid",  # the export has no column of labels
    "--time-format": "%d.%m.%Y %H:%M:%S",
    "--edges": "parallel",  # two payments between the same accounts are two edges
    "--window": "2h",
    "--slide": "1m",
    "--output": "alerts.csv",
}
print(f"$ rpq run '{QUERY}' --filter … --input tx.csv --edges parallel")
command = [sys.executable, "-m", "rpq.cli", "run", QUERY, *(text for pair in options.items() for text in pair)]
subprocess.run([*command, "--witness", "--quiet"], check=True)

with open("alerts.csv", newline="") as file:
    alerts = list(csv.DictReader(file))
found = {(alert["a"], alert["b"], alert["c"]) for alert in alerts}
print(f"tx.csv: {len(payments):,} payments between {ACCOUNTS} accounts, with {len(rings)} rings and 3 decoys")
same = "which are" if found == rings else "which are not"
print(f"alerts.csv: {len(alerts)} rows, {same} the {len(rings)} rings")
steps = json.loads(alerts[0]["path"])  # source, label, time in microseconds, properties, target
times, amounts = [step[2] for step in steps], [float(step[3]["amount"]) for step in steps]
print(
    f"the first alert: {' -> '.join([step[0] for step in steps] + [steps[0][0]])}, {amounts[-1]:,.2f} of {amounts[0]:,.2f} "
    f"returned after {(times[-1] - times[0]) // 60_000_000} min"
)
