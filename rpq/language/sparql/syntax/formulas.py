"""The translation of names, terms and expressions of the parse tree: prefixes, scopes of variables, and formulas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from rpq.language.pattern import Blank, Constant, Term, Variable
from rpq.language.sparql.algebra import Aggregate, Exists, Formula, FunctionCall, Operator
from rpq.language.sparql.syntax.grammar import Leaf
from rpq.language.sparql.syntax.source_text import REFUSED, SourceText, refusal
from rpq.language.sparql.values.functions import CASTS
from rpq.language.sparql.values.regular_expressions import UnsupportedPattern, compile_pattern, require_engine
from rpq.language.sparql.values.typed_values import NoValue
from rpq.stream.names.terms import XSD, is_literal, literal_text, number_literal, read_literal, resolve_iri

_USUAL_PREFIXES = {
    "": "",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": XSD,
}
"""The prefixes that a text need not declare."""
_LOCAL_ESCAPE = re.compile(r"\\([_~.\-!$&\"'()*+,;=/?#@%])")


class Prologue:
    """The BASE and PREFIX declarations of a query, which expand relative and prefixed names to IRIs."""

    def __init__(self, source: SourceText, declarations: Iterable[Any]) -> None:
        self._source = source
        self.base = ""
        """The base IRI; empty if the query has no BASE, in which case IRIs are used as they appear in the text."""
        self._prefixes: dict[str, str] = {}
        self.warnings: dict[str, None] = {}
        for declaration in declarations:
            iri = resolve_iri(self.base, declaration.iri.text)
            if declaration.name == "Base":
                self.base = iri
            else:
                self._prefixes[declaration.prefix or ""] = iri

    def iri(self, node: Any) -> str:
        """Return the IRI of a node of the parse tree: a leaf, a prefixed name, or an IRI from the grammar (rdf:type)."""
        if isinstance(node, Leaf):
            return resolve_iri(self.base, node.text)
        if getattr(node, "name", None) == "pname":
            return self._expand(node.prefix or "", node.localname or "", node.place)
        return str(node)

    def iri_of_text(self, text: str, place: int) -> str:
        """Return the IRI of a name as it appears in the text: `<…>` or prefixed."""
        if text.startswith("<"):
            return resolve_iri(self.base, text[1:-1])
        prefix, _, local = text.partition(":")
        return self._expand(prefix, local, place)

    def _expand(self, prefix: str, local: str, place: int) -> str:
        if prefix not in self._prefixes and prefix in _USUAL_PREFIXES:
            iri = _USUAL_PREFIXES[prefix]
            self.warnings[f"the prefix {prefix}: is not declared: it is read as PREFIX {prefix}: <{iri}>"] = None
            return iri + _LOCAL_ESCAPE.sub(r"\1", local)
        if prefix not in self._prefixes:
            near = get_close_matches(prefix, self._prefixes, 1)
            hint = f"did you mean {near[0]}:?" if near else f"write PREFIX {prefix}: <…> before the query"
            raise self._source.error(f"the prefix {prefix}: is not declared; {hint}", place)
        return self._prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)


class VariableScope:
    """A scope of variable names: variables that a subselect does not project are local to it."""

    def __init__(
        self, parent: VariableScope | None = None, projected: frozenset[str] = frozenset(), number: int = 0
    ) -> None:
        self._parent = parent
        self._projected = projected
        self._number = number

    def name(self, written: str) -> str:
        """Return the name of a variable in the algebra, for its name in the text.

        >>> outer = VariableScope()
        >>> inner = VariableScope(outer, frozenset({"x"}), 1)
        >>> outer.name("y"), inner.name("x"), inner.name("y")
        ('y', 'x', 'y.1')
        """
        if self._parent is None:
            return written
        return self._parent.name(written) if written in self._projected else f"{written}.{self._number}"


def source_name(name: str) -> str:
    """Return the name of a variable in the text, for its name in the algebra.

    >>> source_name("y.1")
    'y'
    """
    return name.partition(".")[0]


_AGGREGATES = {f"Aggregate_{name.capitalize()}": name for name in ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE")}
_AGGREGATES["Aggregate_GroupConcat"] = "GROUP_CONCAT"
_CHAINS = {"ConditionalOrExpression": "||", "ConditionalAndExpression": "&&"}
_UNARY = {"UnaryNot": "!", "UnaryMinus": "unary -", "UnaryPlus": "unary +"}
_NEGATED_EXISTS = {"Builtin_EXISTS": False, "Builtin_NOTEXISTS": True}
_SAME_FUNCTIONS = {"URI": "IRI", "ISURI": "ISIRI"}

ReadBody = Callable[[Any, VariableScope], Operator]


class FormulaReader:
    """Translates expressions and terms; `read_body` translates the group of an EXISTS."""

    def __init__(self, source: SourceText, prologue: Prologue, read_body: ReadBody) -> None:
        self._source = source
        self._prologue = prologue
        self._read_body = read_body
        self._blanks: dict[str, str] = {}
        self.places: dict[str, int] = {}
        """The first place of each variable in the text, by its name in the algebra."""

    # --- terms -------------------------------------------------------------------------------------------------------

    def variable(self, leaf: Leaf, scope: VariableScope) -> str:
        """Return the name of a variable in the algebra, and record its place."""
        name = scope.name(leaf.text)
        self.places[name] = min(leaf.place, self.places.get(name, leaf.place))
        return name

    def term(self, node: Any, scope: VariableScope) -> Term:
        """Return a variable, a blank node or a constant."""
        if isinstance(node, Leaf) and node.kind == "variable":
            return Variable(self.variable(node, scope))
        if isinstance(node, Leaf) and node.kind == "blank":
            return Blank(node.text)
        if (isinstance(node, Leaf) and node.kind == "anonymous") or type(node).__name__ == "BNode":
            return self.new_blank(str(node))
        return Constant(self.constant(node))

    def new_blank(self, key: str | None = None) -> Blank:
        """Return a blank node that no query text can name. Equal keys give the same blank node."""
        number = len(self._blanks) + 1
        return Blank(f".{self._blanks.setdefault(f' {number}' if key is None else key, str(number))}")

    def constant(self, node: Any) -> str:
        """Return the text of a constant term. Language tags are lowercased, as the readers of RDF do."""
        if isinstance(node, Leaf) and node.kind == "number":
            return number_literal(node.text)
        if type(node).__name__ == "Literal":  # true and false
            return literal_text(str(node), XSD + "boolean")
        if getattr(node, "name", None) == "literal":
            datatype = XSD + "string" if node.datatype is None else self._prologue.iri(node.datatype)
            return literal_text(node.string.text, datatype, (node.lang or "").lower())
        return self._prologue.iri(node)

    # --- formulas ----------------------------------------------------------------------------------------------------

    def formula(self, node: Any, scope: VariableScope) -> Formula:
        """Translate an expression to a formula. Raises `SparqlError` for refused constructs."""
        name = getattr(node, "name", None)
        if name is None or name in ("pname", "literal"):
            term = self.term(node, scope)
            assert not isinstance(term, Blank)  # not in the grammar of expressions
            return term
        if name in _CHAINS:
            parts = [self.formula(part, scope) for part in (node.expr, *(node.other or ()))]
            return parts[0] if len(parts) == 1 else FunctionCall(_CHAINS[name], tuple(parts))
        if name == "RelationalExpression":
            return self._relational(node, scope)
        if name in ("AdditiveExpression", "MultiplicativeExpression"):
            formula = self.formula(node.expr, scope)
            for operator, operand in zip(node.op or (), node.other or (), strict=True):
                formula = FunctionCall(operator, (formula, self.formula(operand, scope)))
            return formula
        if name in _UNARY:
            return FunctionCall(_UNARY[name], (self.formula(node.expr, scope),))
        if name in _NEGATED_EXISTS:
            return Exists(self._read_body(node.graph, scope), _NEGATED_EXISTS[name])
        if name == "Function":
            return self._function(node, scope)
        if name.startswith("Aggregate_"):
            return self._aggregate(node, scope)
        return self._builtin(node, scope)

    def _relational(self, node: Any, scope: VariableScope) -> Formula:
        left = self.formula(node.expr, scope)
        if node.op is None:
            return left
        if node.op not in ("IN", "NOT IN"):
            return FunctionCall(node.op, (left, self.formula(node.other, scope)))
        return FunctionCall(node.op, (left, *(self.formula(one, scope) for one in _list_elements(node.other))))

    def _function(self, node: Any, scope: VariableScope) -> Formula:
        iri = self._prologue.iri(node.iri)
        if node.distinct:
            raise refusal(self._source, "DISTINCT in the call of a function", node.place)
        if iri.endswith(("#timestamp", "/timestamp", ":timestamp")):
            raise refusal(self._source, "f:timestamp", node.place)
        arguments = tuple(self.formula(one, scope) for one in node.expr or ())
        if iri not in CASTS:
            near = get_close_matches(iri, CASTS, 1, 0.9)
            casts = "the casts xsd:boolean, date, dateTime, decimal, double, float, integer, string and time"
            hint = f"<{near[0]}>" if near else f"a function of SPARQL 1.1, or {casts}"
            raise self._source.error(f"there is no function <{iri}>", node.place, hint)
        if len(arguments) != 1:
            raise self._source.error(f"<{iri}> takes one argument, not {len(arguments)}", node.place)
        return FunctionCall(iri, arguments)

    def _aggregate(self, node: Any, scope: VariableScope) -> Formula:
        argument = None if node.vars == "*" else self.formula(node.vars, scope)
        separator = {} if node.separator is None else {"separator": node.separator.text}
        return Aggregate(_AGGREGATES[node.name], argument, bool(node.distinct), **separator)  # type: ignore[arg-type]

    def _builtin(self, node: Any, scope: VariableScope) -> Formula:
        function = node.name.removeprefix("Builtin_").upper()
        if function in REFUSED and function != "NOW":  # which only some reports have
            raise refusal(self._source, function, node.place)
        # The single parameter of CONCAT and COALESCE is a list.
        operands = [one for parameter in node.values() for one in _list_elements(parameter)]
        function = _SAME_FUNCTIONS.get(function, function)
        arguments = tuple(self.formula(one, scope) for one in operands)
        if function in ("REGEX", "REPLACE"):
            self._check_pattern(operands, arguments, flags=arguments[2 if function == "REGEX" else 3 :])
        if function == "IRI" and self._prologue.base:
            arguments = (*arguments, Constant(self._prologue.base))
        return FunctionCall(function, arguments)

    def _check_pattern(self, operands: list[Any], arguments: tuple[Formula, ...], *, flags: tuple[Formula, ...]) -> None:
        """Refuse a constant pattern that cannot be matched. A pattern from the data evaluates to an error instead."""
        require_engine()
        pattern, *options = [_plain_literal(one) for one in (arguments[1], *flags)]
        if pattern is None or None in options:
            return
        try:
            compile_pattern(pattern, "".join(map(str, options)))
        except UnsupportedPattern as problem:
            raise refusal(self._source, problem.construct, operands[1].place) from None
        except NoValue:  # the pattern is not a valid regular expression, which is an error value in SPARQL
            return


def _plain_literal(formula: Formula) -> str | None:
    """Return the text of a constant that is a literal without a language tag, and None for any other formula."""
    literal = read_literal(formula.name) if isinstance(formula, Constant) and is_literal(formula.name) else None
    return None if literal is None or literal.language else literal.text


def _list_elements(node: Any) -> list[Any]:
    """Return the elements of a list of expressions (rdf:nil is the empty list), or a single node as a list."""
    if type(node).__name__ == "URIRef":
        return []
    return list(node) if type(node).__name__ in ("ParseResults", "list") else [node]
