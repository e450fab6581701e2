"""The translation of names, terms and expressions of the parse tree: prefixes, scopes of variables, and formulas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from rpq.queries.pattern import Blank, Constant, Term, Variable
from rpq.sparql.algebra import Aggregate, Call, Exists, Formula, Operator
from rpq.sparql.syntax.grammar import Leaf
from rpq.sparql.syntax.source_text import REFUSED, SourceText, refusal
from rpq.sparql.values.functions import CASTS
from rpq.sparql.values.regular_expressions import UnsupportedPattern, compile_pattern, require_engine
from rpq.sparql.values.terms import XSD, is_literal, literal_text, number_literal, read_literal, resolve_iri
from rpq.sparql.values.typed_values import NoValue

_LOCAL_ESCAPE = re.compile(r"\\([_~.\-!$&\"'()*+,;=/?#@%])")


class Prologue:
    """BASE and PREFIX: IRIs of what is written."""

    def __init__(self, source: SourceText, declarations: Iterable[Any]) -> None:
        self._source = source
        self.base = ""
        """Empty where there is none: then an IRI stays as it is written."""
        self._prefixes: dict[str, str] = {}
        for declaration in declarations:
            iri = resolve_iri(self.base, declaration.iri.text)
            if declaration.name == "Base":
                self.base = iri
            else:
                self._prefixes[declaration.prefix or ""] = iri

    def iri(self, node: Any) -> str:
        """Return the IRI of a node of the parse tree: a leaf, a prefixed name, or one that the grammar adds (rdf:type)."""
        if isinstance(node, Leaf):
            return resolve_iri(self.base, node.text)
        if getattr(node, "name", None) == "pname":
            return self._expanded(node.prefix or "", node.localname or "", node.place)
        return str(node)

    def iri_of_text(self, text: str, place: int) -> str:
        """Return the IRI of a name as it was written: `<…>` or prefixed."""
        if text.startswith("<"):
            return resolve_iri(self.base, text[1:-1])
        prefix, _, local = text.partition(":")
        return self._expanded(prefix, local, place)

    def _expanded(self, prefix: str, local: str, place: int) -> str:
        if prefix not in self._prefixes:
            near = get_close_matches(prefix, self._prefixes, 1)
            hint = f"did you mean {near[0]}:?" if near else f"write PREFIX {prefix}: <…> before the query"
            raise self._source.error(f"the prefix {prefix}: is not declared; {hint}", place)
        return self._prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)


class Scope:
    """The variables that names denote: in a subselect, those that it does not project are its own."""

    def __init__(self, parent: Scope | None = None, projected: frozenset[str] = frozenset(), number: int = 0) -> None:
        self._parent = parent
        self._projected = projected
        self._number = number

    def name(self, written: str) -> str:
        """Return the name by which the algebra knows a variable.

        >>> outer = Scope()
        >>> inner = Scope(outer, frozenset({"x"}), 1)
        >>> outer.name("y"), inner.name("x"), inner.name("y")
        ('y', 'x', 'y.1')
        """
        if self._parent is None:
            return written
        return self._parent.name(written) if written in self._projected else f"{written}.{self._number}"


def source_name(name: str) -> str:
    """Return the name of a variable as the text has it.

    >>> source_name("y.1")
    'y'
    """
    return name.partition(".")[0]


_AGGREGATES = {f"Aggregate_{name.capitalize()}": name for name in ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE")}
_CHAINS = {"ConditionalOrExpression": "||", "ConditionalAndExpression": "&&"}
_UNARY = {"UnaryNot": "!", "UnaryMinus": "unary -", "UnaryPlus": "unary +"}
_NEGATED_EXISTS = {"Builtin_EXISTS": False, "Builtin_NOTEXISTS": True}
_SAME_FUNCTIONS = {"URI": "IRI", "ISURI": "ISIRI"}

ReadBody = Callable[[Any, Scope], Operator]


class FormulaReader:
    """Reads expressions and terms; `read_body` reads the group of an EXISTS."""

    def __init__(self, source: SourceText, prologue: Prologue, read_body: ReadBody) -> None:
        self._source = source
        self._prologue = prologue
        self._read_body = read_body
        self._blanks: dict[str, str] = {}
        self.places: dict[str, int] = {}
        """Where each variable stands for the first time, by the name that the algebra has for it."""

    # --- terms -------------------------------------------------------------------------------------------------------

    def variable(self, leaf: Leaf, scope: Scope) -> str:
        """Return the name that the algebra has for a variable."""
        name = scope.name(leaf.text)
        self.places[name] = min(leaf.place, self.places.get(name, leaf.place))
        return name

    def term(self, node: Any, scope: Scope) -> Term:
        """Return a variable, a blank node or a constant."""
        if isinstance(node, Leaf) and node.kind == "variable":
            return Variable(self.variable(node, scope))
        if isinstance(node, Leaf) and node.kind == "blank":
            return Blank(node.text)
        if (isinstance(node, Leaf) and node.kind == "anonymous") or type(node).__name__ == "BNode":
            return self.fresh(str(node))
        return Constant(self.constant(node))

    def fresh(self, key: str | None = None) -> Blank:
        """Return a blank node that no text can name; the same for the same key."""
        number = len(self._blanks) + 1
        return Blank(f".{self._blanks.setdefault(f' {number}' if key is None else key, str(number))}")

    def constant(self, node: Any) -> str:
        """Return the text of a constant term; language tags are in lower case, as readers of RDF give them."""
        if isinstance(node, Leaf) and node.kind == "number":
            return number_literal(node.text)
        if type(node).__name__ == "Literal":  # true and false
            return literal_text(str(node), XSD + "boolean")
        if getattr(node, "name", None) == "literal":
            datatype = XSD + "string" if node.datatype is None else self._prologue.iri(node.datatype)
            return literal_text(node.string.text, datatype, (node.lang or "").lower())
        return self._prologue.iri(node)

    # --- formulas ----------------------------------------------------------------------------------------------------

    def formula(self, node: Any, scope: Scope) -> Formula:
        """Return the formula that an expression is. Raises `SparqlError` for what is refused."""
        name = getattr(node, "name", None)
        if name is None or name in ("pname", "literal"):
            term = self.term(node, scope)
            assert not isinstance(term, Blank)  # not in the grammar of expressions
            return term
        if name in _CHAINS:
            parts = [self.formula(part, scope) for part in (node.expr, *(node.other or ()))]
            return parts[0] if len(parts) == 1 else Call(_CHAINS[name], tuple(parts))
        if name == "RelationalExpression":
            return self._relational(node, scope)
        if name in ("AdditiveExpression", "MultiplicativeExpression"):
            made = self.formula(node.expr, scope)
            for operator, operand in zip(node.op or (), node.other or (), strict=True):
                made = Call(operator, (made, self.formula(operand, scope)))
            return made
        if name in _UNARY:
            return Call(_UNARY[name], (self.formula(node.expr, scope),))
        if name in _NEGATED_EXISTS:
            return Exists(self._read_body(node.graph, scope), _NEGATED_EXISTS[name])
        if name == "Function":
            return self._function(node, scope)
        if name.startswith("Aggregate_"):
            return self._aggregate(node, scope)
        return self._builtin(node, scope)

    def _relational(self, node: Any, scope: Scope) -> Formula:
        left = self.formula(node.expr, scope)
        if node.op is None:
            return left
        if node.op not in ("IN", "NOT IN"):
            return Call(node.op, (left, self.formula(node.other, scope)))
        return Call(node.op, (left, *(self.formula(one, scope) for one in _listed(node.other))))

    def _function(self, node: Any, scope: Scope) -> Formula:
        iri = self._prologue.iri(node.iri)
        if node.distinct:
            raise refusal(self._source, "DISTINCT in the call of a function", node.place)
        if iri.endswith(("#timestamp", "/timestamp", ":timestamp")):
            raise refusal(self._source, "f:timestamp", node.place)
        arguments = tuple(self.formula(one, scope) for one in node.expr or ())
        if iri not in CASTS:
            near = get_close_matches(iri, CASTS, 1, 0.9)
            casts = "the casts xsd:boolean, dateTime, decimal, double, float, integer and string"
            hint = f"<{near[0]}>" if near else f"a function of SPARQL 1.1, or {casts}"
            raise self._source.error(f"there is no function <{iri}>", node.place, hint)
        if len(arguments) != 1:
            raise self._source.error(f"<{iri}> takes one argument, not {len(arguments)}", node.place)
        return Call(iri, arguments)

    def _aggregate(self, node: Any, scope: Scope) -> Formula:
        if node.name not in _AGGREGATES:
            raise refusal(self._source, "GROUP_CONCAT", node.place)
        argument = None if node.vars == "*" else self.formula(node.vars, scope)
        return Aggregate(_AGGREGATES[node.name], argument, bool(node.distinct))  # type: ignore[arg-type]

    def _builtin(self, node: Any, scope: Scope) -> Formula:
        function = node.name.removeprefix("Builtin_").upper()
        if function in REFUSED:
            raise refusal(self._source, function, node.place)
        # Of CONCAT and COALESCE the one parameter is a list.
        operands = [one for parameter in node.values() for one in _listed(parameter)]
        function = _SAME_FUNCTIONS.get(function, function)
        arguments = tuple(self.formula(one, scope) for one in operands)
        if function in ("REGEX", "REPLACE"):
            self._check_pattern(operands, arguments, flags=arguments[2 if function == "REGEX" else 3 :])
        if function == "IRI" and self._prologue.base:
            arguments = (*arguments, Constant(self._prologue.base))
        return Call(function, arguments)

    def _check_pattern(self, operands: list[Any], arguments: tuple[Formula, ...], *, flags: tuple[Formula, ...]) -> None:
        """Refuse a pattern that the text has and that cannot be matched; one that comes with data is an error value."""
        require_engine()
        pattern, *options = [_plain_literal(one) for one in (arguments[1], *flags)]
        if pattern is None or None in options:
            return
        try:
            compile_pattern(pattern, "".join(map(str, options)))
        except UnsupportedPattern as problem:
            raise refusal(self._source, problem.construct, operands[1].place) from None
        except NoValue:  # it is no regular expression at all, which is an error value in SPARQL
            return


def _plain_literal(formula: Formula) -> str | None:
    """Return the text of a constant that is a literal without a language; None for what is not."""
    literal = read_literal(formula.name) if isinstance(formula, Constant) and is_literal(formula.name) else None
    return None if literal is None or literal.language else literal.text


def _listed(node: Any) -> list[Any]:
    """Return the elements of a list of expressions (rdf:nil is the empty list), or a single node as a list."""
    if type(node).__name__ == "URIRef":
        return []
    return list(node) if type(node).__name__ in ("ParseResults", "list") else [node]
