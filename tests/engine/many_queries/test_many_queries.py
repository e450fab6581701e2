"""Queries that come and go in lists, and windows that are kept for those that come later."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import rpq
from rpq.cli.group import main
from tests.calls import counted_calls
from tests.twins import collect, examples, tiny

WINDOW = rpq.Window(size=10, slide=3)
TEXTS = ("a", "a+", "a/b*", "?x a ?y . ?y b ?z", "?x a 1 . ?x b ?y", "?x a ?x", "1 a ?x . ?y b 2", "?x a+ ?y . ?y b ?z")
SPARQL = (
    "SELECT ?x ?z { ?x <a> ?y . ?y <b> ?z }",
    "SELECT DISTINCT ?y { { ?x <a> ?y } UNION { ?z <a> ?y } }",
    "SELECT ?x ?y { ?x <a> <1> OPTIONAL { ?x <b> ?y } }",
    "SELECT ?x (COUNT(*) AS ?n) { ?x <a> ?y . ?x <b> 1 } GROUP BY ?x",
    "SELECT ?x ?y { ?x <a>+ ?y FILTER NOT EXISTS { ?x <a> ?y } }",
    "SELECT ?x { { ?x <a> ?y . ?y <b> <2> } UNION { ?x <a> ?z . ?z <b> <2> } }",
)


def query_named(text: str, name: str, window: Any = WINDOW) -> rpq.Query:
    return rpq.Query(text, name=name, window=window, semantics="explicit")


def row_counts(changes: rpq.Changes) -> Counter[Any]:
    return Counter(tuple(row) for row in changes.rows())


tuples = st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 4), st.sampled_from("+++-"))


ANCHORED = (
    *TEXTS,
    *SPARQL,
    "?x a 1 . ?x b ?y",
    "?u a 1 . ?u b ?v",
    "?x a 1 . ?x b 2 . ?y a ?x",
    "1 a ?x . ?x b ?y . ?y a 2",
    "?x b ?y . ?y a ?x . ?y b 0",
    "?x a ?y . ?y b ?z . ?z a 3 . ?x b 0",
    "?x a ?y . ?y a ?z . ?x b 1",
    "?x a+ ?y . ?y b 1",
    "1 a/b* ?x . ?x a 2",
    "SELECT ?x ?y FROM NAMED WINDOW <w> ON <s> [COUNT 5] { ?x <a> 1 WINDOW <w> { ?x <b> ?y . ?y <a> 2 } }",
)


@given(st.lists(st.lists(tuples, max_size=15), min_size=1, max_size=4), st.data())
def test_sharing_is_never_seen(batches: list[list[Any]], data: st.DataObject) -> None:
    windows = [rpq.Window(size=12, slide=5), rpq.Window(size=5, slide=2), rpq.UnboundedWindow(), rpq.CountWindow(size=6)]
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(ANCHORED), st.sampled_from(windows), st.booleans()), max_size=8))
    events: Any = data.draw(st.sampled_from([None, None, "window"]))
    queries = []
    for text, window, explicit in chosen:
        # Else some are refused.
        is_explicit = explicit or text.startswith("SELECT") or (events is not None and window is windows[3])
        semantics: Any = "explicit" if is_explicit else "implicit"
        queries.append(rpq.Query(text, name=f"q{len(queries)}", window=window, semantics=semantics))
    shared, apart = (rpq.Engine(*queries, events=events, _sharing=sharing) for sharing in ("always", "never"))
    alone = {query.name: rpq.Engine(query, events=events, _sharing="never") for query in queries}
    everyone = [shared, apart, *alone.values()]
    for engine in everyone if (static := data.draw(st.lists(st.tuples(*[st.integers(0, 3)] * 2)))) else []:
        engine.load_static([(source, target, "ab"[(source + target) % 2]) for source, target in static])
    time = 0
    for batch in batches:
        rows = []
        for source, target, label, step, op in batch:
            time += step
            rows.append((source, target, label, time, op))
        names = ("source", "target", "label", "timestamp", "op", "stream", "event")
        streams = ["s" if (row[0] + row[1]) % 2 else None for row in rows]
        groups = [f"{place // 3}" for place in range(len(rows))]
        rows = [(*row, *more) for row, *more in zip(rows, streams, groups, strict=True)]
        columns = dict(zip(names[: 6 + (events is not None)], map(list, zip(*rows, strict=True)), strict=False))
        if not rows:
            continue
        found = row_counts(shared.push(columns))
        assert found == row_counts(apart.push(columns))
        assert found == sum((row_counts(engine.push(columns)) for engine in alone.values()), Counter())
        shared._check()
        if data.draw(st.integers(0, 3)) == 0:
            with tempfile.TemporaryDirectory() as folder:
                shared.save(Path(folder) / "state")
                shared = rpq.Engine.restore(Path(folder) / "state")


NAMING = (
    "?x a 1",
    "?y a 1",
    "1 a ?x",
    "?x a 1 . ?x b ?y",
    "?x a 1 . ?y b 2",
    "?x a 1 . 1 b ?y",
    "?x a+ 1",
    "1 a/b* ?x",
    "?x a+ ?y . ?y b 1",
    "SELECT ?x { ?x <a> <1> }",
    "SELECT ?x ?y { ?x <a> <1> OPTIONAL { ?x <b> ?y } }",
    "SELECT ?x { ?x <a> <2> FILTER NOT EXISTS { ?x <b> <1> } }",
)
movements = st.tuples(
    st.integers(0, 6), st.integers(0, 6), st.sampled_from("ab"), st.sampled_from((0, 0, 0, 1, 2, 9)), st.just("+")
)


@pytest.mark.ci
@examples(150)
@given(
    st.lists(st.tuples(st.sampled_from(NAMING), st.sampled_from((2, 2, 5)), st.booleans()), min_size=2, max_size=8),
    st.lists(st.tuples(st.lists(movements, max_size=12), st.booleans()), min_size=2, max_size=6),
    st.sampled_from(("always", "auto")),
)
def test_names_whose_ids_are_given_again(chosen: list[Any], batches: list[Any], sharing: Any) -> None:
    """Windows empty all the time, and constants come back as other vertices, for many that ask the same."""
    queries = []
    for text, size, isomorphism in chosen:
        options: dict[str, Any] = {"semantics": "explicit"}
        if isomorphism and not set("+*S") & set(text):  # of edges alone
            options["matching"] = "isomorphism"
        queries.append(rpq.Query(text, name=f"q{len(queries)}", window=rpq.Window(size=size, slide=1), **options))
    for end, options in (("from", {"sources": ["1"]}), ("to", {"targets": ["1"]})):
        queries += [rpq.Query("a+", name=f"{end} {i}", window=rpq.Window(size=2, slide=1), **options) for i in range(2)]
    shared = tiny(2)(*queries, _sharing=sharing)
    alone = [rpq.Engine(query, _sharing="never") for query in queries]
    time = 0
    for batch, is_emptied in batches:
        rows = []
        for source, target, label, step, op in batch:
            time += step
            rows.append((str(source), str(target), label, time, op))
        found = row_counts(shared.push_rows(rows))
        assert found == sum((row_counts(engine.push_rows(rows)) for engine in alone), Counter())
        shared._check()
        for query, engine in zip(queries, alone, strict=True):
            assert Counter(shared.answers(query.name)) == Counter(engine.answers())
        if is_emptied:
            time += 20
            found = row_counts(shared.advance(time))
            assert found == sum((row_counts(engine.advance(time)) for engine in alone), Counter())
            collect(shared)


@st.composite
def mixed(draw: st.DrawFn) -> list[rpq.Query]:
    """Path queries of few expressions with ends of their own, patterns and SPARQL, over few windows."""
    found = []
    for number in range(draw(st.integers(2, 8))):
        options: dict[str, Any] = {"name": f"q{number}", "semantics": "explicit"}
        options["window"] = draw(st.sampled_from([WINDOW, rpq.Window(size=6, slide=2)]))
        if draw(st.booleans()):
            side = draw(st.sampled_from(["sources", "targets"]))
            options[side] = draw(st.none() | st.frozensets(st.integers(0, 3), max_size=2))
            found.append(rpq.Query(draw(st.sampled_from(["a+", "a/b*", "a+/a*"])), **options))
        else:
            found.append(rpq.Query(draw(st.sampled_from(ANCHORED[len(TEXTS) :][:-1])), **options))
    return found


@pytest.mark.ci
@given(st.lists(st.lists(tuples, max_size=12), min_size=2, max_size=4), mixed(), st.data())
def test_neither_sharing_nor_order_nor_others_are_seen(
    batches: list[list[Any]], queries: list[rpq.Query], data: st.DataObject
) -> None:
    """A query's rows are the same whatever else is registered, in whatever order, and whether anything is shared."""
    keep = rpq.Window(size=13, slide=1)  # a window of 10 that slides by 3 has edges for so long
    comes = {query.name: data.draw(st.integers(0, len(batches) - 1)) for query in queries}
    goes = {query.name: data.draw(st.integers(comes[query.name] + 1, len(batches))) for query in queries}
    orders = [queries, data.draw(st.permutations(queries))]
    orders.append([query for query in orders[1] if data.draw(st.booleans()) or query is queries[0]])  # with fewer others
    expected: dict[str, Counter[Any]] = {}
    for order, sharing in zip((*orders, queries[:1]), ("always", "auto", "always", "never"), strict=True):
        engine = rpq.Engine(keep=keep, _sharing=sharing)  # type: ignore[arg-type]
        rows: list[Any] = []
        time = 0
        for turn, batch in enumerate(batches):
            engine.unregister([query.name for query in order if goes[query.name] == turn])
            new = [query for query in order if comes[query.name] == turn]
            for some in [new] if sharing == "auto" else [[one] for one in new]:
                rows += engine.register(some)
            for source, target, label, step, op in batch:
                time += step
                rows += (engine.insert if op == "+" else engine.delete)(source, target, label, time)
            if turn == 0 and sharing != "never":
                with tempfile.TemporaryDirectory() as folder:
                    engine.save(Path(folder) / "state")
                    engine = rpq.Engine.restore(Path(folder) / "state")
        engine._check()
        for query in order:
            mine = Counter(tuple(row) for row in rows if row[0] == query.name)
            assert expected.setdefault(query.name, mine) == mine, query


