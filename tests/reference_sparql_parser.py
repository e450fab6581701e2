"""The oracle's parser: the text of a query to its tree, by recursive descent along the grammar of SPARQL 1.1.

It is not rdflib's, which the engine uses, for three reasons: rdflib forgets the labels of inverse members of a negated
set, rewrites numbers (`-007`), and so would hide the same fault in the engine; it knows no windows; and a tree that
follows the text is easier to hold against the standard than rdflib's algebra. That the grammar is SPARQL's is shown by
the syntax tests of the W3C and by both libraries, which read what is written here. Numbers in brackets name rules of
the contract. What is refused by name [2.11] raises `Refused`, whose `construct` says what; other faults raise
`SyntaxFault` with the place. Decided here:

- **Windows** stand where the clauses FROM stand. ON may be left out; the names of windows and streams are IRIs, prefixed
  or not, or for WINDOW a variable: the union over all of them. SLIDE is STEP, TUMBLING stands in place of STEP. A
  duration is of the XSD kind with weeks allowed, or a number and s, m or h; a plain number is one of units of time;
  `unit` is how many seconds a unit of time has.
- **Reserved words** may be written in capitals or not; `a` is rdf:type.
- A **constant** of type xsd:string is one without type; else literals stay as written (escapes apart).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from urllib.parse import urljoin

from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition
from rpq.automata.symbols import Symbol
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
from tests.reference_sparql_values import XSD, literal, text_of

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


class SyntaxFault(Rejected):
    """The text is not SPARQL."""


class Refused(Rejected):
    """The text is SPARQL, or a kin of it, and asks for what is refused by name."""

    def __init__(self, construct: str) -> None:
        super().__init__(f"{construct} is refused")
        self.construct = construct


_TOKENS = re.compile(
    r"""(?P<blank>\s+|\#[^\n\r]*)
    |(?P<iri><[^<>"{}|^`\\\x00-\x20]*>)
    |(?P<variable>[?$][\w·\u0300-\u036f]+)
    |(?P<node>_:[\w](?:[\w.·-]*[\w·-])?)
    |(?P<string>\"{3}(?:\"{0,2}(?:[^"\\]|\\.))*\"{3}|'{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}
        |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
    |(?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
    |(?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][+-]?[0-9]+|[0-9]*\.[0-9]+|[0-9]+)
    |(?P<name>(?:[^\W\d_](?:[\w.·\u0300-\u036f-]*[\w·\u0300-\u036f-])?)?:
        (?:(?:[\w:]|%[0-9A-Fa-f]{2}|\\[-_~.!$&'()*+,;=/?\#@%])
        (?:(?:[\w:.·\u0300-\u036f-]|%[0-9A-Fa-f]{2}|\\[-_~.!$&'()*+,;=/?\#@%])*
        (?:[\w:·\u0300-\u036f-]|%[0-9A-Fa-f]{2}|\\[-_~.!$&'()*+,;=/?\#@%]))?)?)
    |(?P<word>[A-Za-z][A-Za-z0-9_]*)
    |(?P<sign>\^\^|&&|\|\||!=|<=|>=|[-{}()\[\];,.+*/|^!=<>?@])""",
    re.VERBOSE | re.DOTALL,
)
_STRING_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", "\\": "\\", '"': '"', "'": "'"}
_ARGUMENTS = {  # how many a function takes
    **dict.fromkeys(
        "STR LANG DATATYPE BOUND IRI ABS CEIL FLOOR ROUND STRLEN UCASE LCASE ENCODE_FOR_URI YEAR MONTH DAY HOURS MINUTES "
        "SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512 isIRI isBLANK isLITERAL isNUMERIC".split(),
        (1, 1),
    ),
    **dict.fromkeys("LANGMATCHES CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER STRLANG STRDT sameTerm".split(), (2, 2)),
    "IF": (3, 3),
    "SUBSTR": (2, 3),
    "REGEX": (2, 3),
    "REPLACE": (3, 4),
    "CONCAT": (0, 99),
    "NOW": (0, 0),
    "COALESCE": (0, 99),
}
_FUNCTIONS = {name.upper(): name for name in _ARGUMENTS} | {"URI": "IRI", "ISURI": "isIRI"}
_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")
_CASTS = ("string", "boolean", "integer", "decimal", "float", "double", "dateTime", "date", "time")
_REFUSED_FUNCTIONS = ("RAND", "UUID", "STRUUID", "BNODE", "SEQ")


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    found, place = [], 0
    while place < len(text):
        match = _TOKENS.match(text, place)
        if match is None:
            raise SyntaxFault(f"at {place}: {text[place : place + 10]!r}")
        if match.lastgroup != "blank":
            found.append(Token(match.lastgroup, match[0], *match.span()))
        place = match.end()
    return [*found, Token("end", "", place, place)]


def parse(text: str, *, unit: Fraction | int | None = 1) -> Query:
    """Parse a query; `unit` is how many seconds a unit of the stream's time has, None if that is not known."""
    text = re.sub(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})", lambda m: chr(int(m[1] or m[2], 16)), text)
    return _Parser(tokens(text), unit).query()


@dataclass
class _Parser:
    tokens: list[Token]
    unit: Fraction | int | None
    place: int = 0
    base: str = ""
    prefixes: dict[str, str] = field(default_factory=dict)
    fresh: int = 0
    windows: tuple[str, ...] = ()  # their names, in the order of the text
    from_graphs: list[str] = field(default_factory=list)
    from_named: list[str] = field(default_factory=list)

    # --- tokens

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def is_word(self, *words: str, ahead: int = 0) -> bool:
        token = self.tokens[min(self.place + ahead, len(self.tokens) - 1)]
        return token.kind == "word" and token.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        return self.next.kind == "sign" and self.next.text in signs

    def take(self) -> Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def accept(self, *texts: str) -> str | None:
        """Take the next token if it is one of these words or signs, and return that."""
        if self.is_word(*texts) or self.is_sign(*texts):
            return self.take().text.upper()
        return None

    def expect(self, *texts: str) -> str:
        return self.accept(*texts) or self.fault(" or ".join(texts))

    def fault(self, expected: str) -> str:
        raise SyntaxFault(f"at {self.next.start}: {expected} expected, not {self.next.text!r}")

    # --- the query

    def query(self) -> Query:
        self.prologue()
        operator = name = None
        if self.accept("REGISTER"):
            operator = self.expect("ISTREAM", "DSTREAM", "RSTREAM", "STREAM", "QUERY")
            name = self.take().text if self.next.kind == "word" else self.iri()
            self.expect("AS")
            self.prologue()
        form = self.expect("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
        inner = self.accept("ISTREAM", "DSTREAM", "RSTREAM")
        if inner and operator not in (None, "STREAM", "QUERY", inner):
            self.fault(f"{operator}, as in REGISTER")
        operator = inner or ("RSTREAM" if operator in ("STREAM", "QUERY") else operator)
        if form == "DESCRIBE":
            raise Refused("DESCRIBE")
        template: tuple[Triple, ...] = ()
        graphs: tuple[Term | None, ...] = ()
        short = False
        modifier, columns = "", None
        if form == "SELECT":
            modifier, columns = self.selection()
        elif form == "CONSTRUCT":
            short = not self.is_sign("{")
            template, graphs = ((), ()) if short else self.template()
        windows = self.datasets()
        if short:
            self.expect("WHERE")
            template, graphs = self.template()
            if any(graphs):
                raise Refused("GRAPH in CONSTRUCT WHERE")
            select = self.modified(None, Group((Triples(template),) if template else ()), "")
        else:
            self.accept("WHERE")
            select = self.modified(columns, self.group(), modifier)
        if self.next.kind != "end":
            self.fault("the end")
        clauses = tuple(self.from_graphs), tuple(self.from_named)
        return Query(form, select, template, windows, operator or "", name, self.base, graphs, *clauses)

    def prologue(self) -> None:
        while word := self.accept("BASE", "PREFIX"):
            prefix = None
            if word == "PREFIX":
                prefix = self.take().text
                if prefix.find(":") != len(prefix) - 1:
                    self.fault("a prefix")
            iri = self.iri()
            if prefix is None:
                self.base = iri
            else:
                self.prefixes[prefix[:-1]] = iri

    def selection(self) -> tuple[str, tuple[Column, ...] | None]:
        modifier = self.accept("DISTINCT", "REDUCED") or ""
        if self.accept("*"):
            return modifier, None
        columns = []
        while self.next.kind == "variable" or self.is_sign("("):
            if self.accept("("):
                formula = self.formula()
                self.expect("AS")
                columns.append(Column(self.variable(), formula))
                self.expect(")")
            else:
                columns.append(Column(self.variable()))
        if not columns:
            self.fault("a variable")
        return modifier, tuple(columns)

    def modified(self, columns: tuple[Column, ...] | None, body: Group, modifier: str) -> Select:
        conditions: list[Condition] = []
        having: list[Formula] = []
        if self.accept("GROUP"):
            self.expect("BY")
            while not conditions or self.is_condition():
                conditions.append(self.group_condition())
        if self.accept("HAVING"):
            while not having or self.is_condition(variables=False):
                having.append(self.constraint())
        order: list[tuple[Formula, bool]] = []
        if self.accept("ORDER"):
            self.expect("BY")
            while not order or self.is_condition():
                descending = self.accept("ASC", "DESC")
                order.append((self.primary(), descending is not None and descending.upper() == "DESC"))
        positions: dict[str, int] = {}
        while self.is_word("LIMIT", "OFFSET") and self.next.text.upper() not in positions:
            word = self.accept("LIMIT", "OFFSET").upper()
            if not self.next.text.isdecimal():
                self.fault("a whole number")
            positions[word] = int(self.take().text)
        values = self.values() if self.accept("VALUES") else None
        limit, offset = positions.get("LIMIT"), positions.get("OFFSET", 0)
        return Select(columns, body, modifier, tuple(conditions), tuple(having), values, tuple(order), limit, offset)

    def is_condition(self, variables: bool = True) -> bool:
        if self.is_word("ORDER", "LIMIT", "OFFSET", "HAVING", "VALUES"):
            return False
        kinds = ("word", "iri", "name", "variable") if variables else ("word", "iri", "name")
        return self.next.kind in kinds or self.is_sign("(")

    def group_condition(self) -> Condition:
        if self.accept("("):
            formula = self.formula()
            variable = self.variable() if self.accept("AS") else None
            self.expect(")")
            return Condition(formula, variable)
        return Condition(self.primary())

    def constraint(self) -> Formula:
        if self.next.kind not in ("word", "iri", "name") and not self.is_sign("("):
            self.fault("a condition")
        formula = self.primary()
        return formula if not isinstance(formula, Constant) or self.tokens[self.place - 1].text == ")" else self.fault("(")

    # --- windows [2.3, 2.4]

    def datasets(self) -> dict[str, Window]:
        windows: dict[str, Window] = {}
        while self.accept("FROM"):
            if not self.is_word("NAMED"):
                self.from_graphs.append(self.iri())
                continue
            if not self.is_word("WINDOW", ahead=1):
                self.take()
                self.from_named.append(self.iri())
                continue
            self.place += 2
            name = self.iri()
            if name in windows:
                raise Rejected(f"window {name!r} is declared twice")
            stream = self.stream()
            self.expect("[")
            windows[name] = self.extent(stream)
            self.expect("]")
            if behind := self.stream():
                windows[name] = replace(windows[name], stream=behind)
        self.windows = tuple(windows)
        return windows

    def stream(self) -> str | None:
        if not self.accept("ON"):
            return None
        self.accept("STREAM")
        return self.iri()

    def extent(self, stream: str | None) -> Window:
        kind = self.expect("RANGE", "COUNT", "ELEMENTS", "TRIPLES", "UNBOUNDED")
        if kind == "UNBOUNDED":
            return Window(kind="unbounded", stream=stream)
        kind = self.accept("TRIPLES") or kind
        amount = self.duration if kind == "RANGE" else self.count
        size, slide = amount(), 1
        self.accept(",")
        if self.accept("TUMBLING"):
            slide = size
        elif self.accept("STEP", "SLIDE"):
            slide = amount()
        return Window(kind="time" if kind == "RANGE" else "count", size=size, slide=slide, stream=stream)

    def count(self, least: int = 1) -> int:
        token = self.take()
        if not token.text.isdigit() or int(token.text) < least:
            raise SyntaxFault(f"at {token.start}: a number of tuples expected, not {token.text!r}")
        return int(token.text)

    def duration(self) -> int:
        token = self.take()
        written = token.text
        if written.isdigit() and (self.next.start > token.end or self.is_sign("]", ",")) and not self.is_word("S", "M", "H"):
            return int(written)  # in the unit of the stream
        if self.is_word("S", "M", "H"):
            written = f"PT{written}{self.take().text.upper()}"
        while self.next.start == self.tokens[self.place - 1].end and not self.is_sign("]", ","):  # PT0.5S is three tokens
            written += self.take().text
        found = re.fullmatch(
            r"P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?",
            written,
        )
        if found is None:
            raise SyntaxFault(f"at {token.start}: a duration expected, not {written!r}")
        if found[1] or found[2]:
            raise Refused("a duration in months or years")
        scales = (7 * 86400, 86400, 3600, 60, 1)
        seconds = sum(scale * Fraction(part or 0) for scale, part in zip(scales, found.groups()[2:], strict=True))
        if self.unit is None:
            raise Rejected("a duration needs a stream whose unit of time is known")
        units = seconds / Fraction(self.unit)
        if units.denominator != 1 or units < 1:
            raise Refused("a duration that is no multiple of the unit of time")
        return int(units)

    # --- terms

    def iri(self) -> str:
        token = self.take()
        if token.kind == "iri":
            text = token.text[1:-1]
            joined = urljoin(self.base, text) if self.base else text
            return joined + "#" if text.endswith("#") and not joined.endswith("#") else joined  # which `urljoin` drops
        if token.kind == "name":
            prefix, _, local = token.text.partition(":")
            if prefix not in self.prefixes:
                raise SyntaxFault(f"at {token.start}: the prefix {prefix}: is not declared")
            return self.prefixes[prefix] + re.sub(r"\\(.)", r"\1", local)
        self.place -= 1
        return self.fault("an IRI")

    def variable(self) -> Variable:
        if self.next.kind != "variable":
            self.fault("a variable")
        return Variable(self.take().text[1:])

    def number(self) -> str:
        sign = self.take().text if self.is_sign("+", "-") else ""
        if self.next.kind != "number":
            self.fault("a number")
        text = self.take().text
        kind = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
        return literal(sign + text, kind)

    def literal(self) -> str:
        """A literal as a term."""
        if self.is_word("TRUE", "FALSE"):
            return literal(self.take().text.lower(), "boolean")
        if self.next.kind != "string":
            return self.number()
        quoted = self.take().text
        width = 3 if quoted[:3] in ('"""', "'''") else 1
        text = re.sub(r"\\(.)", self.escaped, quoted[width:-width], flags=re.DOTALL)
        if self.next.kind == "language":
            return literal(text, language=self.take().text[1:])
        return literal(text, self.datatype() if self.accept("^^") else None)

    def datatype(self) -> str:
        iri = self.iri()
        return iri if ":" in iri else "x:" + iri

    def escaped(self, found: re.Match[str]) -> str:
        if found[1] not in _STRING_ESCAPES:
            self.fault("an escape that there is")
        return _STRING_ESCAPES[found[1]]

    def term(self) -> Term:
        """A variable, constant or blank node (not one with properties)."""
        token = self.next
        if token.kind == "variable":
            return self.variable()
        if token.kind in ("iri", "name"):
            return Constant(self.iri())
        if token.kind == "node":
            return Blank(self.take().text[2:])
        return Constant(self.literal())

    def blank(self) -> Blank:
        self.fresh += 1
        return Blank(f"anonymous.{self.fresh}")

    # --- triples

    def template(self) -> tuple[tuple[Triple, ...], tuple[Term | None, ...]]:
        """Triples, and the graph of each: `Quads` of the grammar of updates."""
        self.expect("{")
        found = self.triples_of_template()
        graphs: list[Term | None] = [None] * len(found)
        while self.accept("GRAPH"):
            graph = self.variable() if self.next.kind == "variable" else Constant(self.iri())
            self.expect("{")
            inside = self.triples_of_template()
            self.expect("}")
            self.accept(".")
            behind = self.triples_of_template()
            found += [*inside, *behind]
            graphs += [*[graph] * len(inside), *[None] * len(behind)]
        self.expect("}")
        return tuple(found), tuple(graphs) if any(graphs) else ()

    def triples_of_template(self) -> list[Triple]:
        found: list[Triple] = []
        while not self.is_sign("}") and not self.is_word("GRAPH"):
            self.subject(found, paths=False)
            if not self.accept("."):
                break
        return found

    def subject(self, found: list[Triple], paths: bool = True) -> None:
        has_properties = self.is_sign("[", "(")
        start = self.place
        subject = self.node(found, paths)
        bare = self.place - start == 2  # `[]` and `()`
        if (not has_properties or bare) or not self.is_sign(".", "}"):
            self.properties(subject, found, paths)

    def node(self, found: list[Triple], paths: bool) -> Term:
        if self.accept("["):
            node = self.blank()
            if not self.accept("]"):
                self.properties(node, found, paths)
                self.expect("]")
            return node
        if not self.accept("("):
            return self.term()
        items = []
        while not self.accept(")"):
            items.append(self.node(found, paths))
        cells: list[Term] = [self.blank() for _ in items]
        cells.append(Constant(RDF + "nil"))
        for item, cell, rest in zip(items, cells, cells[1:], strict=False):
            found += [Triple(cell, Label(RDF + "first"), item), Triple(cell, Label(RDF + "rest"), rest)]
        return cells[0]

    def properties(self, subject: Term, found: list[Triple], paths: bool) -> None:
        while True:
            if self.next.kind == "variable":
                path: Expression | Term = self.term()
            elif paths:
                path = self.path()
            else:
                path = Label(RDF + "type" if self.accept("A") else self.iri())
            while True:
                inner: list[Triple] = []
                node = self.node(inner, paths)
                found += [Triple(subject, path, node), *inner]
                if not self.accept(","):
                    break
            if not self.accept(";"):
                return
            while self.accept(";"):
                pass
            if self.is_sign(".", "}", "]") or self.next.kind == "end" or self.is_word(*_ELEMENTS):
                return

    def path(self) -> Expression:
        parts = [self.sequence()]
        while self.accept("|"):
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def sequence(self) -> Expression:
        parts = [self.step()]
        while self.accept("/"):
            parts.append(self.step())
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def step(self) -> Expression:
        if self.accept("^"):
            return Inverse(self.repeated())
        return self.repeated()

    def repeated(self) -> Expression:
        if self.accept("("):
            inner = self.path()
            self.expect(")")
        elif self.accept("!"):
            inner = self.negated()
        else:
            inner = Label(RDF + "type" if self.accept("A") else self.iri())
        if self.accept("{"):
            return Repetition(inner, *self.repetitions())
        sign = self.accept("*", "+", "?")
        bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        return Repetition(inner, *bounds[sign]) if sign else inner

    def repetitions(self) -> tuple[int, int | None]:
        """Parse the braces behind a part of a path: {2}, {2,}, {,3}, {2,3}; SPARQL has none, QLever has."""
        least = None if self.is_sign(",") else self.count(0)
        most = least
        if self.accept(","):
            most = None if least is not None and self.is_sign("}") else self.count(0)
        self.expect("}")
        if most is not None and most < (least or 0):
            self.fault(f"{least} or more")
        return least or 0, most

    def negated(self) -> NegatedSet:
        def member() -> Symbol:
            inverse = self.accept("^") is not None
            return Symbol(RDF + "type" if self.accept("A") else self.iri(), inverse=inverse)

        if not self.accept("("):
            return NegatedSet((member(),))
        members = []
        while not self.accept(")"):
            if members:
                self.expect("|")
            members.append(member())
        return NegatedSet(tuple(members))

    # --- groups

    def group(self) -> Group:
        self.expect("{")
        if self.is_word("SELECT"):
            inner = Group((self.nested(),))
        else:
            inner = Group(tuple(self.elements()))
        self.expect("}")
        return inner

    def nested(self) -> Select:
        self.expect("SELECT")
        modifier, columns = self.selection()
        self.accept("WHERE")
        return self.modified(columns, self.group(), modifier)

    def elements(self) -> list[Element]:
        found: list[Element] = []
        may_begin_triples = True
        while not self.is_sign("}"):
            if self.is_sign("{") or self.is_word(*_ELEMENTS):
                found.append(self.element())
                self.accept(".")
                may_begin_triples = True
            elif may_begin_triples:
                triples: list[Triple] = []
                while not self.is_sign("}", "{") and not self.is_word(*_ELEMENTS):
                    self.subject(triples)
                    if not self.accept("."):
                        break
                found.append(Triples(tuple(triples)))
                may_begin_triples = False
            else:
                self.fault("}")
        return found

    def element(self) -> Element:
        if self.is_sign("{"):
            is_select = self.is_word("SELECT", ahead=1)
            groups = [self.group()]
            while self.accept("UNION"):
                groups.append(self.group())
            return groups[0].elements[0] if is_select and len(groups) == 1 else Union(tuple(groups))
        match self.expect(*_ELEMENTS):
            case "OPTIONAL":
                return Optional(self.group())
            case "MINUS":
                return Minus(self.group())
            case "FILTER":
                return Filter(self.constraint())
            case "VALUES":
                return self.values()
            case "BIND":
                self.expect("(")
                formula = self.formula()
                self.expect("AS")
                bind = Bind(formula, self.variable())
                self.expect(")")
                return bind
            case "WINDOW":
                if self.next.kind != "variable":
                    return InWindow(self.iri(), self.group())
                # GRAPH ?w of the standard (18.6): the union over the named graphs, each joined with its name
                variable, start = self.variable(), self.place
                branches = []
                for window in self.windows:
                    self.place = start
                    table = Values((variable,), ((window,),))
                    branches.append(Group((InWindow(window, self.group()), table)))
                if not branches:
                    raise Rejected("a window that a variable names, where none is declared")
                return Union(tuple(branches))
            case "GRAPH":
                is_variable = self.next.kind == "variable"
                return InWindow(self.variable() if is_variable else self.iri(), self.group(), is_graph=True)
            case refused:
                raise Refused(refused)

    def values(self) -> Values:
        def cell() -> str | None:
            if self.accept("UNDEF"):
                return None
            return self.iri() if self.next.kind in ("iri", "name") else self.literal()

        if self.next.kind == "variable":
            variables, rows = (self.variable(),), []
            self.expect("{")
            while not self.accept("}"):
                rows.append((cell(),))
            return Values(variables, tuple(rows))
        self.expect("(")
        names: list[Variable] = []
        while not self.accept(")"):
            names.append(self.variable())
        self.expect("{")
        rows = []
        while not self.accept("}"):
            self.expect("(")
            row: list[str | None] = []
            while not self.accept(")"):
                row.append(cell())
            if len(row) != len(names):
                self.fault(f"a row of {len(names)} before this")
            rows.append(tuple(row))
        return Values(tuple(names), tuple(rows))

    # --- formulas

    def formula(self) -> Formula:
        left = self.conjunction()
        while self.accept("||"):
            left = Call("||", (left, self.conjunction()))
        return left

    def conjunction(self) -> Formula:
        left = self.relation()
        while self.accept("&&"):
            left = Call("&&", (left, self.relation()))
        return left

    def relation(self) -> Formula:
        left = self.sum()
        if sign := self.accept("=", "!=", "<", ">", "<=", ">="):
            return Call(sign, (left, self.sum()))
        if self.is_word("NOT") and self.is_word("IN", ahead=1):
            self.place += 2
            return Call("NOT IN", (left, *self.arguments()))
        if self.accept("IN"):
            return Call("IN", (left, *self.arguments()))
        return left

    def sum(self) -> Formula:
        left = self.product()
        while sign := self.accept("+", "-"):
            left = Call(sign, (left, self.product()))
        return left

    def product(self) -> Formula:
        left = self.unary()
        while sign := self.accept("*", "/"):
            left = Call(sign, (left, self.unary()))
        return left

    def unary(self) -> Formula:
        if self.is_sign("+", "-"):
            following = self.tokens[self.place + 1]
            if following.kind == "number" and following.start == self.next.end:
                return Constant(self.number())
        if sign := self.accept("!", "+", "-"):
            return Call(sign, (self.primary(),))
        return self.primary()

    def arguments(self) -> list[Formula]:
        self.expect("(")
        found: list[Formula] = []
        while not self.accept(")"):
            if found:
                self.expect(",")
            found.append(self.formula())
        return found

    def primary(self) -> Formula:
        token = self.next
        if self.accept("("):
            inner = self.formula()
            self.expect(")")
            return inner
        if self.is_sign("@"):
            raise Refused("@")
        if token.kind == "variable":
            return self.variable()
        if token.kind in ("iri", "name"):
            iri = self.iri()
            return self.function(iri) if self.is_sign("(") else Constant(iri)
        if token.kind != "word" or self.is_word("TRUE", "FALSE"):
            return Constant(self.literal())
        word = self.take().text.upper()
        if word in _REFUSED_FUNCTIONS:
            raise Refused(word)
        if word == "NOT" and self.accept("EXISTS"):
            return Exists(self.group(), negated=True)
        if word == "EXISTS":
            return Exists(self.group())
        if word in _AGGREGATES:
            return self.aggregate(word)
        if word not in _FUNCTIONS:
            self.place -= 1
            self.fault("an expression")
        name = _FUNCTIONS[word]
        arguments = tuple(self.arguments())
        least, most = _ARGUMENTS[name]
        if not least <= len(arguments) <= most or (name == "BOUND" and not isinstance(arguments[0], Variable)):
            raise SyntaxFault(f"at {token.start}: {name} takes {least} to {most} arguments")
        return Call(name, arguments)

    def function(self, iri: str) -> Formula:
        arguments = tuple(self.arguments())
        if not iri.startswith(XSD) or iri[len(XSD) :] not in _CASTS or len(arguments) != 1:
            raise Refused(f"the function {iri}")
        return Call(iri, arguments)

    def aggregate(self, name: str) -> Aggregate:
        self.expect("(")
        distinct = self.accept("DISTINCT") is not None
        argument = None if name == "COUNT" and self.accept("*") else self.formula()
        separator = " "
        if name == "GROUP_CONCAT" and self.accept(";"):
            self.expect("SEPARATOR")
            self.expect("=")
            separator = text_of(self.literal())
        self.expect(")")
        return Aggregate(name, argument, distinct, separator)


_ELEMENTS = ("OPTIONAL", "MINUS", "FILTER", "VALUES", "BIND", "WINDOW", "GRAPH", "SERVICE")
