"""Permissions for the users who are online, beside SQL that is asked again and a search by hand over dictionaries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import rpq
from rpq.workloads.baselines.permissions import Dictionaries, Edge, Tables, edges_in
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
CHECK = "CHECK"
"""The name of the line of checks and lists, without a registered query."""

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
    """Yield the table after each line over each graph."""
    records: list[Record] = []
    streams: list[dict[str, Any]] = []
    names = select(settings.queries, [*LINES, CHECK], "query")
    for part in SIZES:
        tuples = max(1_000, round(settings.edges * settings.scale * part))
        table = permission_tuples(tuples=tuples, seed=settings.seed)
        origin, window = f"made for this table, seed {settings.seed}", rpq.Window(size=tuples, slide=tuples)
        stream = Stream(name="permissions", queries="", table=table, window=window, origin=origin)
        streams.append({"name": stream.name, "origin": origin, "tuples": tuples})
        for record in _measure_graph(stream, names, settings, say):
            records.append({"tuples": tuples} | record)
            agree = all(one.get("agree", True) for one in records)
            checks = {"the answers are those of DuckDB and by hand": agree}
            yield ExperimentResult(records=records, streams=streams, checks=checks)


def _measure_graph(stream: Stream, names: Sequence[str], settings: Settings, say: Say) -> Iterator[Record]:
    """Yield the records of the lines over a graph."""
    tuples, draw = len(stream), random.Random(settings.seed)
    say(f"{tuples:,} tuples …")
    try:
        by_hand, tables = Dictionaries(edges_in(stream.batches())), Tables(stream.table)
    except ImportError as error:
        raise StreamError("permissions compares answers with DuckDB, which is missing: pip install duckdb") from error
    everybody = [f"user:{number}" for number in draw.sample(range(tuples // 20), tuples // 20)]
    drawn = draw.sample(range(tuples), min(tuples, 10 * settings.sample))
    changed = list(edges_in([stream.table.take(pa.array(drawn))]))
    for name in names:
        if name == CHECK:
            say(f"{name}, {tuples:,} tuples …")
            yield {"query": name} | _measure_checks(stream, by_hand, everybody, settings)
            continue
        line = LINES[name]
        without_answers = _loaded(rpq.Engine(line.make(["nobody"])), stream)[0].statistics().index_bytes
        for online in line.online:
            users = None if online is None else everybody[:online]
            if tuples > MAX_ALL if online is None else online >= len(everybody):
                continue
            say(f"{name}, {tuples:,} tuples, {'all' if online is None else online} users …")
            engine, figures = _measure_engine(line.make(users), stream, changed, settings, without_answers)
            if users is not None:
                figures |= _baselines(line, users, by_hand, tables, engine)
            yield {"query": name, "online": online or len(everybody)} | figures


def _loaded(engine: rpq.Engine, stream: Stream) -> tuple[rpq.Engine, float]:
    """Push all tuples into a new engine; return it and the CPU seconds that this took."""
    started = time.process_time()
    for batch in stream.batches():
        engine.push(batch, collect=False)
    return engine, time.process_time() - started


def _measure_engine(
    query: rpq.Query, stream: Stream, changed: Sequence[Edge], settings: Settings, without_answers: int
) -> tuple[rpq.Engine, Record]:
    """Return an engine that has all tuples, and its figures; an index has so many bytes `without_answers`."""
    measuring.warm_up(query, stream)
    seconds = []
    for _ in range(settings.repeat):
        engine, taken = _loaded(rpq.Engine(query), stream)
        seconds.append(taken)
    figures = engine.statistics()
    _change(engine, changed[: len(changed) // 10], len(stream))  # loads the kernels of deletes
    times, rows = _change(engine, changed, len(stream))
    return engine, {
        "answers": figures.answers_live,
        "tuples_per_second": len(stream) / min(seconds),
        "bytes_a_tuple": resident_memory(query, stream).beyond_kernels / len(stream),
        "bytes_an_answer": (figures.index_bytes - without_answers) / max(1, figures.answers_live),
        "rows_a_change": rows / len(times),
        "change_p50_us": measuring.quantile(times, 0.5),
        "change_p99_us": measuring.quantile(times, 0.99),
    }


def _change(engine: rpq.Engine, changed: Sequence[Edge], moment: int) -> tuple[list[float], int]:
    """Delete and insert each of some edges; return the CPU microseconds of each call, and the number of all rows."""
    times, rows = [], 0
    for source, label, target in changed:
        for apply in (engine.delete, engine.insert):
            started = time.process_time()
            rows += apply(source, target, label, moment).to_arrow().num_rows
            times.append(1e6 * (time.process_time() - started))
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


def _measure_checks(stream: Stream, by_hand: Dictionaries, everybody: Sequence[str], settings: Settings) -> Record:
    """Ask for single documents, half of which their users may see, and for the documents of single users."""
    engine, seconds = _loaded(rpq.Engine(keep=rpq.UnboundedWindow()), stream)
    draw = random.Random(settings.seed)
    pairs = []
    for user in everybody[: 10 * settings.sample]:
        seen = sorted(by_hand.documents(user, is_excluding=False))
        pairs += [(user, draw.choice(seen or [user])), (user, f"document:{draw.randrange(len(stream) // 3)}")]
    users = [(user,) for user, _ in pairs[::20]]
    check, documents = partial(engine.check, PATH), partial(by_hand.documents, is_excluding=False)

    def find(user: str) -> pa.Table:
        return engine.find(PATH, source=user).to_arrow()

    _timed(check, pairs[:10]), _timed(find, users[:10])  # loads the kernels
    paths, check_times = _timed(check, pairs)
    expected, check_by_hand = _timed(by_hand.check, pairs)
    lists, find_times = _timed(find, users)
    expected_lists, find_by_hand = _timed(documents, users)
    quantiles = {
        f"{name}_{part}_us": measuring.quantile(values, share)
        for name, values in (
            ("check", check_times), ("hand_check", check_by_hand), ("find", find_times), ("hand_find", find_by_hand)
        )
        for part, share in (("p50", 0.5), ("p99", 0.99))
    }  # fmt: skip
    agree = [path is not None for path in paths] == expected
    agree &= [{*found["target"].to_pylist()} for found in lists] == expected_lists
    return {"tuples_per_second": len(stream) / seconds, "agree": agree, **quantiles}


def _timed(call: Callable[..., Any], arguments: Sequence[tuple[str, ...]]) -> tuple[list[Any], list[float]]:
    """Return what a function returns for each of some arguments, and the CPU microseconds of each call."""
    found, times = [], []
    for each in arguments:
        started = time.process_time()
        found.append(call(*each))
        times.append(1e6 * (time.process_time() - started))
    return found, times


def plot(figure: Figure, records: list[Record]) -> None:
    """Draw the milliseconds of a change, and those of asking again, on a logarithmic axis."""
    axes, records = figure.subplots(), [record for record in records if record["query"] != CHECK]
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
    "process beyond its kernels, bytes an answer those of the index beyond the index of a user without rights. A change is "
    "a delete or an insert of one tuple, drawn from all, by `engine.delete` and `engine.insert`, up to its rows. By hand "
    "and DuckDB: what an application does after a change without an engine, a breadth-first search in Python over "
    "dictionaries of sets, or a recursive query in one thread, for one user or for all who are online. CHECK has no query: "
    "`engine.check` for single documents, half of which their users may see, and `engine.find` for all documents of a user. "
    "All times are those of the CPU. All answers are compared."
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
        *(
            Column(key=f"{by}{name}_{part}_us", heading=f"{what}{' by hand' if by else ''}, {part}, µs", format=",.0f")
            for name, what in (("check", "check"), ("find", "documents of a user"))
            for by in ("", "hand_")
            for part in ("p50", "p99")
        ),
        Column(key="agree", heading="agree"),
    ),
    measure=measure,
    plot=plot,
    repeat=2,
)