def test_patterns_that_differ_in_names_alone_have_one_plan() -> None:
    texts = ("?x a ?y . ?y b 7", "?left a ?right . ?right b 7", "?y a ?x . ?x b 8")
    engine = rpq.Engine(*(query_named(text, f"q{i}") for i, text in enumerate(texts)))
    rows = [(1, 2, "a", 1), (2, 7, "b", 2), (2, 8, "b", 3), (2, 7, "b", 4, "-")]
    found = engine.push_rows(rows).rows()
    assert [(row.query, *row[1:3], row.timestamp, row.op) for row in found] == [
        ("q0", 1, 2, 2, "+"),
        ("q1", 1, 2, 2, "+"),
        ("q2", 1, 2, 3, "+"),
        ("q0", 1, 2, 4, "-"),
        ("q1", 1, 2, 4, "-"),
    ]
    engine.unregister("q0")
    assert [row.query for row in engine.push_rows([(2, 7, "b", 5)])] == ["q1"]


def test_explain_tells_what_is_shared_with_how_many() -> None:
    texts = {"one": "?x a ?y . ?y b 7", "same": "?u a ?v . ?v b 7", "near": "?x c ?y . ?y b 7", "far": "?x a ?y . ?y b 8"}
    engine = rpq.Engine(*(query_named(text, name) for name, text in texts.items()), _sharing="always")
    engine.push_rows([(1, 2, "a", 1), (2, 7, "b", 2), (2, 8, "b", 3)])
    sharing = {name: str(engine.explain(name)).split("shared: ")[1] for name in texts}
    # of y, from which 7 is one b away, and of 7 itself
    assert sharing["one"] == "the whole plan with 1 other query; 2 of the 2 conditions that it needs with others"
    assert sharing["near"] == "2 of the 2 conditions that it needs with others"
    assert sharing["far"] == "0 of the 2 conditions that it needs with others"
    assert "shared: " not in str(rpq.Engine(query_named("?x a ?y", "alone")).explain("alone"))


