"""From the syntax tree of a MATCH text to the algebra of `rpq.language.sparql.algebra`.

Each clause becomes a block: pattern atoms, with the conditions on their bindings. An edge that is bound is a vertex between
two atoms, as in patterns with edge variables (`rpq.language.edge_variables`). A quantified path is one path atom. Blocks of
MATCH are joined, OPTIONAL MATCH is a `LeftJoin`, EXISTS a `SemiJoin`, and RETURN groups, selects and makes distinct.

Parallel edges are rows of their own, so every edge without a quantifier is bound, unless the number of equal rows has no
effect: under RETURN DISTINCT without aggregates, in EXISTS and behind ANY, an edge is bound only if something reads it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations
from typing import Any, Literal, NoReturn

from rpq.automata.expressions import Label
from rpq.language import edge_variables
from rpq.language.edge_variables import SameTerm, Value
from rpq.language.match.any_paths import add_any_path, check_alone, declare_inner
from rpq.language.match.block import BoundEdge, MatchBlock, place_constants, variable_name
from rpq.language.match.condition_trees import (
    condition_nodes,
    conjuncts,
    disjuncts,
    names_read,
    names_read_later,
    variables_of_paths,
    variables_of_pattern,
)
from rpq.language.match.node_facts import (
    FACTS,
    atom_of_test,
    holds_without_record,
    joined_test,
    label_condition,
    labels_by_edges,
    own_test,
    reads_facts,
    universe,
)
from rpq.language.match.path_expressions import PathExpressions, has_trails, step_text
from rpq.language.match.result import ReturnColumn, result_of
from rpq.language.match.scope import NameBinding, Scope, ValueReader
from rpq.language.match.syntax import (
    LABELS_OF,
    AggregateCall,
    Dialect,
    EdgePattern,
    GraphPattern,
    LabelTree,
    MatchExists,
    MatchText,
    NodePattern,
    PathPattern,
    QuantifiedGroup,
    match_error,
)
from rpq.language.pattern import MAX_ATOMS, Atom, Blank, Constant, Term, Variable, edge_column
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import (
    Conjunction,
    Distinct,
    EdgeCondition,
    Formula,
    LeftJoin,
    Operator,
    Project,
    SparqlQuestion,
    WindowAtom,
    make_union,
)
from rpq.language.where import Comparison, IsNull, Logical, Name, Node, Not, Where, WhereConstant
from rpq.stream.names.stream_labels import EDGE_ENDS, EdgeEnd

_NAME = re.compile(r"\w+")
_NUMBER = re.compile(r"\s*[+-]?(\d|\.\d|inf|nan)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The algebra of a MATCH text, and the properties that it reads of edges."""

    question: SparqlQuestion
    columns: tuple[ReturnColumn, ...]
    filters: tuple[edge_variables.BindingFilter, ...]
    properties: frozenset[str]
    """The properties of edges that columns and filters read."""
    has_edge_variables: bool
    differs: bool
    """True if some clause requires different edges."""


def translate(
    tree: MatchText,
    *,
    dialect: Dialect,
    node_label: str | None,
    paths: str,
    is_triple: bool = False,
    has_nodes: bool = False,
) -> Translation:
    """Return the algebra of a text. Raises `MatchError` with the place of a part that is not supported. O(size²).

    With `is_triple` there are no parallel edges with one label, so an edge that nothing reads need not be bound. Unless it
    `has_nodes`, there are no records, and edges alone give labels of nodes; a text that reads properties of nodes has some.

    >>> from rpq.language.match.syntax import parse
    >>> from rpq.language.sparql.algebra_text import algebra_text
    >>> text = "MATCH ANY (a)-[:transfer]->+(b) RETURN a, b"
    >>> print(algebra_text(translate(parse(text), dialect="gql", node_label="type", paths="walk").question.body))
    project ?a ?b  binds a, b
      conjunction  binds a, b
        ?a transfer+ ?b
    """
    has_nodes = has_nodes or node_label is None or reads_facts(tree)
    return _Translator(tree, dialect, node_label, paths, is_triple=is_triple, has_nodes=has_nodes).translation()


