"""The options of paths in time order: what is accepted, how lengths of time are kept, what is refused and how.

semantics.md S15
"""

from __future__ import annotations

import datetime

import pytest

import rpq
from rpq.errors import QueryError
from rpq.language import kinds
from rpq.stream.json_values import JsonValue

WINDOW = rpq.Window(size=10, slide=1)
DAYS = rpq.Window(size="30d", slide="1d")
ORDERED = {"order": "increasing"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_gap": 3}, 'max_gap, .* pass order="increasing"'),
        ({"max_span": "3h"}, 'max_span, .* pass order="increasing"'),
        ({"order": "ascending"}, "order: expected one of increasing, non_decreasing, not 'ascending'"),
        (ORDERED | {"max_gap": -1}, "max_gap is a length of time from 0 on that fits into 64 bits, not -1"),
        (ORDERED | {"max_gap": 2**63}, "fits into 64 bits"),
        (ORDERED | {"max_span": 1.5}, "max_span is .* a whole number of time units, or a duration such as '6h'.* not 1.5"),
        (ORDERED | {"max_span": True}, "not True"),
        (ORDERED | {"max_span": "3 parsecs"}, "unknown unit 'parsecs'"),
        (ORDERED | {"paths": "simple"}, "order='increasing' cannot be combined with paths=\"simple\" yet"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options, message):
    with pytest.raises(QueryError, match=message):
        rpq.Query("a+", window=WINDOW, **options)


@pytest.mark.parametrize("text", ["?x a+ ?y", "?x ?e:a ?y", "SELECT ?x { ?x <a> ?y }"])
@pytest.mark.parametrize("options", [ORDERED, ORDERED | {"max_gap": 2}])
def test_patterns_and_sparql_point_to_the_notation_of_patterns(text, options):
    with pytest.raises(QueryError, match=r"order is an option of path queries.*\?x \(a\+ in order within 6h gap 1h\) \?y"):
        rpq.Query(text, window=WINDOW, **options)


def test_durations_become_numbers_of_the_stream_and_a_state_knows_both():
    query = rpq.Query("a+", window=DAYS, order="increasing", max_gap=datetime.timedelta(hours=6), max_span="2d")
    assert (query.max_gap, query.max_span) == ("6h", "2d")
    assert "max_gap='6h'" in repr(query)
    resolved = query.in_unit("s")
    assert (resolved.max_gap, resolved.max_span, resolved.window.size) == (21600, 172800, 2592000)
    assert kinds.read_query(JsonValue(kinds.query_json(resolved))) == resolved
    with pytest.raises(QueryError, match="max_gap='1ms' is no whole number of s; give the engine a finer unit"):
        rpq.Query("a+", window=DAYS, order="increasing", max_gap="1ms").in_unit("s")


@pytest.mark.parametrize(
    ("window", "gap"),
    [(WINDOW, "6h"), (DAYS, 6)],
)
def test_durations_and_numbers_do_not_mix_without_a_unit(window, gap):
    query = rpq.Query("a+", window=window, order="increasing", max_gap=gap)
    with pytest.raises(QueryError, match=r"max_gap of .*give both in durations"):
        rpq.Engine(query, edges="parallel")


def test_edges_that_replace_each_other_are_refused():
    with pytest.raises(QueryError, match=r'an insert replaces the edge .* edges="parallel"'):
        rpq.Engine(rpq.Query("a+", window=WINDOW, order="increasing"))


def test_a_request_of_a_server_has_an_order():
    from rpq.serve.requests import QueryDefaults, parse_query

    defaults = QueryDefaults(fields={"window": "1d", "slide": "1h"}, time_unit="s")
    query = parse_query({"expression": "a+", "order": "increasing", "max_gap": "1h", "max_span": 86400}, defaults)
    assert (query.order, query.max_gap, query.max_span) == ("increasing", "1h", 86400)
    with pytest.raises(QueryError, match="order: expected 'increasing' or 'non_decreasing'"):
        parse_query({"expression": "a+", "order": "up"}, defaults)