def test_isomorphism_is_another_plan() -> None:
    queries = [
        rpq.Query("?x a ?y . ?y a ?z", name=name, window=WINDOW, matching=name) for name in ("homomorphism", "isomorphism")
    ]
    engine = rpq.Engine(*queries)
    assert [row.query for row in engine.push_rows([(1, 2, "a", 1), (2, 1, "a", 1)])] == ["homomorphism"] * 2


def test_a_list_comes_whole_or_not_at_all() -> None:
    engine = rpq.Engine(query_named("a", "kept"))
    engine.push_rows([(1, 2, "a", 1), (2, 3, "a", 2), (5, 6, "b", 2)])
    lost = [query_named("a+", "fine"), query_named("?x a ?y . ?y b ?z", "needs b")]
    with pytest.raises(rpq.RegistrationError, match="needs b"):
        engine.register(lost)
    with pytest.raises(rpq.QueryError, match="there is a query named 'twice' already"):
        engine.register([query_named("a", "twice"), query_named("a+", "twice")])
    with pytest.raises(rpq.QueryError, match="there is a query named 'kept' already"):
        engine.register([query_named("a", "other"), query_named("a+", "kept")])
    with pytest.raises(rpq.QueryError, match="not 7"):
        engine.register([query_named("a", "other"), 7])  # type: ignore[list-item]
    assert [query.name for query in engine.queries] == ["kept"]
    assert engine.register([]).rows() == []
    changes = engine.register(query_named("a+", f"n{i}") for i in range(3))
    assert Counter(row.query for row in changes) == {"n0": 3, "n1": 3, "n2": 3}
    with pytest.raises(rpq.QueryError, match="no query named 'nobody'"):
        engine.unregister(["n0", "nobody"])
    assert len(engine.queries) == 4
    engine.unregister(["n0", "n2", "n0"])
    assert [query.name for query in engine.queries] == ["kept", "n1"]


