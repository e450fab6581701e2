"""Motifs of GraphFrames as queries: `(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)`.

A motif becomes a text of MATCH (`rpq.language.match`), which binds edges as a motif does: every edge, also without a name,
makes a row of its own, vertices with different names may be the same, and negation is NOT EXISTS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rpq.errors import QueryError
from rpq.language.query import Query

if TYPE_CHECKING:
    from rpq.stream.window import AnyWindow

_TERM = re.compile(
    r"""\s*(?P<negated>!)?\s*
    \(\s*(?P<source>\w*)\s*\)\s*
    (?:(?P<back><)?\s*-\s*\[\s*(?P<edge>\w*)\s*(?P<length>\*[^\]]*?)?\s*\]\s*-\s*(?P<forth>>)?\s*\(\s*(?P<target>\w*)\s*\)\s*)?""",
    re.VERBOSE | re.ASCII,
)
_LENGTH = re.compile(r"\*\s*(\d+)")
_RANGE = re.compile(r"\*\s*(\d*)\s*\.\.\s*(\d*)")
_MAX_LENGTH = 100
_FORTH, _BACK, _BOTH, _EITHER = ("-", "->"), ("<-", "-"), ("<-", "->"), ("-", "-")
"""The arrows of an edge, before and behind its name."""


class _Edge(NamedTuple):
    """A term of a motif with an edge: its text, its names (empty for anonymous ones), arrows, and the number of edges."""

    text: str
    is_negated: bool
    source: str
    edge: str
    target: str
    arrows: tuple[str, str]
    length: int


def motif(
    text: str,
    *,
    window: AnyWindow,
    labels: str | Mapping[str, str] | None = None,
    select: Sequence[str] | None = None,
    where: str | None = None,
    distinct: bool = False,
    name: str = "",
    semantics: Literal["implicit", "explicit"] | None = None,
    node_label: str = "type",
    parameters: Mapping[str, Any] | None = None,
) -> Query:
    """Return the query of a motif of GraphFrames over a window.  This needs the extra `match`.

    `labels` is the label of all edges, or a mapping from the names of edges to their labels, in which "" stands for edges
    without a name.  Labels are those of MATCH (`follows|likes`, `!likes`).  Other edges have any label but `node_label`,
    which marks edges that assign labels to vertices.

    `select` are the columns: vertices (`a`) and properties of edges (`e.amount`).  By default these are the named vertices,
    in the order in which they appear.  `where` is a condition in MATCH, over vertices and properties of edges:
    `a <> c AND e.amount > 10`, in which `$x` is one of the `parameters`.  As in GraphFrames, equal rows occur once for each
    choice of edges, unless they are `distinct`.

    Raises `QueryError` for a motif that cannot be translated; the message says what to write instead.

    >>> import rpq
    >>> window = rpq.Window(size="30d", slide="1d")
    >>> query = rpq.motif("(a)-[e]->(b); (b)-[]->(c); !(c)-[]->(a)", window=window, labels={"e": "pays"}, where="e.n > 10")
    >>> query.expression
    'MATCH (a)-[e:pays]->(b), (b)-[]->(c) WHERE (e.n > 10) AND NOT EXISTS { (c)-[]->(a) } RETURN a, b, c'
    """
    edges, alone = _terms(text)
    positive = [edge for edge in edges if not edge.is_negated]
    _check_names(edges, positive, alone)
    names = {edge.edge for edge in edges}
    labels_of_edge = dict.fromkeys(names, labels) if isinstance(labels, str) else dict(labels or {})
    for unknown in labels_of_edge.keys() - names - {""}:
        names_text = ", ".join(sorted(names - {""})) or "without names"
        raise QueryError(f"labels: the motif has no edge [{unknown}]; its edges are {names_text}")
    vertices = list(dict.fromkeys(end for edge in positive for end in (edge.source, edge.target) if end))
    columns = list(vertices if select is None else select)
    if not columns:
        raise QueryError("select: the motif names no vertex: name one, or select a property of an edge, select=['e.amount']")
    conditions = [] if where is None else [f"({where})"]
    conditions += [f"NOT EXISTS {{ {_path(edge, labels_of_edge)} }}" for edge in edges if edge.is_negated]
    match = (
        f"MATCH {', '.join(_path(edge, labels_of_edge) for edge in positive)}"
        + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
        + f" RETURN {'DISTINCT ' if distinct else ''}{', '.join(columns)}"
    )
    return Query(
        match,
        window=window,
        name=name or text,
        semantics=semantics,
        node_label=node_label,
        parameters=parameters,
        language="gql",
    )


def _terms(text: str) -> tuple[list[_Edge], list[str]]:
    """Return the terms of a motif that are edges, and the names in those that are vertices alone.  Raises `QueryError`."""
    edges, alone = [], []
    for term in text.split(";"):
        found = _TERM.fullmatch(term)
        if found is None:
            raise QueryError(
                f"the term {term.strip()!r} of the motif is not understood; expected an edge, as in (a)-[e]->(b), "
                "(a)-[]->() or !(a)-[]->(b), and ; between terms"
            )
        if found["edge"] is None:
            if found["negated"] or not found["source"]:
                raise QueryError(f"{term.strip()!r} is not an edge; only edges can be negated; a lone vertex has a name")
            alone.append(found["source"])
            continue
        arrows = ("<-" if found["back"] else "-", "->" if found["forth"] else "-")
        edge = _Edge(term.strip(), bool(found["negated"]), found["source"], found["edge"], found["target"], arrows, 1)
        edges.append(edge._replace(length=_length(edge, found["length"])))
    return edges, alone


def _length(edge: _Edge, text: str | None) -> int:
    """Return the number of edges of a term.  Raises `QueryError` for all but a fixed length."""
    if text is None:
        return 1
    fixed = _LENGTH.fullmatch(text)
    if fixed is not None:
        length = int(fixed[1])
        if not 0 < length <= _MAX_LENGTH:
            raise QueryError(f"{edge.text}: a length is a number from 1 to {_MAX_LENGTH}, not {length}")
        if edge.arrows not in (_FORTH, _BACK):
            raise QueryError(f"{edge.text}: paths of a length have a direction: write (a)-[*{length}]->(b)")
        return length
    least_and_most = _RANGE.fullmatch(text)
    least, most = ("1", "") if least_and_most is None else (least_and_most[1] or "1", least_and_most[2])
    source, target = edge.source or "a", edge.target or "b"
    path = f"MATCH ANY ({source})-[]->{{{least},{most}}}({target}) RETURN {source}, {target}"
    raise QueryError(
        f"{edge.text}: a path of several lengths is the union of several motifs: write one for each length, as in "
        f"({source})-[*{least}]->({target}), or query the pairs that paths connect, rpq.Query({path!r})"
    )


def _check_names(edges: Sequence[_Edge], positive: Sequence[_Edge], alone: Sequence[str]) -> None:
    """Raise `QueryError` for names that a motif cannot have, or whose meaning a query does not have."""
    if not positive:
        raise QueryError("a motif needs an edge that is not negated, as in (a)-[e]->(b)")
    ends = {end for edge in positive for end in (edge.source, edge.target) if end}
    seen: set[str] = set()
    for edge in edges:
        if not (edge.source or edge.edge or edge.target):
            raise QueryError(f"{edge.text} names nothing: name a vertex or the edge, as in (a)-[]->()")
        if edge.is_negated and edge.edge:
            raise QueryError(f"{edge.text}: a negated edge cannot have a name: write {_text_without_name(edge)}")
        if edge.arrows == _BOTH and not (edge.source and edge.target):
            raise QueryError(f"{edge.text}: both edges end at the same vertex: name it")
        if edge.edge and edge.arrows == _BOTH:
            raise QueryError(
                f"{edge.text} is two edges: write ({edge.source})-[{edge.edge}1]->({edge.target}); "
                f"({edge.target})-[{edge.edge}2]->({edge.source})"
            )
        if edge.is_negated and edge.arrows in (_BOTH, _EITHER):
            raise QueryError(f"{edge.text}: a negated edge needs a direction: write !({edge.source})-[]->({edge.target})")
        if edge.edge in seen:
            raise QueryError(f"{edge.text}: another edge also has the name {edge.edge}; give each edge a name of its own")
        seen |= {edge.edge} - {""}
        for end in (edge.source, edge.target):
            if end and end not in ends:
                raise QueryError(
                    f"{edge.text}: ({end}) is in no edge that is not negated, so it could be any vertex: add an edge with "
                    "it, or write () for no vertex at all"
                )
    for name in alone:
        if name not in ends:
            raise QueryError(f"({name}) is in no edge, and every vertex needs one: add it, as in ({name})-[]->()")
    for name in sorted(ends | seen):
        if name[0].isdigit():
            raise QueryError(f"the name {name} begins with a digit: write _{name}")
    if both := sorted(ends & seen):
        raise QueryError(f"{both[0]} is the name of a vertex and of an edge; use two names")


def _text_without_name(edge: _Edge) -> str:
    return f"!({edge.source}){edge.arrows[0]}[]{edge.arrows[1]}({edge.target})"


def _path(edge: _Edge, labels: Mapping[str, str]) -> str:
    """Return a term as a path of MATCH."""
    label = labels.get(edge.edge)
    of_label = "" if label is None else f":{label}"
    if edge.arrows == _BOTH:
        step = f"-[{of_label}]->"
        return f"({edge.source}){step}({edge.target}), ({edge.target}){step}({edge.source})"
    first, last = edge.arrows
    name = edge.edge if edge.length == 1 else ""
    step = f"{first}[{name}{of_label}]{last}"
    return f"({edge.source})" + "()".join([step] * edge.length) + f"({edge.target})"
