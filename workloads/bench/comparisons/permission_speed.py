"""Permissions for the users who are online, beside SQL that is asked again and a search by hand over dictionaries."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import rpq
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench import plots
from rpq.workloads.bench.experiment import Column, Experiment, ExperimentResult, Record, Say, Settings, select
from rpq.workloads.bench.memory import resident_memory
from rpq.workloads.bench.streams import Stream, StreamError
from rpq.workloads.generate.permissions import RIGHTS, permission_tuples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (0.1, 1.0, 10.0)
"""The parts of --edges that the graphs have."""

ONLINE = (20, 200, 2_000)
MAX_ALL = 1_000_000
"""The largest graph in which all users are online: its answers have a gigabyte."""

PATH = "member*/(viewer|editor|owner)/^parent*"

Edge = tuple[str, str, str]
"""Source, label, target."""


class Dictionaries:
    """The same by hand: a dictionary of sets for each relation, searched breadth first."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._after: dict[str, defaultdict[str, set[str]]] = {
            relation: defaultdict(set) for relation in ("member", "rights", "blocked", "parent", "content")
        }
        for source, label, target in edges:
            self._after["rights" if label in RIGHTS else label][source].add(target)
            if label == "parent":
                self._after["content"][target].add(source)

    def documents(self, user: str, *, is_excluding: bool) -> set[str]:
        """Return what a user may see."""
        groups = self._reach({user}, "member")
        found = self._of_groups(groups, "rights")
        return found - self._of_groups(groups, "blocked") if is_excluding else found

    def check(self, user: str, document: str) -> bool:
        """Return whether a user may see a document, by a search from both ends."""
        around = self._reach({document}, "parent")
        rights = self._after["rights"]
        return any(not around.isdisjoint(rights.get(group, ())) for group in self._reach({user}, "member"))

    def _of_groups(self, groups: set[str], relation: str) -> set[str]:
        return self._reach(set().union(*(self._after[relation].get(group, ()) for group in groups)), "content")

    def _reach(self, found: set[str], relation: str) -> set[str]:
        after, border = self._after[relation], found
        while border:
            border = set().union(*(after.get(one, ()) for one in border)) - found
            found = found | border
        return found


class Tables:
    """The same in SQL: a table of DuckDB for each relation, and a recursive query, in one thread."""

    def __init__(self, table: pa.Table) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise StreamError("permissions compares answers with DuckDB, which is missing: pip install duckdb") from error
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._connection.register("tuples", table)
        for relation, labels in [("rights", RIGHTS), *((one, (one,)) for one in ("member", "parent", "blocked"))]:
            chosen = " OR ".join(f"label = '{label}'" for label in labels)
            self._connection.execute(f"CREATE TABLE {relation} AS SELECT source, target FROM tuples WHERE {chosen}")

    def documents(self, users: Sequence[str], *, is_excluding: bool) -> tuple[float, list[tuple[str, str]]]:
        """Return the CPU seconds of the query for some users, and its rows."""
        self._connection.register("online", pa.table({"name": users}))
        step = (
            "{0} AS (SELECT groups.u, {1}.target AS d FROM groups JOIN {1} ON source = g "
            "UNION SELECT {0}.u, parent.source FROM {0} JOIN parent ON parent.target = d)"
        )
        excluded = ", " + step.format("never", "blocked") if is_excluding else ""
        started = time.process_time()
        rows = self._connection.execute(
            "WITH RECURSIVE groups AS (SELECT name AS u, name AS g FROM online UNION SELECT u, target FROM groups "
            f"JOIN member ON source = g), {step.format('seen', 'rights')}{excluded} SELECT u, d FROM seen"
            + (" EXCEPT SELECT u, d FROM never" if is_excluding else "")
        ).fetchnumpy()
        return time.process_time() - started, list(zip(rows["u"].tolist(), rows["d"].tolist(), strict=True))


_query = partial(rpq.Query, window=rpq.UnboundedWindow(), name="permissions", semantics="explicit")


def _path(users: Sequence[str] | None) -> rpq.Query:
    return _query(PATH, sources=users)


def _in_match(users: Sequence[str] | None) -> rpq.Query:
    path = "MATCH ANY (u)-[:member]->*()-[:{}]->()<-[:parent]-*(d)"
    text = f"{path.format('|'.join(RIGHTS))} WHERE id(u) IN $online AND NOT EXISTS {{ {path.format('blocked')} }}"
    return _query(f"{text} RETURN DISTINCT u, d", parameters={"online": list(users or ())}, node_label=None)