def test_a_list_that_brings_too_many_rows_leaves_nothing() -> None:
    engine = rpq.Engine(query_named("a", "kept"), max_rows=5)
    engine.push_rows([(1, i, "a", 1) for i in range(2, 6)])
    with pytest.raises(rpq.RowLimitError):
        engine.register([query_named("a", "few"), query_named("?x a ?y . ?x a ?z", "many")])
    assert [query.name for query in engine.queries] == ["kept"]
    assert engine.register(query_named("a", "few")).added == 4
    engine._check()


def test_an_engine_that_keeps_a_window_takes_any_query_within_it(tmp_path: Path) -> None:
    rows = [("x", "y", "a", 1), ("y", "z", "b", 2), ("z", "w", "c", 20)]
    forgetful = rpq.Engine()
    forgetful.push_rows(rows)
    with pytest.raises(rpq.RegistrationError):
        forgetful.register(rpq.Query("a", window=rpq.Window(size=30, slide=1)))
    engine = rpq.Engine(keep=rpq.Window(size=30, slide=1))
    engine.push_rows(rows)
    engine.save(tmp_path / "state")
    for each in (engine, rpq.Engine.restore(tmp_path / "state")):
        assert each.register(rpq.Query("a/b/c", window=rpq.Window(size=30, slide=1))).added == 1
        assert each.register(rpq.Query("c", window=rpq.Window(size=5, slide=5))).added == 1
        with pytest.raises(rpq.RegistrationError):
            each.push_rows([("q", "r", "d", 40)])
            each.register(rpq.Query("a|d", window=rpq.Window(size=60, slide=1)))
        each.unregister([query.name for query in each.queries])
        assert each.register(rpq.Query("d", window=rpq.Window(size=5, slide=5))).added == 1
        each.advance(100)
        each.unregister("d")
        assert "0 edges of 0 vertices" in repr(each)
    with pytest.raises(rpq.QueryError, match="keep is a window of time"):
        rpq.Engine(keep=rpq.CountWindow(size=3))  # type: ignore[arg-type]


@pytest.mark.parametrize("start", ["window", "empty"])
@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("l{}/m", rpq.Window(size=10_000, slide=10)),
        ("?x l{} ?y . ?y m ?z", rpq.Window(size=10_000, slide=10)),
        ("SELECT ?x {{ ?x <l{}> ?y }}", rpq.UnboundedWindow()),
        ("m*", rpq.CountWindow(size=5_000, step=5)),
    ],
)
def test_a_state_has_the_edges_of_equal_windows_once(tmp_path: Path, text: str, window: Any, start: Any) -> None:
    rows = [(number, number + 7, f"l{number % 7}" if number % 2 else "m", number) for number in range(3_000)]

    def size_with(count: int) -> int:
        engine = rpq.Engine(keep=rpq.Window(size=10_000, slide=1))
        engine.push_rows(rows[:1_000] if start == "empty" else [])
        queries = [query_named(text.format(number % 7), f"q{number}", window) for number in range(count)]
        engine.register(queries, start=start)
        engine.push_rows(rows[1_000:] if start == "empty" else rows)
        engine.save(tmp_path / "state")
        restored = rpq.Engine.restore(tmp_path / "state")
        for query in queries[-2:]:
            assert sorted(restored.answers(query.name)) == sorted(engine.answers(query.name))
        return (tmp_path / "state").stat().st_size

    assert size_with(60) < 3 * size_with(1)


def test_a_query_that_started_empty_is_restored_beside_one_that_did_not(tmp_path: Path) -> None:
    engine = rpq.Engine(*(query_named(text, f"{text} from 1") for text in TEXTS))
    engine.push_rows([(1, 2, "a", 1), (2, 2, "b", 2), (1, 1, "a", 2)])
    engine.register([query_named(text, f"{text} from 3") for text in TEXTS], start="empty")
    engine.push_rows([(2, 3, "b", 3), (1, 2, "a", 1)])
    engine.save(tmp_path / "state")
    restored = rpq.Engine.restore(tmp_path / "state")
    for query in engine.queries:
        assert sorted(restored.answers(query.name)) == sorted(engine.answers(query.name))
    rows = [(3, 1, "a", 4), (1, 1, "a", 8), (2, 2, "b", 11), (1, 2, "a", 13)]
    assert row_counts(restored.push_rows(rows)) == row_counts(engine.push_rows(rows))
    restored._check()


