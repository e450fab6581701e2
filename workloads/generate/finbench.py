"""A stream like that of LDBC FinBench's generator: money between accounts, and the loans, owners and media of accounts.

Its shapes: the numbers of transfers from accounts follow a power law of exponent 1.72. Half of the pairs of accounts are
neighbours in an order that does not depend on degrees, so that money returns; the others have receivers by a power law of
their own. A pair has two or three transfers on average, by a power law as well. Every twentieth account and medium is
blocked, and a loan is paid out and repaid in parts. FinBench spreads its edges over three years; here every stream takes
`DAYS` days, so that a window of three days has a quarter of its tuples.

Edges have an amount, which is 0 where no money moves. Facts of nodes are records with labels, `isBlocked` and `loanAmount`,
which is 0 for all but loans. Half of the blocked nodes are blocked from the beginning, the others in mid-stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.sampling import BLOCK, DAY, blocks, daily_times, permute, power_law, uniform, vertex_names

LABELS = ("transfer", "withdraw", "signIn", "deposit", "repay", "own", "apply")
SHARES = (0.70, 0.10, 0.08, 0.05, 0.04, 0.02, 0.01)
KINDS = ("Account", "Person", "Company", "Loan", "Medium")
_ACCOUNT, _PERSON, _COMPANY, _LOAN, _MEDIUM = range(len(KINDS))
_SOURCES = np.array([_ACCOUNT, _ACCOUNT, _MEDIUM, _LOAN, _ACCOUNT, _PERSON, _PERSON])
_TARGETS = np.array([_ACCOUNT, _ACCOUNT, _ACCOUNT, _ACCOUNT, _LOAN, _ACCOUNT, _LOAN])
"""The kinds of the ends of each label."""

START = 1_577_836_800
"""2020-01-01 00:00 UTC, in seconds."""

DAYS = 12

_ACCOUNTS_OF_OWNER, _ACCOUNTS_OF_OTHER, _COMPANY_STEP = 3, 3, 3
_BLOCKED_SHARE, _NEAR_SHARE = 0.05, 0.5
_MAX_TRANSFER, _MIN_LOAN, _MAX_LOAN, _MAX_PART = 10_000_000, 10_000, 100_000_000, 0.2
_LABEL, _PAIR, _SENDER, _RECEIVER, _DISTANCE, _NEAR, _SIDE = range(7)
_OTHER, _PLACE, _INVOLVED, _AMOUNT, _LOAN_AMOUNT, _BLOCKED = range(7, 13)


class _Counts(NamedTuple):
    accounts: int
    owners: int
    others: int
    """The number of loans, and also of media."""


def like_finbench(*, edges: int, seed: int, degree: int) -> Iterator[pa.RecordBatch]:
    """Generate `edges` tuples with a column `amount`, `degree` of them for each account, in order of time (seconds)."""
    counts, labels = _counts(edges, degree), pa.array(LABELS)
    for number in blocks(edges, BLOCK):
        label = np.searchsorted(np.cumsum(SHARES)[:-1], uniform(seed, _LABEL, number), side="right")
        # Of the many pairs most are never drawn, and most others once.
        pair = power_law(uniform(seed, _PAIR, number), 20.0 * edges, head=max(1.0, edges / 500), exponent=1.1)
        sender, receiver = (_account(pair, counts, seed, end) for end in (_SENDER, _RECEIVER))
        distance = 1 + power_law(uniform(seed, _DISTANCE, pair), counts.accounts - 1, head=3, exponent=2.0)
        is_near = (uniform(seed, _NEAR, pair) < _NEAR_SHARE) | (receiver == sender)
        distance = np.where(uniform(seed, _SIDE, pair) < 0.5, -distance, distance)
        receiver = np.where(is_near, (sender + distance) % counts.accounts, receiver)
        other = (uniform(seed, _OTHER, number) * counts.others).astype(np.int64)
        place = (uniform(seed, _PLACE, number) * _ACCOUNTS_OF_OTHER).astype(np.int64)
        involved = (uniform(seed, _INVOLVED, other * _ACCOUNTS_OF_OTHER + place) * counts.accounts).astype(np.int64)
        source = np.choose(
            label, [sender, sender, other, other, involved, receiver // _ACCOUNTS_OF_OWNER, other % counts.owners]
        )
        target = np.choose(label, [receiver, receiver, involved, involved, other, receiver, other])
        chance, loan = uniform(seed, _AMOUNT, number), _loan_amount(other, seed)
        money, part = 1 + (chance * _MAX_TRANSFER).astype(np.int64), 1 + (chance * _MAX_PART * loan).astype(np.int64)
        yield pa.RecordBatch.from_pydict(
            {
                "source": _names(_SOURCES[label], source),
                "target": _names(_TARGETS[label], target),
                "label": labels.take(pa.array(label)),
                "timestamp": daily_times(number / edges, days=DAYS, growth=0, start=START),
                "amount": np.choose(label, [money, money, 0, part, part, 0, loan]),
            }
        )


def finbench_nodes(*, edges: int, seed: int, degree: int) -> pa.Table:
    """Return the records of the nodes of a stream, in order of time: those of all nodes, then those of blocked ones."""
    counts = _counts(edges, degree)
    sizes = {_ACCOUNT: counts.accounts, _PERSON: counts.owners, _LOAN: counts.others, _MEDIUM: counts.others}
    kind = np.repeat([*sizes], [*sizes.values()])
    number = np.concatenate([np.arange(size) for size in sizes.values()])
    chance = uniform(seed, _BLOCKED, number * len(KINDS) + kind) / _BLOCKED_SHARE
    can_be_blocked = (kind == _ACCOUNT) | (kind == _MEDIUM)
    later = np.flatnonzero(can_be_blocked & (chance >= 0.5) & (chance < 1))
    later = later[np.argsort(chance[later])]
    rows = np.concatenate([np.arange(len(kind)), later])
    is_blocked = np.concatenate([can_be_blocked & (chance < 0.5), np.ones(len(later), bool)])
    times = np.concatenate([np.zeros(len(kind)), (2 * chance[later] - 1) * DAYS * DAY]).astype(np.int64)
    return pa.table(
        {
            "node": _names(kind[rows], number[rows]),
            "labels": pa.array(KINDS).take(pa.array(_kinds(kind, number)[rows])),
            "isBlocked": is_blocked,
            "loanAmount": np.where(kind == _LOAN, _loan_amount(number, seed), 0)[rows],
            "timestamp": START + times,
        }
    )


def _counts(edges: int, degree: int) -> _Counts:
    accounts = max(20, edges // degree)
    return _Counts(accounts=accounts, owners=-(-accounts // _ACCOUNTS_OF_OWNER), others=accounts // 2)


def _account(pair: np.ndarray, counts: _Counts, seed: int, end: int) -> np.ndarray:
    """Draw the accounts at one end of pairs; ranks of this exponent give degrees of the exponent 1 + 1 / 1.39 = 1.72."""
    ranks = power_law(uniform(seed, end, pair), counts.accounts, head=40, exponent=1.39)
    return permute(ranks, counts.accounts, seed, end)


def _loan_amount(loan: np.ndarray, seed: int) -> np.ndarray:
    amounts: np.ndarray = _MIN_LOAN + (uniform(seed, _LOAN_AMOUNT, loan) * (_MAX_LOAN - _MIN_LOAN)).astype(np.int64)
    return amounts


def _kinds(kind: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Return the kinds of vertices, in which some of the owners are companies."""
    return np.where((kind == _PERSON) & (number % _COMPANY_STEP == 0), _COMPANY, kind)


def _names(kind: np.ndarray, number: np.ndarray) -> pa.Array:
    prefixes = pa.array([f"{kind.lower()} " for kind in KINDS])
    return vertex_names(prefixes.take(pa.array(_kinds(kind, number))), number)
