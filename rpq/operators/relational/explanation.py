"""The explanation of a query in SPARQL or MATCH: its algebra, and the operators that maintain its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

from rpq.language.match.node_facts import FACTS
from rpq.language.readings import node_tests_of, node_values_of
from rpq.language.sparql.algebra_text import algebra_text
from rpq.language.sparql.query import SparqlQuery
from rpq.language.sparql.rewriting import rewrite
from rpq.stream.edges.edge_ends import Ends, ends_texts


@dataclass(frozen=True, kw_only=True)
class SparqlExplanation:
    """The meaning of a SPARQL query and its evaluation plan. `str` is for people, `to_dict` for programs.

    `operators` lists the operators of the network, each above its inputs, with its state and the current number of
    entries; it is empty for a query that is not running.

    >>> from rpq import Query, Window
    >>> from rpq.operators.relational.explanation import explain_query
    >>> print(explain_query(Query("ASK { ?x <a> ?y }", window=Window(size=10, slide=1)), ""))
    language     SPARQL: the text begins with one of its keywords
    form         ask
    nodes        facts are triples, read in a window UNBOUNDED; records of nodes are not read
    semantics    explicit
    windows
      default: Window(size=10, slide=1)
    <BLANKLINE>
    algebra
      conjunction  binds x, y
        ?x a ?y
    """

    text: str
    form: str
    language: str
    """The notation of the text, and why it is read so."""
    different: str
    """The rule by which the edges of a clause of MATCH are different, or may be equal; empty for SPARQL."""
    nodes: str
    """Where facts of nodes are, and where conditions on them are decided."""
    columns: tuple[str, ...]
    semantics: str
    report: str
    windows: tuple[tuple[str, str], ...]
    algebra: str
    operators: str
    warnings: tuple[str, ...]
    stored: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The labels of which some edges are ignored, with the edges that are stored, such as "any vertex to h7"."""
    shared: str = ""
    """A text on the operators that it shares with other queries, empty if there are none."""
    hold: int | str | None = None
    """The time for which an answer has to hold before it is reported."""

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON values."""
        return asdict(self)

    def drawing(self, *, most_arrows: int | None = None) -> None:
        """Return None, as an algebra has no drawing."""

    def __str__(self) -> str:
        columns = [f"columns      {', '.join(self.columns)}"] if self.columns else []
        report = [] if self.report == "change" else [f"report       {self.report}"]
        lines = [
            f"language     {self.language}",
            *([f"edges        {self.different}"] if self.different else [f"form         {self.form}"]),
            f"nodes        {self.nodes}",
            *columns,
            f"semantics    {self.semantics}",
            *report,
            *([] if self.hold is None else [f"hold         {self.hold}"]),
            *([f"shared       {self.shared}"] if self.shared else []),
            *(["windows", *(f"  {name}: {window}" for name, window in self.windows)] if self.windows else []),
            *(f"warning      {warning}" for warning in self.warnings),
            "",
            "algebra",
            *(f"  {line}" for line in self.algebra.splitlines()),
        ]
        if self.stored:
            lines += ["", "edges stored", *(f"  {label}: from {', '.join(ends)}" for label, ends in self.stored)]
        if self.operators:
            lines += ["", "operators and their state", *(f"  {line}" for line in self.operators.splitlines())]
        return "\n".join(lines)


_LANGUAGES: dict[str | None, str] = {
    "rsp-ql": "SPARQL: the text begins with one of its keywords",
    "csparql": "C-SPARQL: {report}",
    "cqels": "CQELS: {report}",
    "gql": "MATCH, as in GQL: the text begins with MATCH",
    "cypher": "MATCH, as in Cypher: the language was given",
}


def _language_of(query: SparqlQuery) -> str:
    """Return a text on the language of a query, and on what its dialect decides."""
    parsed = query.parsed
    report = "every change is reported" if parsed.reporting is None else f"{parsed.reporting} is reported at each STEP"
    return _LANGUAGES[query.language if query.notation != "sparql" else parsed.dialect].format(report=report)


def _edges_of(query: SparqlQuery) -> str:
    """Return a text on whether the edges of a clause of MATCH are different; empty for SPARQL."""
    differs = getattr(query, "differs", None)
    if differs is None:
        return ""
    return (
        "different edges of a clause are different (DIFFERENT EDGES, as in Cypher)"
        if differs
        else "an edge may stand for several of a clause (REPEATABLE ELEMENTS, the default)"
    )


def _nodes_of(query: SparqlQuery) -> str:
    """Return a text on where facts of nodes are, and where conditions on them are decided."""
    if query.notation == "sparql":
        return "facts are triples, read in a window UNBOUNDED; records of nodes are not read"
    edges = "" if query.node_label is None else f" and of edges {query.node_label} in the window"
    where = []
    if any(node_tests_of(query)):
        where.append("tests in brackets are decided for each record, once for all queries that have them")
    if node_values_of(query):
        where.append("other properties are joined with the records")
    return "; ".join([f"labels are those of records{edges}", *where])


def explain_query(
    query: SparqlQuery,
    operators: str,
    accepted: Callable[[str], Collection[Ends]] = lambda label: (),
    *,
    shared: str = "",
) -> SparqlExplanation:
    """Return the explanation of a query.

    `operators` describes the network of a running query, `shared` the operators that it shares with other queries. Both are
    empty for a query that is not running.
    `accepted` returns which edges of a label all queries of the engine accept, if that is known.
    """
    streams: dict[str | None, str] = {one.name: f" on <{one.stream}>" for one in query.parsed.windows if one.stream}
    windows = [
        ("default" if name is None else f"<{name}>", repr(window) + streams.get(name, ""))
        for name, window in query.windows.items()
        if name != FACTS.name
    ]
    return SparqlExplanation(
        text=query.expression,
        form=query.parsed.form,
        language=_language_of(query),
        different=_edges_of(query),
        nodes=_nodes_of(query),
        columns=tuple(query.columns),
        semantics=query.semantics,
        report=query.report,
        hold=query.hold,  # type: ignore[arg-type]  # as `hold_length` returns it
        windows=(*windows, *((f"<{name}>", "edges without time") for name in sorted(query.named_graphs))),
        algebra=algebra_text(rewrite(query.parsed.body)),
        operators=operators,
        warnings=query.warnings,
        shared=shared,
        stored=tuple(
            (label, texts)
            for label in sorted(map(str, query.named_labels))
            if (texts := ends_texts(accepted(label) or query.accepts(label)))
        ),
    )