class _Translator:
    """The translation of one text."""

    def __init__(
        self,
        tree: MatchText,
        dialect: Dialect,
        node_label: str | None,
        paths: str,
        *,
        is_triple: bool,
        has_nodes: bool,
    ) -> None:
        self._tree = tree
        self._text = tree.text
        self._dialect = dialect
        self._node_label = node_label
        self._expressions = PathExpressions(tree.text, dialect, node_label)
        self._values = ValueReader(tree.text)
        self._ends = EDGE_ENDS[2:] if paths == "simple" else EDGE_ENDS[:2]
        self._is_triple = is_triple
        self._has_nodes = has_nodes
        self._used: set[str] = set()
        self._numbers = 0
        self._atoms = 0
        self._filters: list[edge_variables.BindingFilter] = []
        self._properties: set[str] = set()
        self._has_edges = False
        self._differs = False
        self._read_names = frozenset(names_read(tree))
        self._later_names = [*dict.fromkeys(names_read_later(tree))]

    def _fail(self, at: int, message: str) -> NoReturn:
        raise match_error(self._text, at, message)

    def translation(self) -> Translation:
        tree = self._tree
        aggregates = any(isinstance(item.value, AggregateCall) for item in tree.items)
        scope = Scope()
        block = MatchBlock(scope, is_set=tree.is_distinct and not aggregates)
        optional: list[tuple[GraphPattern, tuple[str, ...]]] = []
        perhaps_null: set[str] = set()
        for clause in tree.clauses:
            if clause.is_optional:
                optional.append((clause.pattern, tuple(scope.own)))
                perhaps_null.update(name for name, _ in variables_of_paths(clause.pattern.paths) if name not in scope.own)
            else:
                self._refuse_nullable(clause.pattern, perhaps_null)
                self._add_pattern(block, clause.pattern)
        if len(optional) == len(tree.clauses):
            self._fail(tree.clauses[0].at, "OPTIONAL MATCH is refused as the first clause: write a MATCH before it")
        self._close(block)
        found = self._with_labels(block)
        of_optional: dict[str, NameBinding] = {}
        for pattern, before in optional:
            found = self._optional(
                found, pattern, {name: scope.own[name] for name in before}, of_optional, is_set=block.is_set
            )
        scope.own |= of_optional
        if self._atoms > MAX_ATOMS:
            self._fail(0, f"too many edges, labels and tests of nodes: at most {MAX_ATOMS}")
        has_labels_by_edges = self._node_label is not None
        result = result_of(
            tree, found, scope, dialect=self._dialect, values=self._values, has_labels_by_edges=has_labels_by_edges
        )
        has_facts = any(one.window is not None for one in algebra.atoms_of(result.body))
        question = SparqlQuestion(
            text=self._text,
            form="select",
            body=result.body,
            columns=result.variables,
            windows=(FACTS,) if has_facts else (),
        )
        return Translation(
            question=question,
            columns=result.columns,
            filters=tuple(self._filters),
            properties=frozenset(self._properties) | result.properties,
            has_edge_variables=self._has_edges,
            differs=self._differs,
        )

    def _refuse_nullable(self, pattern: GraphPattern, perhaps_null: Collection[str]) -> None:
        """Refuse a later MATCH with a variable of an OPTIONAL MATCH: its rows would depend on the order of the two."""
        for name, at in variables_of_pattern(pattern.paths, pattern.where):
            if name in perhaps_null:
                self._fail(
                    at,
                    f"{name} is bound by an earlier OPTIONAL MATCH, and nothing matches where it is null: write MATCH in "
                    "place of OPTIONAL MATCH, or the condition in the WHERE of the OPTIONAL MATCH",
                )

    # --- names -----------------------------------------------------------------------------------------------------

    def _internal(self, name: str) -> str:
        """Return a name for a variable, which no other variable of the query has."""
        internal = name
        while internal in self._used:
            self._numbers += 1
            internal = f"{name}.{self._numbers}"
        self._used.add(internal)
        return internal

    def _new_name(self) -> str:
        self._numbers += 1
        return self._internal(str(self._numbers))

    def _check_name(self, name: str, at: int) -> None:
        if _NAME.fullmatch(name) is None:
            self._fail(at, f"the variable `{name}` is refused: names of variables are letters, digits and _")

    # --- nodes -----------------------------------------------------------------------------------------------------

    def add_node(self, block: MatchBlock, node: NodePattern, *, is_lone: bool = False) -> Term:
        """Add the labels and conditions of a node to a block, and return its term. A lone node has no edge in its path."""
        term: Term = Variable(self._new_name()) if is_lone else Blank(self._new_name())
        name = node.variable
        trees: list[Node] = []
        if name is not None:
            self._check_name(name, node.at)
            binding = block.scope.get(name)
            if binding is None:
                internal = self._internal(name)
                binding = block.scope.own[name] = NameBinding("vertex", internal)
            if binding.kind != "vertex":
                what = "an edge" if binding.kind == "edge" else "inside a path of which only the ends are returned"
                self._fail(node.at, f"{name} is {what}, and a node too: rename one of them")
            if binding.constant is not None and binding.internal not in block.constants:
                block.constants[binding.internal] = binding.constant
                block.outer_names.add(binding.internal)
            term = Variable(binding.internal)
        for entry in node.properties:
            if entry.name != "id":
                trees.append(Comparison("==", Name(entry.name, column=entry.at + 1), entry.value, column=entry.at + 1))
                continue
            value = entry.value.value
            if isinstance(value, bool) or (isinstance(value, Decimal) and value != value.to_integral_value()):
                self._fail(entry.at, f"id is the name of a vertex, a text or an integer, not {value}")
            constant = Constant(str(value))
            if constant.name.startswith('"'):
                self._fail(entry.at, 'a vertex whose name begins with " is refused here: write a.id = … in WHERE')
            if isinstance(term, Blank):
                term = constant
                continue
            assert isinstance(term, Variable)
            if block.constants.setdefault(term.name, constant) != constant:
                self._fail(entry.at, f"{name} has two ids, {block.constants[term.name].name!r} and {constant.name!r}")
            binding = block.scope.own.get(name or "")
            if binding is not None:
                block.scope.own[name or ""] = replace(binding, constant=constant)
        if trees:
            self._add_test(block, term, trees)
        if node.label is not None:
            self._add_labels(block, term, node.label, node.at, is_lone=is_lone)
        if isinstance(term, Variable) and is_lone and (name is None or name in block.scope.own):
            block.lone_nodes.append(term.name)
        block.deferred_conditions += conjuncts(node.where)
        return term

    def _add_test(self, block: MatchBlock, term: Term, trees: Sequence[Node]) -> None:
        """Add conditions on the facts of a node."""
        self._expressions.test_text(trees)
        self._atoms += 1
        block.node_tests.setdefault(term, []).extend(trees)

    def _add_labels(self, block: MatchBlock, term: Term, label: LabelTree, at: int, *, is_lone: bool) -> None:
        """Add the condition that a node has labels, by its record or by edges with the node label, without multiplying rows.

        An alternative of labels tests a node that edges bind. If the node is alone, the alternative binds it.
        """
        if self._node_label is None:
            tree = label_condition(label, at + 1)
            if tree is None:
                self._fail(at, "% in the labels of a node is refused: write the labels, as in :A|B")
            self._add_test(block, term, [tree])
            return
        if label.operator == "&":
            for part in label.parts:
                self._add_labels(block, term, part, at, is_lone=is_lone)
            return
        is_negated = False
        while label.operator == "!":
            is_negated, label = not is_negated, label.parts[0]
        names = [part.name for part in label.parts] if label.operator == "|" else [label.name]
        if label.operator not in ("name", "|") or any(part.operator != "name" for part in label.parts):
            self._fail(
                at,
                "& below | in the labels of a node is refused: write WHERE a:A OR a:B&C"
                if label.operator == "|" and all(part.operator in ("name", "&") for part in label.parts)
                else "% in the labels of a node, and ! around & or below |, are refused: write :A, :A|B, :A&B, :!A or "
                ":!(A|B), or pass node_label=None, where records alone have labels",
            )
        edges = [Atom(term, Label(self._node_label), Constant(name)) for name in names]
        if len(edges) == 1 and not is_negated and not self._has_nodes:
            self.add_atom(block, edges[0], at)
            return
        atoms = [*map(WindowAtom, edges)]
        if self._has_nodes:
            tree = label_condition(label, at + 1)
            assert tree is not None, "there are names alone"
            atoms.append(atom_of_test(term, joined_test([tree]).text))
        self._atoms += len(atoms)
        if is_lone and not is_negated and not isinstance(term, Constant):
            found = make_union(*(Conjunction((one,)) for one in atoms))
            block.parts.append(Distinct(Project(found, (variable_name(term),))))
            return
        placed = (replace(one, atom=place_constants(one.atom, block.constants)) for one in atoms)
        block.tests.append((make_union(*(Conjunction((one,)) for one in placed)), is_negated))

    def add_atom(self, block: MatchBlock, atom: Atom, at: int) -> None:
        self._atoms += 1
        if self._atoms > MAX_ATOMS:
            self._fail(at, f"too many edges and labels: at most {MAX_ATOMS}")
        block.atoms.append(atom)

    def _close(self, block: MatchBlock) -> None:
        """Bind the nodes that stand in no edge, and the properties of nodes that later parts of the text read."""
        for internal in dict.fromkeys(block.lone_nodes):
            trees = block.node_tests.get(Variable(internal))
            is_bound = trees is not None and not holds_without_record(joined_test(trees))
            if not is_bound and not block.binds(internal):
                self._atoms += 2
                block.parts.append(universe(internal, node_label=self._node_label, has_nodes=self._has_nodes))
        for name in self._later_names:
            variable, _, attribute = name.partition(".")
            binding = block.scope.own.get(variable)
            if binding is not None and binding.kind == "vertex" and attribute not in ("", "id"):
                attribute = "labels" if attribute == LABELS_OF else attribute
                block.scope.node_values[binding.internal, attribute] = None
        self._atoms += len(block.scope.node_values)

    def _with_labels(self, block: MatchBlock) -> Operator:
        """Return the operator of a block, with the labels that edges give to nodes whose labels are values."""
        found = block.operator()
        if self._node_label is not None:
            for name in dict.fromkeys(name for name, property in block.scope.node_values if property == "labels"):
                found = LeftJoin(found, labels_by_edges(name, self._node_label), None)
        return found

    # --- patterns --------------------------------------------------------------------------------------------------

    def _add_pattern(self, block: MatchBlock, pattern: GraphPattern) -> None:
        """Add the paths and the conditions of a clause to a block."""
        for part in self._add_paths(block, pattern):
            self.add_condition(block, part)

    def _add_paths(self, block: MatchBlock, pattern: GraphPattern) -> list[Node]:
        """Add the paths of a clause to a block; return its conditions."""
        differs = self._dialect == "cypher" if pattern.different_edges is None else pattern.different_edges
        self._differs |= differs
        edges: list[BoundEdge] = []
        overlapping = self._overlapping(pattern.paths) if differs else frozenset()
        for place, path in enumerate(pattern.paths):
            if path.is_any:
                check_alone(path, pattern.paths[place + 1 :], block.scope, self._text)
            edges += self._add_path(block, path, overlapping)
        if differs:
            self._separate(block, edges)
        conditions = [*block.deferred_conditions, *conjuncts(pattern.where)]
        block.deferred_conditions = []
        return conditions

    def _overlapping(self, paths: Sequence[PathPattern]) -> frozenset[int]:
        """Return the places of edges that may be one edge with another of these paths."""
        steps = [one for path in paths for one in path.elements if isinstance(one, EdgePattern) and one.quantifier is None]
        labels = [self._expressions.labels(step) for step in steps]
        pairs = combinations(range(len(steps)), 2)
        return frozenset(
            steps[place].at for one, other in pairs if labels[one].overlaps(labels[other]) for place in (one, other)
        )

    def _separate(self, block: MatchBlock, edges: Sequence[BoundEdge]) -> None:
        """Add the conditions that edges of a clause are different."""
        for one, other in combinations(edges, 2):
            if not one.labels.overlaps(other.labels):
                continue
            if one.variable is None or other.variable is None:
                path = one if one.variable is None else other
                self._fail(
                    path.at,
                    "different edges are refused where a quantified path may share a label with another edge of its clause: "
                    + self._without_difference(),
                )
            self._add_inequality(block, one.variable, other.variable, "number")
        for edge in edges:
            if edge.variable is None and not edge.is_trail:
                self._fail(
                    edge.at,
                    "different edges are refused on this path, whose pairs may need an edge twice: one directed edge with "
                    f"{{1,m}} or + has the same pairs either way; {self._without_difference()}",
                )

    def _without_difference(self) -> str:
        return "write the paths in clauses of their own, or REPEATABLE ELEMENTS behind MATCH"

    def _add_inequality(self, block: MatchBlock, one: str, other: str, kind: Literal["vertex", "number"]) -> None:
        same = SameTerm(Value(kind, one), Value(kind, other))
        tree = Not(Name(same.column, column=1), column=1)
        text = f"{one} <> {other}"
        self._add_filter(block, edge_variables.BindingFilter(text, Where(text, tree, frozenset({same.column})), (), (same,)))

    def _add_filter(self, block: MatchBlock, filter: edge_variables.BindingFilter) -> None:
        self._filters.append(filter)
        self._properties |= {value.name for value in filter.values if value.kind == "property"}
        self._read_values(block, filter)
        block.conditions.append(EdgeCondition(filter))

    def _read_values(self, block: MatchBlock, filter: edge_variables.BindingFilter) -> None:
        """Read the properties of nodes of a filter in a block if it binds the nodes, or else where they are bound."""
        for value in filter.values:
            if value.kind == "fact":
                scope = block.scope
                if block.binds(value.variable):
                    scope.node_values[value.variable, value.name] = None
                else:
                    scope.read_value(value.variable, value.name)

    def _add_path(self, block: MatchBlock, path: PathPattern, overlapping: frozenset[int]) -> list[BoundEdge]:
        """Add a path to a block and return its edges."""
        nodes, connectors = self._expressions.alternating(path)
        if not connectors:
            (node,) = nodes
            self.add_node(block, node, is_lone=True)
            return []
        quantified = [one for one in connectors if one.quantifier is not None]
        self._check_mode(path, connectors, quantified)
        if path.is_any:
            return [add_any_path(self, block, path, expressions=self._expressions, values=self._values)]
        if quantified and not block.is_set:
            quantifier = quantified[0].quantifier
            assert quantifier is not None
            self._fail(
                quantifier.at,
                "a quantified path means pairs of vertices here: write ANY before it, RETURN DISTINCT without aggregates, "
                "or EXISTS { … } around it",
            )
        return self.add_steps(block, path, nodes, connectors, overlapping)

    def add_steps(
        self,
        block: MatchBlock,
        path: PathPattern,
        nodes: Sequence[NodePattern],
        connectors: Sequence[EdgePattern | QuantifiedGroup],
        overlapping: frozenset[int] = frozenset(),
    ) -> list[BoundEdge]:
        """Add each edge and each quantified path of a path on its own, and return them."""
        terms = [self.add_node(block, nodes[0])]
        mine: list[BoundEdge] = []
        is_trail = path.mode == "TRAIL" and len(connectors) > 1
        if is_trail:
            overlapping |= self._overlapping([path])
        for connector, node in zip(connectors, nodes[1:], strict=True):
            self._declare_edge(block, connector)
            terms.append(self.add_node(block, node))
            mine.append(self._add_step(block, terms[-2], connector, terms[-1], must_bind=connector.at in overlapping))
        if is_trail:
            self._separate(block, mine)
        if path.mode in ("ACYCLIC", "SIMPLE") and not any(one.quantifier for one in connectors):
            self._separate_nodes(block, terms, path)
        return mine

    def _separate_nodes(self, block: MatchBlock, terms: Sequence[Term], path: PathPattern) -> None:
        places = range(len(terms))
        for one, other in combinations(places, 2):
            if path.mode == "SIMPLE" and (one, other) == (0, len(terms) - 1):
                continue
            names = [self._name_of_term(block, terms[place], path) for place in (one, other)]
            self._add_inequality(block, names[0], names[1], "vertex")

    def _name_of_term(self, block: MatchBlock, term: Term, path: PathPattern) -> str:
        if isinstance(term, Constant):
            self._fail(path.at, f"{path.mode} with a node without a name that has an id is refused: name the node")
        return variable_name(term)

    def _check_mode(self, path: PathPattern, connectors: Sequence[Any], quantified: Sequence[Any]) -> None:
        """Refuse path modes that are not evaluated."""
        if path.mode in (None, "WALK") or not quantified:
            return
        if path.mode == "TRAIL":
            if not all(map(has_trails, connectors)) or self._expressions.has_common_labels(connectors):
                self._fail(
                    path.at,
                    "TRAIL is refused on this path: it is evaluated where it has the same pairs as WALK, on directed edges "
                    "with + or {1,m} that have no label in common; leave TRAIL out",
                )
            return
        kind = "simple" if path.mode == "ACYCLIC" else "simple_cycle"
        self._fail(
            path.at,
            f'{path.mode} is refused on a quantified path in MATCH: write a path query or a pattern with paths="{kind}", or '
            "leave it out",
        )

    # --- edges -----------------------------------------------------------------------------------------------------

    def _declare_edge(self, block: MatchBlock, connector: EdgePattern | QuantifiedGroup) -> None:
        """Declare the variable of an edge, or those inside a group."""
        if isinstance(connector, QuantifiedGroup):
            declare_inner(block.scope, connector, self._text)
            return
        name, at = connector.variable, connector.at
        if name is not None:
            self._check_name(name, at)
            binding = block.scope.get(name)
            if binding is not None:
                what = {"vertex": "a node", "edge": "an edge", "inner": "inside a path"}[binding.kind]
                advice = "name them apart, and compare them in WHERE" if binding.kind == "edge" else "rename one of them"
                self._fail(at, f"{name} is an edge here, and {what} already: {advice}")
            kind: Literal["edge", "inner"] = "edge" if connector.quantifier is None else "inner"
            block.scope.own[name] = NameBinding(kind, self._internal(name))

    def _add_step(
        self,
        block: MatchBlock,
        source: Term,
        connector: EdgePattern | QuantifiedGroup,
        target: Term,
        *,
        must_bind: bool,
    ) -> BoundEdge:
        """Add an edge or a quantified path between two terms."""
        if isinstance(connector, QuantifiedGroup) or connector.quantifier is not None:
            text, labels = self._expressions.step(connector)
            self.add_atom(block, Atom(source, self._expressions.expression(text, connector.at), target), connector.at)
            return BoundEdge(labels, None, connector.at, is_trail=has_trails(connector))
        labels = self._expressions.labels(connector)
        condition, others = self._expressions.own_conditions(connector)
        expression = self._expressions.expression(step_text(labels, connector.direction, condition), connector.at)
        name = connector.variable
        is_read = name is not None and (name in self._read_names or bool(others))
        is_alone = self._is_triple and connector.direction != "either" and not labels.is_negated and len(labels.names) == 1
        if (block.is_set or is_alone) and not is_read and not must_bind:
            if name is not None:
                block.scope.own[name] = replace(block.scope.own[name], kind="inner")
            self.add_atom(block, Atom(source, expression, target), connector.at)
            return BoundEdge(labels, None, connector.at, is_trail=True)
        self._has_edges = True
        internal = self._new_name() if name is None else block.scope.own[name].internal
        edge, text = Variable(edge_column(internal)), str(expression)
        self.add_atom(block, Atom(source, Label(EdgeEnd(text, self._ends[0])), edge), connector.at)
        self._atoms -= 1
        self.add_atom(block, Atom(edge, Label(EdgeEnd(text, self._ends[1])), target), connector.at)
        block.deferred_conditions += others
        return BoundEdge(labels, internal, connector.at)

    # --- conditions ------------------------------------------------------------------------------------------------

    def add_condition(self, block: MatchBlock, condition: Node) -> None:
        """Add the conjuncts of a condition to a block."""
        for part in conjuncts(condition):
            if (test := self._test_of(block.scope, part)) is not None:
                if block.binds(test[0].name) or block.scope.has(test[0].name):
                    self._add_test(block, test[0], [test[1]])
                else:
                    block.tests.append((self._test_body(block, *test), False))
                continue
            negated, inner = False, part
            while isinstance(inner, Not) and not isinstance(inner.inner, IsNull):
                negated, inner = not negated, inner.inner
            choices = disjuncts(inner)
            tests = [None if isinstance(one, MatchExists) else self._test_of(block.scope, one) for one in choices]
            if all(isinstance(one, MatchExists) or test is not None for one, test in zip(choices, tests, strict=True)):
                if negated and any(tests):  # a test that is null does not hold, negated or not
                    for one in choices:
                        self.add_condition(block, Not(one, column=one.column))
                    continue
                bodies = [
                    self._exists(block.scope, one) if test is None else self._test_body(block, *test)
                    for one, test in zip(choices, tests, strict=True)
                ]
                block.tests.append((make_union(*bodies), negated))
                continue
            if self._fix_id(block, part):
                continue
            self._add_filter(block, self._values.filter(block.scope, part))

    def _test_of(self, scope: Scope, condition: Node) -> tuple[Variable, Node] | None:
        """Return a condition that reads the facts of one node alone, as a test of its term; None for any other condition."""
        names = {node.name for node in condition_nodes(condition) if isinstance(node, Name)}
        labelled = {node.node for node in condition_nodes(condition) if isinstance(node, MatchExists)}
        variables = {name.partition(".")[0] for name in names | {node.name for node in labelled if node is not None}}
        has_facts = any(name.partition(".")[2] not in ("", "id") for name in names) or bool(labelled)
        if len(variables) != 1 or not has_facts:
            return None
        (variable,) = variables
        binding = scope.get(variable)
        if binding is None or binding.kind != "vertex":
            return None
        tree = own_test(condition, variable, has_labels=self._node_label is None)
        return None if tree is None else (Variable(binding.internal), tree)

    def _test_body(self, block: MatchBlock, term: Term, tree: Node) -> Operator:
        """Return the test of a node as the body of an EXISTS."""
        self._atoms += 1
        one = atom_of_test(term, self._expressions.test_text([tree]))
        return Conjunction((replace(one, atom=place_constants(one.atom, block.constants)),))

    def _fix_id(self, block: MatchBlock, part: Node) -> bool:
        """Replace a vertex of the block by a constant if a conjunct fixes its name. Return whether it does."""
        if not (isinstance(part, Comparison) and part.sign == "==" and isinstance(part.left, Name)):
            return False
        name, dot, attribute = part.left.name.partition(".")
        value = part.right.value if isinstance(part.right, WhereConstant) else None
        binding = block.scope.own.get(name)
        if not dot or attribute != "id" or binding is None or binding.kind != "vertex" or not isinstance(value, str):
            return False
        if _NUMBER.match(value) or value.startswith('"') or block.constants.get(binding.internal) is not None:
            return False
        if not any(Variable(binding.internal) in (atom.subject, atom.object) for atom in block.atoms) or block.parts:
            return False
        constant = block.constants[binding.internal] = Constant(value)
        block.scope.own[name] = replace(binding, constant=constant)
        return True

    def _exists(self, outer: Scope, exists: MatchExists) -> Operator:
        """Return the body of an EXISTS."""
        if exists.node is not None and self._values.value(outer, exists.node).kind != "vertex":
            at, name = exists.node.column - 1, exists.node.name
            self._fail(at, f"{name} is an edge, whose labels stand in its brackets, as in -[{name}:KNOWS|HATES]->")
        block = MatchBlock(Scope(outer), is_set=True)
        self._add_pattern(block, exists.pattern)
        self._close(block)
        for node in (part for value in exists.returned_values for part in condition_nodes(value)):
            if isinstance(node, AggregateCall):
                advice = "it has a row even without a match; leave RETURN out"
                self._fail(node.column - 1, f"the aggregate {node.function} in EXISTS is refused: {advice}")
            if isinstance(node, Name) and block.scope.get(node.name.partition(".")[0]) is None:
                self._values.value(block.scope, node)
        return block.operator()

    # --- OPTIONAL MATCH --------------------------------------------------------------------------------------------

    def _optional(
        self,
        left: Operator,
        pattern: GraphPattern,
        sure: Mapping[str, NameBinding],
        of_optional: dict[str, NameBinding],
        *,
        is_set: bool,
    ) -> Operator:
        """Return the left join with an optional clause, and add its names to `of_optional`.

        `sure` are the names that the MATCH clauses before it bind.
        """
        scope = Scope()
        scope.own = {**sure, **of_optional}
        block = MatchBlock(Scope(scope), is_set)
        conditions = self._add_paths(block, pattern)
        block.outer_names.clear()  # nodes with a constant are columns, which its own inequalities read and which join it
        of_block = algebra.possible_variables(block.operator()) | {*block.lone_nodes}
        for name, binding in of_optional.items():
            internal = edge_column(binding.internal) if binding.kind == "edge" else binding.internal
            if internal in of_block:
                self._fail(
                    pattern.at,
                    f"{name} is bound by an earlier OPTIONAL MATCH, and may be null: write both paths in one OPTIONAL MATCH",
                )
        across: list[Node] = []
        for part in conditions:
            read = {self._values.value(block.scope, node) for node in condition_nodes(part) if isinstance(node, Name)}
            columns = {algebra.binding_of_value(value) for value in read}
            is_exists = any(isinstance(node, MatchExists) for node in condition_nodes(part))
            if columns <= of_block or is_exists:
                self.add_condition(block, part)
            else:
                across.append(part)
        condition: Formula | None = None
        if across:
            whole = across[0] if len(across) == 1 else Logical("and", tuple(across), column=across[0].column)
            filter = self._values.filter(block.scope, whole)
            self._filters.append(filter)
            self._properties |= {value.name for value in filter.values if value.kind == "property"}
            self._read_values(block, filter)
            condition = EdgeCondition(filter)
        self._close(block)
        right = self._with_labels(block)
        for body, _ in block.tests:
            missing = algebra.mentioned_variables(body) & algebra.possible_variables(left)
            if not missing <= algebra.possible_variables(right):
                self._fail(
                    pattern.at, "EXISTS in an OPTIONAL MATCH reads the nodes of that clause alone: write a node in it"
                )
        of_optional |= {
            name: replace(binding, constant=None) for name, binding in block.scope.own.items() if name not in scope.own
        }
        return LeftJoin(left, right, condition)