def _in_sparql(users: Sequence[str] | None) -> rpq.Query:
    # {1} keeps a path whole, whose parts would be joined.
    path = "?u (<member>*/{}/^<parent>*){{1}} ?d"
    rights, online = "(<viewer>|<editor>|<owner>)", " ".join(f"<{user}>" for user in users or ())
    text = f"VALUES ?u {{ {online} }} {path.format(rights)} FILTER NOT EXISTS {{ {path.format('<blocked>')} }}"
    return _query(f"SELECT ?u ?d {{ {text} }}")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A query for some users, and for which numbers of them it is measured; None are all users."""

    make: Callable[[Sequence[str] | None], rpq.Query]
    online: tuple[int | None, ...]
    is_excluding: bool = True


LINES = {
    "PATH": Line(make=_path, online=(*ONLINE, None), is_excluding=False),
    "MATCH": Line(make=_in_match, online=(200,)),
    "SPARQL": Line(make=_in_sparql, online=(200,)),
}


def measure(settings: Settings, say: Say) -> Iterator[ExperimentResult]:
    """Yield the table after each query over each graph."""
    records: list[Record] = []
    streams: list[dict[str, Any]] = []
    names = select(settings.queries, LINES, "query")
    for part in SIZES:
        tuples = max(1_000, round(settings.edges * settings.scale * part))
        say(f"{tuples:,} tuples …")
        table = permission_tuples(tuples=tuples, seed=settings.seed)
        origin = f"made for this table, seed {settings.seed}"
        window = rpq.Window(size=tuples, slide=tuples)
        stream = Stream(name="permissions", queries="", table=table, window=window, origin=origin)
        streams.append({"name": stream.name, "origin": origin, "tuples": tuples})
        by_hand, tables = Dictionaries(_edges(stream.batches())), Tables(stream.table)
        draw = random.Random(settings.seed)
        everybody = [f"user:{number}" for number in draw.sample(range(tuples // 20), tuples // 20)]
        drawn = draw.sample(range(tuples), min(tuples, 10 * settings.sample))
        changed = list(_edges([stream.table.take(pa.array(drawn))]))
        for name in names:
            line = LINES[name]
            for online in line.online:
                users = None if online is None else everybody[:online]
                if tuples > MAX_ALL if online is None else online >= len(everybody):
                    continue
                say(f"{name}, {tuples:,} tuples, {'all' if online is None else online} users …")
                record = {"query": name, "tuples": tuples, "online": online or len(everybody)}
                engine, figures = _measure_engine(line.make(users), stream, changed, settings)
                if users is not None:
                    figures |= _baselines(line, users, by_hand, tables, engine)
                records.append(record | figures)
                agree = all(one.get("agree", True) for one in records)
                checks = {"the answers are those of DuckDB and by hand": agree}
                yield ExperimentResult(records=records, streams=streams, checks=checks)


def _edges(tables: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[Edge]:
    for table in tables:
        yield from zip(*(table[name].to_pylist() for name in ("source", "label", "target")), strict=True)


def _measure_engine(
    query: rpq.Query, stream: Stream, changed: Sequence[Edge], settings: Settings
) -> tuple[rpq.Engine, Record]:
    """Return an engine that has all tuples, and its figures."""
    measuring.warm_up(query, stream)
    seconds = []
    for _ in range(settings.repeat):
        engine = rpq.Engine(query)
        started = time.process_time()
        for batch in stream.batches():
            engine.push(batch, collect=False)
        seconds.append(time.process_time() - started)
    figures = engine.statistics()
    _change(engine, changed[: len(changed) // 10], len(stream))  # loads the kernels of deletes
    times, rows = _change(engine, changed, len(stream))
    return engine, {
        "answers": figures.answers_live,
        "tuples_per_second": len(stream) / min(seconds),
        "bytes_a_tuple": resident_memory(query, stream).beyond_kernels / len(stream),
        "bytes_an_answer": figures.index_bytes / max(1, figures.answers_live),
        "rows_a_change": rows / len(times),
        "change_p50_us": measuring.quantile(times, 0.5),
        "change_p99_us": measuring.quantile(times, 0.99),
    }


def _change(engine: rpq.Engine, changed: Sequence[Edge], moment: int) -> tuple[list[float], int]:
    """Delete and insert each of some edges; return the microseconds of each call, and the number of all rows."""
    times, rows = [], 0
    for source, label, target in changed:
        for apply in (engine.delete, engine.insert):
            started = time.perf_counter()
            rows += apply(source, target, label, moment).to_arrow().num_rows
            times.append(1e6 * (time.perf_counter() - started))
    return times, rows


def _baselines(line: Line, users: Sequence[str], by_hand: Dictionaries, tables: Tables, engine: rpq.Engine) -> Record:
    """Search by hand and ask DuckDB for all users, and for some alone; compare the answers with those of the engine."""
    started = time.process_time()
    found = {(user, one) for user in users for one in by_hand.documents(user, is_excluding=line.is_excluding)}
    hand = time.process_time() - started
    sql_seconds, rows = tables.documents(users, is_excluding=line.is_excluding)
    single = [tables.documents([user], is_excluding=line.is_excluding)[0] for user in users[:10]]
    return {
        "hand_ms": 1e3 * hand,
        "hand_user_ms": 1e3 * hand / len(users),
        "duckdb_ms": 1e3 * sql_seconds,
        "duckdb_user_ms": 1e3 * measuring.median(single),
        "agree": {tuple(row.values()) for row in engine.answers().to_arrow().to_pylist()} == found == set(rows),
    }


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the milliseconds of a change, and those of asking again, on a logarithmic axis."""
    axes = figure.subplots()
    bars = (("a change", "change_p50_us"), ("p99", "change_p99_us"), ("by hand", "hand_ms"), ("DuckDB", "duckdb_ms"))
    for number, (name, key) in enumerate(bars):
        places = [place + 0.2 * (number - 1.5) for place in range(len(records))]
        factor = 1e-3 if key.endswith("us") else 1
        axes.bar(places, [factor * record.get(key, 0) for record in records], 0.2, label=name)
    labels = [f"{record['query']}\n{record['tuples']:,}\n{record['online']:,}" for record in records]
    axes.set_xticks(range(len(records)), labels, fontsize=5)
    axes.set_ylabel("ms")
    plots.decades(axes)
    plots.legend_above(figure)