def test_a_kept_window_in_durations_survives_a_restore(tmp_path: Path) -> None:
    engine = rpq.Engine(keep=rpq.Window(size="30d", slide="1d"), time_unit="s")
    engine.push_rows([("x", "y", "a", 1), ("y", "z", "b", 86400 * 20)])
    engine.save(tmp_path / "state")
    restored = rpq.Engine.restore(tmp_path / "state")
    assert restored.register(rpq.Query("a/b", window=rpq.Window(size="25d", slide="1d"))).added == 1


def test_what_only_a_query_needed_is_given_back() -> None:
    engine = rpq.Engine(query_named("?x b ?y", "small", rpq.Window(size=1000, slide=1)))
    engine.push_rows([(i, i + 1, "b", i) for i in range(100)])
    edges = engine.statistics().edges_live
    names = [f"n{i}" for i in range(40)]
    engine.register((query_named(f"?x a ?y . ?y c {name}", name) for name in names), start="empty")
    engine.push_rows([(i, i + 1, "a", 100) for i in range(100)])
    assert engine.statistics().edges_live == edges + 100
    engine.unregister(names)
    assert engine.statistics().edges_live == edges


@pytest.mark.parametrize(("keep", "window"), [("30", rpq.Window(size=30, slide=1)), ("unbounded", rpq.UnboundedWindow())])
def test_keep_lets_a_checkpoint_take_further_queries(tmp_path: Path, keep: str, window: Any) -> None:
    (tmp_path / "in.tsv").write_text("x\ty\ta\t1\ny\tz\tb\t2\n")
    base = ["run", "a", "--input", str(tmp_path / "in.tsv"), "--format", "edges", "--window", "10", "--slide", "1"]
    done = CliRunner().invoke(main, [*base, "--keep", keep, "--checkpoint", str(tmp_path / "point"), "--quiet"])
    assert done.exit_code == 0, done.output
    engine = rpq.Engine.restore(tmp_path / "point")
    assert engine.register(rpq.Query("a/b", window=window)).added == 1
    wrong = CliRunner().invoke(main, [*base, "--keep", "count:30", "--quiet"])
    assert wrong.exit_code == 2 and "--keep" in wrong.output


@pytest.mark.parametrize("sharing", ["auto", "always"])
@pytest.mark.parametrize("text", ["?x a+ b", "?x a b . ?y a ?x"])
def test_a_constant_comes_back_as_another_vertex_for_all_that_ask_the_same(text: str, sharing: Any) -> None:
    window = rpq.Window(size=5, slide=1)
    queries = [rpq.Query(text, window=window, name=f"q{number}") for number in range(3)]
    engine = rpq.Engine(*queries, _sharing=sharing)
    engine.push_rows([("x", "b", "a", 0), ("y", "z", "a", 0)])
    engine.advance(100)
    collect(engine)  # so that ids are given away
    later = [("p", "q", "a", 100), ("r", "s", "a", 100), ("x", "b", "a", 100), ("k", "x", "a", 100), ("l", "m", "c", 100)]
    found = Counter(row.query for row in engine.push_rows(later).rows())
    alone = rpq.Engine(queries[0])
    expected = alone.push_rows(later).added
    assert expected
    assert found == {query.name: expected for query in queries}
    engine._check()


def test_registering_a_query_in_mid_stream_looks_at_no_other_one():
    """The size of each query that runs was asked for anew, for each of a list."""
    window = rpq.Window(size=10, slide=1)
    queries = [rpq.Query(f"?x a[n > {number}] ?y", window=window, name=f"q{number}") for number in range(70)]

    def calls_to_register(count: int, others: int) -> int:
        engine = rpq.Engine(rpq.Query("?x b[n > 0] ?y", window=window, name="first"))
        engine.insert("x", "y", "b", 1)
        engine.register(queries[:others])
        with counted_calls() as calls:
            engine.register(queries[others : others + count])
        return calls.count

    calls_to_register(0, len(queries))  # what is kept for each text is made once
    few, many = (calls_to_register(30, others) - calls_to_register(10, others) for others in (10, 40))
    assert many - few < 20 * 30 // 2
