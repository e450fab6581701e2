"""Paths in time order at the command: options, files of queries, checkpoints, and what is refused.

semantics.md S15
"""

from __future__ import annotations

import pytest

from rpq.errors import QueryError
from rpq.language.query import Query
from rpq.language.readings import refuse_edge_values
from rpq.spark.batch.replay import check_query_columns
from rpq.spark.errors import PipelineError
from rpq.spark.stream.stream_identity import check_supported
from rpq.stream.window import Window

EDGES = """source,target,label,timestamp
y,z,sends,60
x,y,sends,120
y,z,sends,180
z,w,sends,4000
"""
WINDOW = ("--window", "1d", "--slide", "1m", "--time-unit", "s")


@pytest.fixture
def run(rpq, tmp_path):
    """Run queries over the edges; return (exit status, standard output, standard error)."""
    (tmp_path / "edges.csv").write_text(EDGES)
    return lambda *arguments: rpq("run", *arguments, "--input", tmp_path / "edges.csv", *WINDOW)


def rows(result: tuple[int, str, str]) -> list[str]:
    status, out, err = result
    assert status == 0, err
    return out.splitlines()[1:]


def test_rows_are_in_time_order(run):
    order = ("sends+", "--edges", "parallel", "--order", "increasing", "--output", "-")
    found = rows(run(*order, "--max-gap", "1h"))
    assert found == ["y,z,60,+", "x,y,120,+", "x,z,180,+", "z,w,4000,+"]
    found = rows(run(*order, "--max-span", "3900"))
    assert sorted(found[3:]) == ["x,w,4000,+", "y,w,4000,+", "z,w,4000,+"]


def test_rows_in_time_order_have_lengths(run):
    options = ("--edges", "parallel", "--order", "increasing", "--select", "source,target,length", "--output", "-")
    found = rows(run("sends+", *options))
    assert sorted(found[3:]) == ["x,w,3,4000,+", "y,w,2,4000,+", "z,w,1,4000,+"]


def test_a_pattern_has_durations_in_its_text(run):
    found = rows(run("?x (sends/sends in order within 1h) ?y", "--edges", "parallel", "--output", "-"))
    assert found == ["x,z,180,+"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sends+", "--order", "increasing"), "use --edges parallel, where each insert is an edge, or --edges id"),
        (("sends+", "--max-gap", "1h", "--edges", "parallel"), 'pass order="increasing"'),
        (("?x sends+ ?y", "--order", "increasing", "--edges", "parallel"), "--order is an option of path queries"),
        (("?x (sends+ in order)+ ?y", "--edges", "parallel"), "an operator behind an order in time"),
        (
            ("SELECT ?x { ?x <sends> ?y }", "--order", "increasing", "--edges", "parallel"),
            "SPARQL has no paths in time order",
        ),
        (("sends+", "--order", "increasing", "--max-gap", "1 parsec", "--edges", "parallel"), "unknown unit 'parsec'"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message, run):
    status, _, err = run(*arguments)
    assert status != 0
    assert message in " ".join(err.split())


def test_a_checkpoint_of_another_order_is_refused(run, tmp_path):
    options = ("--edges", "parallel", "--checkpoint", tmp_path / "checkpoint", "--output", tmp_path / "rows.csv")
    assert run("sends+", "--order", "increasing", *options)[0] == 0
    status, _, err = run("sends+", "--order", "non_decreasing", *options)
    assert status != 0
    assert "--order" in err


def test_spark_refuses_an_order_before_it_starts_where_inserts_replace_edges():
    for query in (
        Query("a+", window=Window(size=10, slide=1), order="increasing"),
        Query("?x (a+ in order) ?y", window=Window(size=10, slide=1)),
    ):
        with pytest.raises(QueryError, match="paths in time order.*insert be an edge of its own, with --edges parallel"):
            refuse_edge_values([query], "on Spark")
        for edges in ("parallel", "id"):
            check_query_columns([query], edges, "on Spark")  # of a replay
            check_supported([query], edges)  # of a stream
        with pytest.raises(QueryError, match="paths in time order"):
            check_query_columns([query], "triple", "on Spark")
        with pytest.raises(PipelineError, match="paths in time order"):
            check_supported([query])
    with pytest.raises(QueryError, match="conditions on edges"):
        check_query_columns([Query("a[n > 1]", window=Window(size=10, slide=1))], "parallel", "on Spark")
