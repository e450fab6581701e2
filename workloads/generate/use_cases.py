"""The streams of the cookbook: use cases with planted answers, so that the truth is known.

Each stream consists of blocks of `BLOCK_TUPLES` tuples. Each block plants one case among decoys, which violate one
condition, and noise, which adds no answer: the planted cases are all that a query can find.

* `rings`: money that returns through three accounts. Decoys go round against the order of time, or lose half of the money.
* `mules`: money that is passed on twice within hours and is cashed out. Decoys wait too long, or pass on too little.
* `logins`: an intruder who moves as an administrator from the gateway to a vault. Decoys are users for one step.
* `packages`: services that depend on a bad package, until a release no longer does, which is a delete.
* `contacts`: one or two long meetings away from a person who tests positive later. Decoys meet too briefly.
* `accounts`: large transfers from accounts of a country to risky ones. One becomes risky after the transfer, and is cleared.
  Decoys have another country, too small an amount, another label, or become risky too late.

Timestamps are seconds. Blocks depend on the seed and their number alone. About 2 µs for each tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from random import Random
from typing import Any

import pyarrow as pa

START = 1_767_225_600
"""2026-01-01 00:00 UTC, in seconds."""

BLOCK_TUPLES = 200
"""The number of tuples of a block, in which one case is planted; a shorter last one is noise."""

HOUR, DAY = 3_600, 86_400
_BATCH_BLOCKS = 50
_GROUPS = 100
_TIME = 3


@dataclass
class TupleBlock:
    """The tuples of a block that is being filled, and the rows that they cause."""

    number: int
    random: Random
    tuples: list[tuple[Any, ...]] = field(default_factory=list)
    """For each tuple: source, target, label, seconds from the beginning of the block, op, and the property, if any."""
    records: list[tuple[Any, ...]] = field(default_factory=list)
    """For each record of a node: its name, its properties, and seconds from the beginning of the block."""
    truth: list[tuple[Any, ...]] = field(default_factory=list)
    """For each row: its values, seconds from the beginning of the block, and op."""

    def add(self, source: str, target: str, label: str, time: int, *value: Any, op: str = "+") -> None:
        """Add a tuple."""
        self.tuples.append((source, target, label, time, op, *value))


@dataclass(frozen=True, kw_only=True)
class UseCase:
    """A use case: functions that fill blocks, and the columns of their tuples and true rows."""

    columns: tuple[str, ...]
    """The columns of the rows of a query for the case."""
    span: int
    """The seconds of a block."""
    plant: Callable[[TupleBlock], None]
    noise: Callable[[Random], tuple[Any, ...]]
    """A function that draws a tuple of noise: source, target, label, and the property, if any."""
    property_name: str | None = None
    has_deletes: bool = False
    node_columns: tuple[str, ...] = ()
    """The columns of records of nodes between `node` and `timestamp`; empty if the case has none."""

    def stream(self, *, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
        """Yield the stream in batches, in order of time."""
        names = ("source", "target", "label", "timestamp", "delete", *([self.property_name] if self.property_name else []))
        found = self._blocks(edges, seed)
        while blocks := [*islice(found, _BATCH_BLOCKS)]:
            rows = [
                (*one[:_TIME], START + block.number * self.span + one[_TIME], one[_TIME + 1] == "-", *one[_TIME + 2 :])
                for block in blocks
                for one in sorted(block.tuples, key=lambda one: one[_TIME])
            ]
            columns = dict(zip(names, zip(*rows, strict=True), strict=True))
            if not self.has_deletes:
                del columns["delete"]
            yield pa.record_batch({name: pa.array(values) for name, values in columns.items()})

    def nodes(self, *, edges: int, seed: int) -> pa.Table:
        """Return the records of nodes, in order of time."""
        rows = [
            (*values, START + block.number * self.span + time)
            for block in self._blocks(edges, seed)
            for *values, time in sorted(block.records, key=lambda one: one[-1])
        ]
        names = ("node", *self.node_columns, "timestamp")
        return pa.table({name: pa.array([row[place] for row in rows]) for place, name in enumerate(names)})

    def truth(self, *, edges: int, seed: int) -> pa.Table:
        """Return the rows that the stream plants, in order of time, with columns `timestamp` and `op` behind their own."""
        rows = [
            (*values, START + block.number * self.span + time, op)
            for block in self._blocks(edges, seed)
            for *values, time, op in block.truth
        ]
        names = (*self.columns, "timestamp", "op")
        types = [*[pa.string()] * len(self.columns), pa.int64(), pa.string()]
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        return pa.table({
            name: pa.array(values, of) for name, of, values in zip(names, types, columns, strict=True)
        })  # fmt: skip

    def _blocks(self, edges: int, seed: int) -> Iterator[TupleBlock]:
        for number in range(-(-edges // BLOCK_TUPLES)):
            size = min(BLOCK_TUPLES, edges - number * BLOCK_TUPLES)
            block = TupleBlock(number, Random(f"{seed} {number}"))
            if size == BLOCK_TUPLES:
                self.plant(block)
            while len(block.tuples) < size:
                source, target, label, *value = self.noise(block.random)
                block.add(source, target, label, block.random.randrange(self.span), *value)
            yield block


# --- money rings -----------------------------------------------------------------------------------------------------


def _plant_ring(block: TupleBlock) -> None:
    """Plant a ring, one against the order of time, and one that loses a half; those of one window share no accounts."""
    random, group = block.random, block.number % _GROUPS * 9
    for kind in range(3):
        accounts = [f"account {group + 3 * kind + place}" for place in range(3)]
        random.shuffle(accounts)
        times = [random.randint(1, HOUR)]
        times += [times[0] + random.randint(60, HOUR), times[0] + random.randint(HOUR + 60, 2 * HOUR)]
        amounts = [random.randint(10_000, 20_000)]
        amounts.append(random.randint(amounts[0] * 95 // 100 + 1, amounts[0]))
        amounts.append(random.randint(amounts[1] * 95 // 100 + 1, amounts[1]) if kind != 2 else amounts[1] // 2)
        order = reversed(times) if kind == 1 else times
        edges = zip(accounts, accounts[1:] + accounts[:1], amounts, order, strict=True)
        for source, target, amount, time in edges:
            block.add(source, target, "transfer", time, amount)
        if kind == 0:
            block.truth.append((*accounts, times[-1], "+"))


def _transfer(random: Random) -> tuple[Any, ...]:
    """Draw a transfer from an account to one with a larger number, so that noise alone has no rings."""
    first, second = sorted(random.sample(range(_GROUPS * 9), 2))
    return f"account {first}", f"account {second}", "transfer", random.randint(10, 4_000)


# --- mule chains -----------------------------------------------------------------------------------------------------


def _plant_chain(block: TupleBlock) -> None:
    """Plant a chain of two mules; in the decoys, one of them waits too long, or passes on too little."""
    random = block.random
    for kind in range(3):
        people = [f"{role} {block.number * 3 + kind}" for role in ("victim", "mule", "runner", "machine")]
        times = [random.randint(1, HOUR)]
        for step in range(2):
            is_late = (kind, step) == (1, 0)
            times.append(times[-1] + (random.randint(5 * HOUR, 6 * HOUR) if is_late else random.randint(60, 2 * HOUR)))
        amounts = [random.randint(2_000, 9_000)]
        for step in range(2):
            low, high = (40, 60) if (kind, step) == (2, 1) else (91, 99)
            amounts.append(amounts[-1] * random.randint(low, high) // 100)
        for place, (source, target) in enumerate(pairwise(people)):
            block.add(source, target, "transfer" if place < 2 else "cash_out", times[place], amounts[place])
        if kind == 0:
            block.truth.append((*people[:3], times[-1], "+"))


def _payment(random: Random) -> tuple[Any, ...]:
    """Draw a payment to a shop, or a small one between persons."""
    buyer = f"mule {random.randrange(600)}"
    if random.random() < 0.3:
        return buyer, f"shop {random.randrange(40)}", "transfer", random.randint(1_000, 9_000)
    return f"victim {random.randrange(600)}", buyer, "transfer", random.randint(5, 900)


# --- lateral movement ------------------------------------------------------------------------------------------------


def _plant_intrusion(block: TupleBlock) -> None:
    """Plant a way of two to four hosts from the gateway to a vault; in the decoys one login is that of a user."""
    random = block.random
    for kind in range(3):
        hosts = [f"jump {block.number * 3 + kind}.{place}" for place in range(random.randint(2, 4))]
        vault = f"vault {block.number * 3 + kind}"
        block.add(vault, "Vault", "type", 0, "none")
        ways = [*pairwise(["gateway", *hosts, vault])]
        times = sorted(random.sample(range(1, 6 * HOUR), len(ways)))
        if kind == 0:
            block.truth.append((vault, times[-1], "+"))
        user = random.randrange(len(ways)) if kind else None
        for place, ((source, target), time) in enumerate(zip(ways, times, strict=True)):
            block.add(source, target, "login", time, "user" if place == user else "admin")


def _login(random: Random) -> tuple[Any, ...]:
    """Draw a login of a user on any host, or one of an administrator from the backup host, which nobody can reach."""
    if random.random() < 0.2:
        return "backup", f"vault {random.randrange(300)}", "login", "admin"
    return random.choice(["gateway", f"desk {random.randrange(50)}"]), f"desk {random.randrange(50)}", "login", "user"


# --- blast radius ----------------------------------------------------------------------------------------------------


def _plant_dependency(block: TupleBlock) -> None:
    """Plant services that depend on the bad package through two others, and the release that ends this."""
    random, number = block.random, block.number
    broken, mended = sorted(random.sample(range(100, DAY), 2))
    framework, adapter = f"framework {number}", f"adapter {number}"
    services = [f"service {number}.{place}" for place in range(random.randint(1, 3))]
    for service in services:
        block.add(service, "Service", "type", 0)
        block.add(service, framework, "depends_on", random.randrange(1, 100))
    block.add(framework, adapter, "depends_on", random.randrange(1, 100))
    block.add(adapter, "tinylog", "depends_on", broken)
    block.add(adapter, "tinylog", "depends_on", mended, op="-")
    block.truth += [(service, time, op) for time, op in ((broken, "+"), (mended, "-")) for service in services]


def _dependency(random: Random) -> tuple[Any, ...]:
    """Draw a dependency between libraries, or that of a tool on the bad package: tools are no services."""
    if random.random() < 0.2:
        return f"tool {random.randrange(100)}", "tinylog", "depends_on"
    first, second = sorted(random.sample(range(200), 2))
    return f"library {first}", f"library {second}", "depends_on"


# --- contact tracing -------------------------------------------------------------------------------------------------


def _plant_infection(block: TupleBlock) -> None:
    """Plant a positive test of somebody who has met one person, who has met another; in the decoy meetings are brief."""
    random = block.random
    for kind in range(2):
        people = [f"person {block.number * 6 + 3 * kind + place}" for place in range(3)]
        times = sorted(random.sample(range(1, DAY), 3))
        for pair, time in zip(pairwise(people), times, strict=False):
            source, target = random.sample(pair, 2)
            block.add(source, target, "meets", time, random.randint(15, 240) if kind == 0 else random.randint(1, 14))
        block.add(people[0], "positive", "tested", times[-1], 0)
        if kind == 0:
            block.truth += [(people[0], other, times[-1], "+") for other in people[1:]]


def _meeting(random: Random) -> tuple[Any, ...]:
    """Draw a brief meeting of two persons, a long one of two who are never tested, or a negative test."""
    chance = random.random()
    if chance < 0.1:
        return f"person {random.randrange(1200)}", "negative", "tested", 0
    if chance < 0.4:
        one, other = random.sample(range(100), 2)
        return f"guard {one}", f"guard {other}", "meets", random.randint(15, 480)
    one, other = random.sample(range(1200), 2)
    return f"person {one}", f"person {other}", "meets", random.randint(1, 14)


# --- risky accounts --------------------------------------------------------------------------------------------------


_COUNTRIES = ("KY", "PA", "SG", "AT")
_CUSTOMERS = 400


def _plant_risk(block: TupleBlock) -> None:
    """Plant a transfer to a risky account, one to an account that becomes risky, is cleared later, and five decoys."""
    random = block.random
    names = ("risky", "flagged", "elsewhere", "small", "cleared", "shop", "late")
    for kind, name in enumerate(names):
        payer, receiver = f"payer {block.number * len(names) + kind}", f"receiver {block.number * len(names) + kind}"
        country = random.choice(_COUNTRIES[1:]) if name == "elsewhere" else "KY"
        time = random.randint(1, HOUR // 2)
        block.records.append((payer, "Account", country, "private", random.randint(0, 3), 0))
        receivers = [(random.randint(0, 3) if name in ("flagged", "late") else random.randint(4, 9), 0)]
        if name == "flagged":
            flagged = time + random.randint(60, HOUR)
            receivers += [(random.randint(4, 9), flagged), (0, flagged + random.randint(60, HOUR // 2))]
        elif name == "cleared":
            receivers.append((1, random.randrange(1, time + 1)))
        elif name == "late":
            receivers.append((9, time + random.randint(3 * HOUR, 4 * HOUR)))
        for risk, at in receivers:
            label, country = "Merchant" if name == "shop" else "Account", random.choice(_COUNTRIES)
            block.records.append((receiver, label, country, "business", risk, at))
        amount = random.randint(10, 1_000) if name == "small" else random.randint(1_001, 20_000)
        block.add(payer, receiver, "TRANSFER", time, amount)
        if name == "risky":
            block.truth.append((payer, receiver, time, "+"))
        elif name == "flagged":
            block.truth += [(payer, receiver, at, op) for (_, at), op in zip(receivers[1:], "+-", strict=True)]
    customer = f"customer {block.number % _CUSTOMERS}"
    block.records.append((customer, "Account", random.choice(_COUNTRIES), "private", random.randint(0, 3), 0))


def _customer_transfer(random: Random) -> tuple[Any, ...]:
    """Draw a transfer between customers, none of whom is risky; some have no record yet."""
    first, second = random.sample(range(_CUSTOMERS), 2)
    return f"customer {first}", f"customer {second}", "TRANSFER", random.randint(10, 20_000)


USE_CASES: Mapping[str, UseCase] = {
    "rings": UseCase(
        columns=("a", "b", "c"), span=6 * HOUR, plant=_plant_ring, noise=_transfer, property_name="amount"
    ),
    "mules": UseCase(
        columns=("a", "b", "c"), span=12 * HOUR, plant=_plant_chain, noise=_payment, property_name="amount"
    ),
    "logins": UseCase(
        columns=("vault",), span=6 * HOUR, plant=_plant_intrusion, noise=_login, property_name="rights"
    ),
    "packages": UseCase(
        columns=("service",), span=DAY, plant=_plant_dependency, noise=_dependency, has_deletes=True
    ),
    "contacts": UseCase(
        columns=("a", "b"), span=DAY, plant=_plant_infection, noise=_meeting, property_name="minutes"
    ),
    "accounts": UseCase(
        columns=("a", "b"), span=6 * HOUR, plant=_plant_risk, noise=_customer_transfer, property_name="amount",
        node_columns=("labels", "country", "kind", "risk"),
    ),
}  # fmt: skip
