"""Write files as a bank exports them: transfers with amounts as text, accounts with their owners, and alerts.

The recipe "Files of a bank" of docs/own-data.md reads them. Of 30 accounts with an alert, 20 pass on large amounts.

    transfers.csv: 3,000 lines, such as 02/03/2026 00:01,AC0006,AC0029,"1,548.57"
    accounts.csv: 190 lines, such as AC0000,Owner 0
    alerts.csv: 30 lines, such as 02/03/2026 00:57,AC0100,stolen card
"""

import csv
import random
from datetime import datetime, timedelta
from pathlib import Path

chance = random.Random(1)


def write(name: str, header: str, rows: list[tuple]) -> None:
    """Write a file, with minutes as times like 02/03/2026 09:15, and amounts like 1,500.00."""
    with Path(name).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        for row in rows:
            writer.writerow(f"{value:,.2f}" if isinstance(value, float) else moment(value) for value in row)
    print(f"{name}: {len(rows):,} lines, such as {Path(name).read_text().splitlines()[1]}")


def moment(value: int | str) -> str:
    begin = datetime(2026, 3, 2)
    return value if isinstance(value, str) else (begin + timedelta(minutes=value)).strftime("%d/%m/%Y %H:%M")


def account(number: int) -> str:
    return f"AC{number:04}"


transfers = [
    (chance.randrange(10_000), account(chance.randrange(100)), account(chance.randrange(100)), chance.uniform(5, 9_000))
    for _ in range(2_940)
]
alerts = []
for number in range(30):
    time, amount = 57 + 300 * number, 20_000.0 if number % 3 else 400.0
    alerts.append((time, account(100 + number), chance.choice(["sanctions", "stolen card"])))
    transfers.append((time + 60, account(100 + number), account(130 + number), amount))
    transfers.append((time + 90, account(130 + number), account(160 + number), amount * 0.95))
write("transfers.csv", "booked,from_account,to_account,amount", sorted(transfers))
write("accounts.csv", "account,owner", [(account(number), f"Owner {number}") for number in range(190)])
write("alerts.csv", "raised,account,reason", alerts)