HOW = (
    "PATH is member*/(viewer|editor|owner)/^parent* from the users who are online (`sources`); MATCH and SPARQL leave out "
    "what a user is blocked from (NOT EXISTS). Groups are nested and have Zipf sizes; tuples come in random order. Tuples "
    "per CPU second of the fastest of several runs in fresh engines with warm kernels. Bytes a tuple are those of the "
    "process beyond its kernels, bytes an answer those of the index. A change is a delete or an insert of one tuple, "
    "drawn from all, by `engine.delete` and `engine.insert`, up to its rows. By hand and DuckDB: what an application does "
    "after a change without an engine, a breadth-first search in Python over dictionaries of sets, or a recursive query in "
    "one thread, for one user or for all who are online. All answers are compared."
)

EXPERIMENT = Experiment(
    name="permissions",
    title="Documents that users who are online may see, over tuples of permissions",
    how=HOW,
    paper="Zanzibar (Pang et al., 2019) answers checks within 10 ms (p95); lists of documents are not among its questions.",
    columns=(
        Column(key="query", heading="query"),
        Column(key="tuples", heading="tuples", format=","),
        Column(key="online", heading="users online", format=","),
        Column(key="answers", heading="answers", format=","),
        Column(key="tuples_per_second", heading="tuples/s", format=",.0f"),
        Column(key="bytes_a_tuple", heading="bytes a tuple", format=",.0f"),
        Column(key="bytes_an_answer", heading="bytes an answer", format=",.0f"),
        Column(key="rows_a_change", heading="rows a change", format=",.2f"),
        Column(key="change_p50_us", heading="a change, µs", format=",.0f"),
        Column(key="change_p99_us", heading="p99, µs", format=",.0f"),
        Column(key="hand_user_ms", heading="by hand, one user, ms", format=",.2f"),
        Column(key="hand_ms", heading="all online, ms", format=",.0f"),
        Column(key="duckdb_user_ms", heading="DuckDB, one user, ms", format=",.1f"),
        Column(key="duckdb_ms", heading="all online, ms", format=",.0f"),
        Column(key="agree", heading="agree"),
    ),
    measure=measure,
    plot=plot,
    repeat=2,
)
