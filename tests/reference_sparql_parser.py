"""The oracle's reader of SPARQL: rdflib parses a text, and this module translates the parse tree to the oracle's trees.

The grammar (rdflib's, with places and numbers as written) and the clauses of RSP-QL are the engine's, so a fault of theirs
would not show where oracle and engine are compared. pyoxigraph reads the same texts as a second opinion: random
expressions, paths and abbreviations without parentheses, and the tests of the W3C. Numbers in brackets name rules of the
contract; a construct that is refused by name [2.11] raises `Refused`. Decided here:

- **WINDOW with a variable** is the union over all windows, each joined with its name.
- A **duration** is a whole number of units of time; `unit` is how many seconds a unit has.
- A **constant** of type xsd:string is one without type; otherwise literals stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any
from urllib.parse import urljoin

import rdflib
from pyparsing import ParseResults

from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition
from rpq.automata.symbols import Symbol
from rpq.errors import SparqlError
from rpq.language.sparql.algebra import CountExtent, TimeExtent
from rpq.language.sparql.syntax import grammar
from rpq.language.sparql.syntax.source_text import SourceText
from rpq.language.sparql.syntax.window_clauses import WindowClause, WindowClauses, extract_clauses
from tests.reference import Rejected
from tests.reference_sparql_syntax import (
    Aggregate,
    Bind,
    Blank,
    Call,
    Column,
    Condition,
    Constant,
    Element,
    Exists,
    Filter,
    Formula,
    Group,
    InWindow,
    Minus,
    Optional,
    Query,
    Select,
    Term,
    Triple,
    Triples,
    Union,
    Values,
    Variable,
    Window,
)
from tests.reference_sparql_values import XSD, literal

_NAMES = {name.upper(): name for name in ("isIRI", "isBLANK", "isLITERAL", "isNUMERIC", "sameTerm")}
_NAMES |= {"URI": "IRI", "ISURI": "isIRI", "GROUPCONCAT": "GROUP_CONCAT"}
_SIGNS = {"UnaryNot": "!", "UnaryPlus": "+", "UnaryMinus": "-"}
_SIGNS |= {"ConditionalOrExpression": "||", "ConditionalAndExpression": "&&"}
_CASTS = {XSD + name for name in ("string", "boolean", "integer", "decimal", "float", "double", "dateTime", "date", "time")}
_REFUSED = ("RAND", "UUID", "STRUUID", "BNODE")
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class Refused(Rejected):
    """The text is SPARQL and asks for what is refused by name."""

    def __init__(self, construct: str) -> None:
        super().__init__(f"{construct} is refused")
        self.construct = construct


@cache
def parse(text: str, *, unit: Fraction | int | None = 1) -> Query:
    """Parse a query; `unit` is how many seconds a unit of the stream's time has, None if that is not known."""
    try:
        source = SourceText.read(text)
        clauses = extract_clauses(source)
        declarations, node = grammar.parse(source, clauses.standard_text)
    except SparqlError as problem:
        raise Rejected(str(problem)) from None
    return _Reader(clauses, unit).query(declarations, node)


