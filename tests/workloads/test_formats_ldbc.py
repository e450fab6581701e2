"""LDBC update streams: which edges an event stands for, and what is wrong with one.

semantics.md S8
"""

from __future__ import annotations

import pytest

from rpq.errors import InputError
from rpq.workloads.formats.ldbc import open_ldbc

PERSON = "100|0|1|5|Dale|Garcia|female|1|2|1.2.3.4|Firefox|799|en|a@b.c;d@e.f|14;28|55,2009|96,2016;94,2011"
POST = "200|0|6|70||200|1.2.3.4|Safari|tk|About | nothing|89|5|30|98|59;20"


def rows(reader) -> list[tuple]:
    return [
        (row["source"], row["label"], row["target"], row["timestamp"], row.get("delete", False))
        for batch in reader
        for row in batch.columns.to_pylist()
    ]


@pytest.fixture
def events(tmp_path):
    def read(*lines: str, **options) -> list[tuple]:
        path = tmp_path / "updates.csv"
        path.write_text("".join(line + "\n" for line in lines))
        return [row[:4] for row in rows(open_ldbc([str(path)], **options))]

    return read


@pytest.mark.parametrize(
    ("event", "edges"),
    [
        (
            PERSON,
            [
                ("p5", "isLocatedIn", "l799"),
                ("p5", "hasInterest", "t14"),
                ("p5", "hasInterest", "t28"),
                ("p5", "studyAt", "o55"),
                ("p5", "workAt", "o96"),
                ("p5", "workAt", "o94"),
            ],
        ),
        ("100|0|2|5|70|100", [("p5", "likes", "m70")]),
        ("100|0|3|5|71|100", [("p5", "likes", "m71")]),
        (
            "100|0|4|30|Album|100|5|7;8",
            [("f30", "hasModerator", "p5"), ("f30", "hasTag", "t7"), ("f30", "hasTag", "t8")],
        ),
        ("100|0|5|30|5|100", [("f30", "hasMember", "p5")]),
        (
            "100|0|6|70|p.jpg|100|1.2.3.4|Chrome|||0|5|30|98|",
            [("m70", "hasCreator", "p5"), ("f30", "containerOf", "m70"), ("m70", "isLocatedIn", "l98")],
        ),
        (
            "100|0|7|71|100|1.2.3.4|Firefox|I see|5|6|69|70|-1|9",
            [
                ("m71", "hasCreator", "p6"),
                ("m71", "isLocatedIn", "l69"),
                ("m71", "replyOf", "m70"),
                ("m71", "hasTag", "t9"),
            ],
        ),
        (
            "100|0|7|72|100|1.2.3.4|Firefox|I see|5|6|69|-1|71|",
            [("m72", "hasCreator", "p6"), ("m72", "isLocatedIn", "l69"), ("m72", "replyOf", "m71")],
        ),
        ("100|0|8|5|6|100", [("p5", "knows", "p6")]),
    ],
)
def test_the_edges_of_an_event(events, event, edges):
    assert events(event) == [(*edge, 100) for edge in edges]


@pytest.mark.parametrize(
    ("event", "column", "message"),
    [
        ("abc|0|8|5|6|1", "time", "'abc' is not an integer"),
        ("1|0|9|5|6|1", "event type", "'9' is not an event type; expected 1 to 8"),
        ("1|0", None, "found 2 fields"),
        ("1|0|8|5|6", None, r"found 5 fields, expected 6 in an event of type 8: .*person1Id\|person2Id"),
        (POST, None, "found 16 fields, expected 15"),
        ("1|0|8||6|1", "person1Id", "'' is not an id"),
        ("1|0|8|5|x|1", "person2Id", "'x' is not an id"),
        ("1|0|4|30|Album|1|5|7;;8", "tagIds", "'' is not an id"),
        (PERSON.replace("55,2009", "55"), "studyAt", "'55' is not a list of id,year pairs"),
        ("1|0|7|71|1|ip|ff|hm|5|6|69|-1|-1|", "replyToPostId", "one of replyToPostId and replyToCommentId must be -1"),
        ("1|0|7|71|1|ip|ff|hm|5|6|69|70|71|", "replyToPostId", "must be -1"),
    ],
)
def test_a_malformed_event_is_placed_and_gives_no_edge(events, event, column, message):
    with pytest.raises(InputError, match=message) as caught:
        events("1|0|8|1|2|1", event)
    assert (caught.value.line, caught.value.column) == (2, column)
    assert events("1|0|8|1|2|1", event, on_error="skip") == [("p1", "knows", "p2", 1)]


def test_all_inputs_are_sorted_by_time_whatever_their_kind(tmp_path):
    # raw:    5 (two edges)  3        list:  5  4
    (tmp_path / "raw").write_text("5|0|4|30|Album|5|7|9\n3|0|8|1|2|3\n")
    (tmp_path / "list").write_text("source\ttarget\tlabel\ttimestamp\top\np1\tp2\tknows\t5\t-\np1\tp3\tknows\t4\t+\n")
    reader = open_ldbc([str(tmp_path / "raw"), str(tmp_path / "list")])
    assert reader.time_unit == "ms"
    assert rows(reader) == [
        ("p1", "knows", "p2", 3, False),
        ("p1", "knows", "p3", 4, False),
        ("f30", "hasModerator", "p7", 5, False),
        ("f30", "hasTag", "t9", 5, False),
        ("p1", "knows", "p2", 5, True),
    ]


def test_a_list_of_edges_has_tabs(tmp_path):
    path = tmp_path / "list"
    path.write_text("p1 p2 knows 4\n")
    with pytest.raises(InputError, match="is neither an event"):
        rows(open_ldbc([str(path)]))
