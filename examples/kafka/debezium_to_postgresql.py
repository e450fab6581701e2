"""Keep a table of the accounts that money can reach, from transfers in another database: BROKER DATABASE [CHANGES [KILLS]].

    python debezium_to_postgresql.py localhost:9092 postgresql://ann@localhost/bank

Rows of a table of transfers are inserted, corrected and deleted. Debezium writes these changes to a topic; here, the script
writes the same messages. `rpq run` maintains a table in PostgreSQL with the pairs of accounts between which money can pass.
While changes are written, the run is killed ten times, at random moments. At the end, the table is compared with the pairs
that follow from the remaining transfers. Needs the extras `kafka` and `postgresql`.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from itertools import count, islice
from pathlib import Path

from adbc_driver_postgresql import dbapi
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

broker, database = sys.argv[1:3]
changes = int(sys.argv[3]) if len(sys.argv) > 3 else 6_000
kills = int(sys.argv[4]) if len(sys.argv) > 4 else 10
ACCOUNTS, PRESENT, BEGIN = 60, 50, 1_709_287_200_000

suffix = uuid.uuid4().hex[:8]
topic, table = f"bank.public.transfers.{suffix}", f"reachable_{suffix}"
admin = AdminClient({"bootstrap.servers": broker})
for creation in admin.create_topics([NewTopic(topic, 1, 1)]).values():
    creation.result()
producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True, "linger.ms": 5})
drawn = random.Random(7)
transfers: dict[int, dict] = {}
numbers = count(1)


def change_transfers(most: int) -> None:
    """Change the table of transfers, and write the changes as Debezium does, with a tombstone after each delete."""
    for number in islice(numbers, most):
        before = after = None
        what = drawn.choice("cud") if len(transfers) > PRESENT else drawn.choice("cccu")
        if what == "c" or not transfers:
            what = "c"
            after = {"id": number, "payer": drawn.randrange(ACCOUNTS), "payee": drawn.randrange(ACCOUNTS)}
        else:
            before = transfers.pop(drawn.choice([*transfers]))
            after = {**before, "payee": drawn.randrange(ACCOUNTS)} if what == "u" else None
        row = after or before
        key = json.dumps({"id": row["id"]})
        envelope = {"op": what, "before": before, "after": after, "source": {"ts_ms": BEGIN + number, "table": "transfers"}}
        producer.produce(topic, json.dumps(envelope), key)
        if after is not None:
            transfers[after["id"]] = after
        else:
            producer.produce(topic, None, key)
    producer.flush()


def rows(statement: str) -> list[tuple]:
    """Return the rows of a statement."""
    with dbapi.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]


def position() -> int:
    """Return the position of the run in its input, or 0 before it has begun."""
    if not rows("SELECT 1 WHERE to_regclass('rpq_positions') IS NOT NULL"):
        return 0
    return sum(row[0] for row in rows(f"SELECT position FROM rpq_positions WHERE name = '{table}'"))


def reachable() -> set[tuple[str, str]]:
    """Return the pairs of accounts that follow from the present transfers."""
    payees = defaultdict(set)
    for transfer in transfers.values():
        payees[transfer["payer"]].add(transfer["payee"])
    found = set()
    for payer in [*payees]:
        waiting, reached = [payer], set()
        while waiting:
            for payee in payees.get(waiting.pop(), set()) - reached:
                reached.add(payee)
                waiting.append(payee)
        found |= {(str(payer), str(payee)) for payee in reached}
    return found


with tempfile.TemporaryDirectory() as folder:
    command = [
        *(sys.executable, "-m", "rpq.cli", "run", "paid+", "--label", "paid", "--window", "unbounded"),
        *("--input", f"kafka://{broker}/{topic}", "--changes", "debezium", "--edges", "id"),
        *("--columns", "source=payer,target=payee,edge=id", "--semantics", "explicit"),
        *("--output", f"{database}{'&' if '?' in database else '?'}table={table}"),
        *("--checkpoint", str(Path(folder, "run.state")), "--checkpoint-every", "1s", "--quiet"),
    ]
    for _ in range(kills):
        before, run = position(), subprocess.Popen(command)
        while position() <= before and run.poll() is None:
            change_transfers(10)
            time.sleep(0.05)
        change_transfers(changes // kills // 2)
        time.sleep(drawn.uniform(0, 0.5))
        run.kill()
        if run.wait() != -9:
            sys.exit("the run ended before it was killed")
    change_transfers(changes // 2)
    subprocess.run([*command, "--until-end"], check=True)

print(f"at least {changes:,} changes of transfers; the run was killed {kills} times")
answers = {row[:2] for row in rows(f"SELECT source, target FROM {table} WHERE times = 1")}
if answers != reachable():
    sys.exit(f"the table has {len(answers):,} pairs of accounts; expected {len(reachable()):,} from the transfers")
print(f"the {len(answers):,} pairs of accounts in the table are those of the {len(transfers):,} remaining transfers")