@dataclass
class _Reader:
    """The translation of one parse tree."""

    clauses: WindowClauses
    unit: Fraction | int | None
    base: str = ""
    prefixes: dict[str, str] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)

    def query(self, declarations: Any, node: Any) -> Query:
        for declaration in declarations:
            iri = self.iri(declaration.iri)
            if declaration.name == "Base":
                self.base = iri
            else:
                self.prefixes[declaration.prefix or ""] = iri
        form = node.name.removesuffix("Query").upper()
        if form == "DESCRIBE":
            raise Refused(form)
        for clause in self.clauses.named:
            assert clause.name is not None
            if (name := self.name(clause.name.text)) in self.windows:
                raise Rejected(f"window {name!r} is declared twice")
            self.windows[name] = self.window(clause)
        is_short = node.where is not None and node.where.name == "FakeGroupGraphPatten"  # CONSTRUCT WHERE
        template = [*self.template(node.where.part[0].triples if is_short else node.template)]
        graphs = tuple(graph for _, graph in template)
        name = None if self.clauses.name is None else self.clauses.name.text
        datasets = node.datasetClause or ()
        return Query(
            form,
            self.select(node),
            tuple(triple for triple, _ in template),
            self.windows,
            self.clauses.reporting or "",
            name if name is None or name.isidentifier() else self.name(name),
            self.base,
            graphs if any(graphs) else (),
            tuple(self.iri(clause.default) for clause in datasets if clause.named is None),
            tuple(self.iri(clause.named) for clause in datasets if clause.named is not None),
        )

    def window(self, clause: WindowClause) -> Window:
        """Translate the clause of a window [2.3, 2.4]."""
        extent, stream = clause.extent, None if clause.stream is None else self.name(clause.stream.text)
        if isinstance(extent, CountExtent):
            return Window(kind="count", size=extent.size, slide=extent.step, stream=stream)
        if not isinstance(extent, TimeExtent):
            return Window(kind="unbounded", stream=stream)
        scale = Fraction(1)
        if not extent.is_number:
            if self.unit is None:
                raise Rejected("a duration needs a stream whose unit of time is known")
            scale = Fraction(self.unit) * 10**9  # durations are in nanoseconds
        size, slide = extent.size / scale, 1 if extent.slide is None else extent.slide / scale
        if Fraction(size).denominator > 1 or Fraction(slide).denominator > 1:
            raise Refused("a duration that is no multiple of the unit of time")
        return Window(kind="time", size=int(size), slide=int(slide), stream=stream)

    # --- terms

    def name(self, text: str) -> str:
        """Return the IRI that a clause names, as <name> or prefixed."""
        return self.resolved(text[1:-1]) if text.startswith("<") else self.expanded(*text.split(":", 1))

    def resolved(self, text: str) -> str:
        joined = urljoin(self.base, text) if self.base else text
        return joined + "#" if text.endswith("#") and not joined.endswith("#") else joined  # which `urljoin` drops

    def expanded(self, prefix: str, local: str) -> str:
        if prefix not in self.prefixes:
            raise Rejected(f"the prefix {prefix}: is not declared")
        return self.prefixes[prefix] + re.sub(r"\\(.)", r"\1", local)

    def iri(self, node: Any) -> str:
        if isinstance(node, grammar.Leaf):
            return self.resolved(node.text)
        return self.expanded(node.prefix or "", node.localname or "") if hasattr(node, "name") else str(node)

    def term(self, node: Any) -> Term:
        kind = "anonymous" if isinstance(node, rdflib.BNode) else getattr(node, "kind", None)
        if kind in ("anonymous", "blank"):
            return Blank(node.text if kind == "blank" else f"anonymous.{node if isinstance(node, str) else node.place}")
        if kind == "variable":
            return Variable(node.text)
        return Constant(self.constant(node))

    def constant(self, node: Any) -> str:
        if isinstance(node, rdflib.Literal):
            return literal(str(node), "boolean")
        if isinstance(node, grammar.Leaf) and node.kind == "number":
            kind = "double" if "e" in node.text.lower() else "decimal" if "." in node.text else "integer"
            return literal(node.text, kind)
        if getattr(node, "name", None) != "literal":
            return self.iri(node)
        datatype = None if node.datatype is None else self.iri(node.datatype)
        return literal(node.string.text, datatype if datatype is None or ":" in datatype else "x:" + datatype, node.lang)

    # --- triples

    def triples(self, blocks: Any) -> tuple[Triple, ...]:
        flat = [node for block in blocks for node in block]
        return tuple(
            Triple(self.term(subject), self.term(path) if _is_variable(path) else self.path(path), self.term(object_))
            for subject, path, object_ in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        )

    def template(self, blocks: Any) -> Iterator[tuple[Triple, Term | None]]:
        """Yield the triples of a template, each with its graph, None for the default graph."""
        for block in blocks or ():
            if getattr(block, "name", None) == "GraphTemplate":
                yield from ((triple, self.term(block.term)) for triple in self.triples(block.template or ()))
            else:
                yield from ((triple, None) for triple in self.triples([block]))

    def path(self, node: Any) -> Expression:
        match getattr(node, "name", None):
            case "PathAlternative" | "PathSequence" as name:
                parts = tuple(map(self.path, node.part))
                return parts[0] if len(parts) == 1 else (Alternation if name == "PathAlternative" else Concatenation)(parts)
            case "PathEltOrInverse":
                return Inverse(self.path(node.part))
            case "PathElt":
                return Repetition(self.path(node.part), *_bounds(node.mod)) if node.mod else self.path(node.part)
            case "PathNegatedPropertySet":
                return NegatedSet(tuple(map(self.member, node.part or ())))
            case "DistinctPath":
                raise Refused("DISTINCT in a path")
        return Label(self.iri(node))

    def member(self, node: Any) -> Symbol:
        is_inverse = getattr(node, "name", None) == "InversePath"
        return Symbol(self.iri(node.part if is_inverse else node), inverse=is_inverse)

    # --- groups

    def select(self, node: Any) -> Select:
        columns = None
        if node.projection is not None:
            columns = tuple(
                Column(self.term(one.evar or one.var), None if one.expr is None else self.formula(one.expr))
                for one in node.projection
            )
        positions = node.limitoffset
        return Select(
            columns,
            Group() if node.where is None else self.group(node.where),
            node.modifier or "",
            tuple(map(self.condition, node.groupby.condition if node.groupby else ())),
            tuple(map(self.formula, node.having.condition if node.having else ())),
            None if node.valuesClause is None else self.values(node.valuesClause),
            tuple((self.formula(one.expr), one.order == "DESC") for one in (node.orderby.condition if node.orderby else ())),
            int(positions.limit.text) if positions and positions.limit else None,
            int(positions.offset.text) if positions and positions.offset else 0,
        )

    def condition(self, node: Any) -> Condition:
        if getattr(node, "name", None) != "GroupAs":
            return Condition(self.formula(node))
        return Condition(self.formula(node.expr), None if node.var is None else self.term(node.var))

    def group(self, node: Any) -> Group:
        return Group((self.select(node),) if node.name == "SubSelect" else tuple(map(self.element, node.part or ())))

    def element(self, node: Any) -> Element:
        match node.name:
            case "TriplesBlock":
                return Triples(self.triples(node.triples))
            case "Filter":
                return Filter(self.formula(node.expr))
            case "OptionalGraphPattern":
                return Optional(self.group(node.graph))
            case "MinusGraphPattern":
                return Minus(self.group(node.graph))
            case "Bind":
                return Bind(self.formula(node.expr), self.term(node.var))
            case "InlineData":
                return self.values(node)
            case "GraphGraphPattern":
                return self.in_window(node)
            case "GroupOrUnionGraphPattern":
                groups = tuple(map(self.group, node.graph))
                is_select = len(groups) == 1 and node.graph[0].name == "SubSelect"
                return groups[0].elements[0] if is_select else Union(groups)
        raise Refused(node.name.removesuffix("GraphPattern").upper())

    def in_window(self, node: Any) -> Element:
        name = self.term(node.term) if _is_variable(node.term) else self.iri(node.term)
        group = self.group(node.graph)
        if node.place not in self.clauses.uses:
            return InWindow(name, group, is_graph=True)
        if isinstance(name, str):
            return InWindow(name, group)
        if not self.windows:
            raise Rejected("a window that a variable names, where none is declared")
        # GRAPH ?w of the standard (18.6): the union over the named graphs, each joined with its name
        return Union(tuple(Group((InWindow(one, group), Values((name,), ((one,),)))) for one in self.windows))

    def values(self, node: Any) -> Values:
        names = tuple(map(self.term, node.var or ()))
        rows = [list(row) if isinstance(row, ParseResults) else [row] for row in node.value or ()]
        if any(len(row) != len(names) for row in rows):
            raise Rejected(f"VALUES has rows that are not of {len(names)} terms")
        return Values(names, tuple(tuple(None if one == "UNDEF" else self.constant(one) for one in row) for row in rows))

    # --- formulas

    def formula(self, node: Any) -> Formula:
        name = getattr(node, "name", "literal")
        if name in ("pname", "literal"):
            return self.term(node)
        match name.partition("_"):
            case "Builtin", _, "EXISTS" | "NOTEXISTS" as kind:
                return Exists(self.group(node.graph), negated=kind == "NOTEXISTS")
            case "Aggregate", _, kind:
                argument = None if node.vars == "*" else self.formula(node.vars)
                separator = {} if node.separator is None else {"separator": node.separator.text}
                return Aggregate(_NAMES.get(kind.upper(), kind.upper()), argument, bool(node.distinct), **separator)
            case "Builtin", _, kind if kind in _REFUSED:
                raise Refused(kind)
            case "Builtin", _, kind:  # CONCAT and COALESCE have one operand, a list
                operands = [one for operand in node.values() for one in _list(operand)]
                return Call(_NAMES.get(kind.upper(), kind.upper()), tuple(map(self.formula, operands)))
        if name == "Function":
            iri = self.iri(node.iri)
            if iri not in _CASTS or node.distinct or len(node.expr or ()) != 1:
                raise Refused(f"the function {iri}")
            return Call(iri, tuple(map(self.formula, node.expr)))
        if name.startswith("Unary"):
            inner, sign = node.expr, _SIGNS[name]
            if sign != "!" and getattr(inner, "kind", "") == "number" and inner.place == node.place + 1:  # is of the number
                return Constant(self.constant(replace(inner, text=sign + inner.text)))
            return Call(sign, (self.formula(inner),))
        formula = self.formula(node.expr)
        if name == "RelationalExpression":
            return formula if node.op is None else Call(node.op, (formula, *map(self.formula, _list(node.other))))
        operands = [*map(self.formula, node.other or ())]
        for operator, operand in zip(node.op or [_SIGNS.get(name)] * len(operands), operands, strict=True):
            formula = Call(operator, (formula, operand))
        return formula


def _is_variable(node: Any) -> bool:
    return isinstance(node, grammar.Leaf) and node.kind == "variable"


def _bounds(quantifier: str) -> tuple[int, int | None]:
    """Return how often a part of a path is repeated: `*`, `+`, `?`, `{2}`, `{2,}`, `{,4}` or `{2,4}`."""
    if quantifier in _QUANTIFIERS:
        return _QUANTIFIERS[quantifier]
    least, comma, most = re.fullmatch(r"\{(\d*)(,?)(\d*)\}", re.sub(r"\s", "", quantifier)).groups()
    return int(least or 0), int(most) if most else None if comma else int(least)


def _list(node: Any) -> list[Any]:
    """Return the elements of a list, of which rdf:nil is the empty one, or a single node as a list."""
    if isinstance(node, rdflib.URIRef):
        return []
    return list(node) if isinstance(node, ParseResults | list) else [node]
