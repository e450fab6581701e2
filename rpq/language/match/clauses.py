"""From the clauses of a MATCH text to blocks of atoms and conditions (`MatchBlock`).

An edge that is bound is a vertex between two atoms, as in patterns with edge variables (`rpq.language.edge_variables`). A
quantified path is one path atom. Parallel edges are rows of their own, so every edge without a quantifier is bound, unless
the number of equal rows has no effect: an edge of a block that `is_set` is bound only if something reads it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from typing import Any, Literal, NoReturn

from rpq.automata.expressions import Label
from rpq.language import edge_variables
from rpq.language.edge_variables import SameTerm, Value
from rpq.language.match.any_paths import add_any_path, check_alone, declare_inner
from rpq.language.match.block import BoundEdge, MatchBlock, guard_of, place_constants, variable_name
from rpq.language.match.computed import ComputedValues, may_be_node
from rpq.language.match.condition_trees import (
    condition_nodes,
    conjuncts,
    disjuncts,
    filter_tree,
    has_value,
    variables_of_paths,
    variables_of_pattern,
)
from rpq.language.match.expansion import MAX_COUNTED, Expansion, Variant, edges_of, expand
from rpq.language.match.node_facts import (
    atom_of_test,
    column_of_labels,
    holds_without_record,
    joined_test,
    label_condition,
    own_test,
    universe,
)
from rpq.language.match.path_expressions import PathExpressions, has_trails, step_text
from rpq.language.match.scope import NameBinding, ResultColumn, Scope, ValueReader
from rpq.language.match.syntax import match_error
from rpq.language.match.tree import (
    LABELS_OF,
    AggregateCall,
    CountOf,
    Dialect,
    EdgePattern,
    GraphPattern,
    LabelTree,
    ListOf,
    MatchExists,
    NodePattern,
    PathPattern,
    QuantifiedGroup,
    walk,
)
from rpq.language.pattern import MAX_ATOMS, Atom, Blank, Constant, Term, Variable, edge_column, node_column
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import (
    Aggregate,
    Conjunction,
    Distinct,
    EdgeCondition,
    Extend,
    Formula,
    FunctionCall,
    Group,
    LeftJoin,
    Operator,
    Project,
    WindowAtom,
    make_union,
)
from rpq.language.sparql.values.typed_values import integer_term
from rpq.language.where import Arithmetic, Comparison, IsNull, Logical, Name, Node, Not, Where, WhereConstant
from rpq.stream.names.stream_labels import EDGE_ENDS, EdgeEnd

_NAME = re.compile(r"\w+#?")
_NUMBER = re.compile(r"\s*[+-]?(\d|\.\d|inf|nan)", re.IGNORECASE)

NeededValues = Mapping[str, Collection[str]]
"""The properties of nodes that later parts of a text read, by the names of the nodes."""


class ClauseTranslator:
    """The translation of the clauses of one text, and what they read of edges."""

    def __init__(
        self,
        text: str,
        dialect: Dialect,
        node_label: str | None,
        paths: str,
        *,
        is_triple: bool,
        has_nodes: bool,
        read_names: Collection[str],
    ) -> None:
        self._text = text
        self._dialect = dialect
        self._node_label = node_label
        self._ends = EDGE_ENDS[2:] if paths == "simple" else EDGE_ENDS[:2]
        self.is_triple = is_triple
        self._has_nodes = has_nodes
        self._read_names = {*read_names}
        self._used: set[str] = set()
        self._numbers = 0
        self._expressions = PathExpressions(text, dialect, node_label)
        self._values = ValueReader(text)
        self._expansion = Expansion(self._expressions, self.new_variable, self._read_names)
        self.computed = ComputedValues(
            self._values,
            dialect,
            has_labels_by_edges=node_label is not None,
            exists=self._exists,
            count=self._count,
            new_column=lambda: self.new_internal(".computed"),
        )
        self._bodies = 0
        self.atoms = 0
        self.filters: list[edge_variables.BindingFilter] = []
        self.has_edges = False
        self.differs = False

    def _fail(self, at: int, message: str) -> NoReturn:
        raise match_error(self._text, at, message)

    # --- names -----------------------------------------------------------------------------------------------------

    def new_internal(self, name: str) -> str:
        """Return a name for a variable, which no other variable of the query has."""
        internal = name
        while internal in self._used:
            self._numbers += 1
            internal = f"{name}.{self._numbers}"
        self._used.add(internal)
        return internal

    def _new_name(self) -> str:
        self._numbers += 1
        return self.new_internal(str(self._numbers))

    def new_variable(self) -> str:
        """Return a name for a node or an edge that has none in the text."""
        self._numbers += 1
        return f"_{self._numbers}#"

    def check_name(self, name: str, at: int) -> None:
        """Raise `MatchError` for a name that variables do not have."""
        if _NAME.fullmatch(name) is None:
            self._fail(at, f"the variable `{name}` is refused: names of variables are letters, digits and _")

    # --- clauses ---------------------------------------------------------------------------------------------------

    def variants_of(self, pattern: GraphPattern, *, is_set: bool) -> list[Variant]:
        """Return the patterns without quantified paths that count for which a clause stands."""
        variants = self._expansion.variants_of(pattern, is_set=is_set, differs=self._differs(pattern))
        for one in variants:
            for name, names in one.lists:
                if name in self._read_names:
                    self._read_names.update(names)
            for name, binding in one.paths:
                if name in self._read_names:
                    self._read_names.update(binding.elements)
        return variants

    def match(
        self,
        incoming: Operator | None,
        names: Mapping[str, NameBinding],
        variants: Sequence[Variant],
        needed: NeededValues,
        *,
        is_set: bool,
    ) -> tuple[Operator, dict[str, NameBinding]]:
        """Return the solutions of MATCH clauses that go on from rows, and what the names stand for behind them."""
        scope = Scope()
        scope.own = dict(names)
        block = self._block(scope, is_set)
        block.incoming = incoming
        self.atoms = 0
        for variant in variants:
            self._add_variant(block, variant)
        self._close(block, needed)
        found = block.operator()
        return found, {name: replace(one, constant=None) for name, one in scope.own.items()}

    def filtered(self, rows: Operator, names: Mapping[str, NameBinding], condition: Any) -> Operator:
        """Return the rows for which a condition holds."""
        scope = Scope()
        scope.own = dict(names)
        block = self._block(scope, is_set=False)
        block.incoming = rows
        self.add_condition(block, condition)
        return block.operator()

    def _block(self, scope: Scope, is_set: bool) -> MatchBlock:
        return MatchBlock(scope, is_set, self.computed.filter, self._node_label)

    def _differs(self, pattern: GraphPattern) -> bool:
        return self._dialect == "cypher" if pattern.different_edges is None else pattern.different_edges

    def _add_variant(self, block: MatchBlock, variant: Variant) -> None:
        """Add the paths and the conditions of a clause to a block."""
        for part in self._add_paths(block, variant):
            self.add_condition(block, part)

    # --- nodes -----------------------------------------------------------------------------------------------------

    def add_node(self, block: MatchBlock, node: NodePattern, *, is_lone: bool = False) -> Term:
        """Add the labels and conditions of a node to a block, and return its term. A lone node has no edge in its path."""
        term: Term = Variable(self._new_name()) if is_lone or node.same else Blank(self._new_name())
        name = node.variable
        if name is not None:
            term = Variable(self._vertex(block, name, node.at).internal)
        for other in node.same:
            self._add_same(block, term, other)
        for one in (node, *node.same):
            term = self._add_properties(block, term, name, one)
            if one.label is not None:
                self._add_labels(block, term, one.label, one.at, is_lone=is_lone)
            block.deferred_conditions += conjuncts(one.where)
        if isinstance(term, Variable) and is_lone:
            block.lone_nodes.append(term.name)
        return term

    def _vertex(self, block: MatchBlock, name: str, at: int) -> NameBinding:
        """Return what the name of a node stands for, a new vertex if it is not known."""
        self.check_name(name, at)
        binding = block.scope.get(name)
        if binding is None:
            binding = block.scope.own[name] = NameBinding("vertex", self.new_internal(name))
        elif binding.kind not in ("vertex", "value"):
            self._fail(at, f"{name} is {_WHAT[binding.kind]}, and a node too: rename one of them")
        elif binding.column is not None and not may_be_node(binding.column):
            self._fail(at, f"{name} is a computed value, and a node too: rename one of them")
        if binding.constant is not None and binding.internal not in block.constants:
            block.constants[binding.internal] = binding.constant
            block.outer_names.add(binding.internal)
        if binding.may_be_null:
            if name in block.scope.own:
                block.required.append(binding.internal)
                binding = block.scope.own[name] = replace(binding, may_be_null=False)
            else:
                block.scope.require(binding.internal)
                guard = FunctionCall("BOUND", (Variable(guard_of(binding.internal)),))
                if guard not in block.conditions:
                    block.conditions.append(guard)
        return binding

    def _add_same(self, block: MatchBlock, term: Term, other: NodePattern) -> None:
        """Bind the name of another node to the vertex that a node stands for."""
        if other.variable is None:
            return
        assert isinstance(term, Variable)
        if block.scope.get(other.variable) is None:
            self.check_name(other.variable, other.at)
            block.scope.own[other.variable] = NameBinding("vertex", term.name)
            return
        internal = self._vertex(block, other.variable, other.at).internal
        if internal != term.name:
            self._add_comparison(block, term.name, internal, "vertex", is_equal=True)
            if block.scope.has(internal):
                block.lone_nodes.append(internal)

    def _add_properties(self, block: MatchBlock, term: Term, name: str | None, node: NodePattern) -> Term:
        """Add the values of properties that a node must have, and return its term, a constant if they name it alone."""
        trees: list[Node] = []
        for entry in node.properties:
            if entry.name != "id":
                trees.append(has_value(entry.name, entry.value, entry.at))
                continue
            value = entry.value.value
            if isinstance(value, bool) or (isinstance(value, Decimal) and value != value.to_integral_value()):
                self._fail(entry.at, f"id is the name of a vertex, a text or an integer, not {value}")
            constant = Constant(str(value if isinstance(value, str) else int(value)))
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
        return term

    def _add_test(self, block: MatchBlock, term: Term, trees: Sequence[Node]) -> None:
        """Add conditions on the facts of a node."""
        self._expressions.test_text(trees)
        self.atoms += 1
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
        self.atoms += len(edges)
        if is_lone and not is_negated and not isinstance(term, Constant):
            found = make_union(*(Conjunction((one,)) for one in atoms))
            block.parts.append(Distinct(Project(found, (variable_name(term),))))
            return
        placed = (replace(one, atom=place_constants(one.atom, block.constants)) for one in atoms)
        block.tests.append((make_union(*(Conjunction((one,)) for one in placed)), is_negated))

    def add_atom(self, block: MatchBlock, atom: Atom, at: int) -> None:
        """Add an atom to a block."""
        self.atoms += 1
        if self.atoms > MAX_ATOMS:
            self._fail(at, f"too many edges and labels: at most {MAX_ATOMS}")
        block.atoms.append(atom)

    def _close(self, block: MatchBlock, needed: NeededValues) -> None:
        """Bind the nodes that stand in no edge, and the properties of nodes that later parts of the text read."""
        for internal in dict.fromkeys(block.lone_nodes):
            trees = block.node_tests.get(Variable(internal))
            is_bound = trees is not None and not holds_without_record(joined_test(trees))
            if not is_bound and not block.binds(internal):
                self.atoms += 2
                block.parts.append(universe(internal, node_label=self._node_label, has_nodes=self._has_nodes))
        for name, attributes in needed.items():
            for binding in _nodes_of(block.scope.own, name):
                for attribute in attributes:
                    block.scope.node_values[binding.internal, "labels" if attribute == LABELS_OF else attribute] = None
        self.atoms += len(block.scope.node_values)

    # --- patterns --------------------------------------------------------------------------------------------------

    def _add_paths(self, block: MatchBlock, variant: Variant) -> list[Any]:
        """Add the paths of a clause to a block; return its conditions."""
        pattern = variant.pattern
        differs = self._differs(pattern)
        self.differs |= differs
        block.different_ends = _different_nodes(pattern.where)
        edges: list[BoundEdge] = []
        overlapping = self._overlapping(pattern.paths) if differs else frozenset()
        for name, binding in variant.paths:
            if block.scope.get(name) is not None or name in binding.elements:
                self._fail(pattern.at, f"{name} is a path here, and something else too: rename one of them")
            block.scope.own[name] = NameBinding("inner", name)  # its place among the names
        for place, path in enumerate(pattern.paths):
            if path.is_any:
                check_alone(path, pattern.paths[place + 1 :], block.scope, self._text)
            edges += self._add_path(block, path, overlapping)
        for name, binding in variant.paths:
            block.scope.own[name] = binding
        for name, names in variant.lists:
            block.scope.own[name] = NameBinding("list", name, elements=names)
        if differs:
            self._separate(block, edges)
        for one, other in variant.different:
            first, second = (end.internal for end in map(block.scope.get, (one, other)) if end is not None)
            self._add_comparison(block, first, second, "vertex", is_equal=False)
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
            self._add_comparison(block, one.variable, other.variable, "number", is_equal=False)
        for edge in edges:
            if edge.variable is None and not edge.is_trail:
                self._fail(
                    edge.at,
                    "different edges are refused on this path, whose pairs may need an edge twice: one directed edge with "
                    f"{{1,m}} or + has the same pairs either way; {self._without_difference()}",
                )

    def _without_difference(self) -> str:
        return "write the paths in clauses of their own, or REPEATABLE ELEMENTS behind MATCH"

    def _add_comparison(
        self, block: MatchBlock, one: str, other: str, kind: Literal["vertex", "number"], *, is_equal: bool
    ) -> None:
        """Add the condition that two nodes or two edges are the same, or are not."""
        same = SameTerm(Value(kind, one), Value(kind, other))
        tree: Node = Name(same.column, column=1)
        text = f"{one} = {other}" if is_equal else f"{one} <> {other}"
        where = Where(text, tree if is_equal else Not(tree, column=1), frozenset({same.column}))
        self._add_filter(block, edge_variables.BindingFilter(text, where, (), (same,)))

    def _add_filter(self, block: MatchBlock, filter: edge_variables.BindingFilter) -> None:
        self._note_filter(filter)
        self._read_values(block, filter.values)
        block.conditions.append(EdgeCondition(filter))

    def _note_filter(self, filter: edge_variables.BindingFilter) -> None:
        self.filters.append(filter)
        self.computed.properties.update(value.name for value in filter.values if value.kind == "property")

    def _read_values(self, block: MatchBlock, values: Sequence[Value]) -> None:
        """Read properties of nodes in a block if it binds the nodes, or else where they are bound."""
        for value in values:
            if value.kind == "fact" and block.binds(value.variable):
                block.scope.node_values[value.variable, value.name] = None
            elif value.kind == "fact":
                block.scope.read_value(value.variable, value.name)

    def _add_path(self, block: MatchBlock, path: PathPattern, overlapping: frozenset[int]) -> list[BoundEdge]:
        """Add a path to a block and return its edges."""
        nodes, connectors = self._expressions.alternating(path)
        if not connectors:
            (node,) = nodes
            if path.variable is not None:
                node = node if node.variable is not None else replace(node, variable=self.new_variable())
                block.scope.own[path.variable] = NameBinding("path", path.variable, elements=(str(node.variable),))
            self.add_node(block, node, is_lone=True)
            return []
        quantified = [one for one in connectors if one.quantifier is not None]
        self._check_mode(path, connectors, quantified)
        length = self._length(block, path, connectors)
        if path.is_any:
            (connector, *others) = connectors
            if path.is_function and not others and isinstance(connector, EdgePattern) and connector.direction == "either":
                # An undirected shortest path from a node to itself would go along an edge and back.
                ends = [one if one.variable is not None else replace(one, variable=self.new_variable()) for one in nodes]
                path = replace(path, elements=(ends[0], connector, ends[1]))
                found = add_any_path(self, block, path, expressions=self._expressions, values=self._values, length=length)
                first, last = (self._vertex(block, str(one.variable), one.at).internal for one in ends)
                self._add_comparison(block, first, last, "vertex", is_equal=False)
                return [replace(found, is_trail=True)]
            return [add_any_path(self, block, path, expressions=self._expressions, values=self._values, length=length)]
        if quantified and not block.is_set:
            quantifier = quantified[0].quantifier
            assert quantifier is not None
            short = f"at most {MAX_COUNTED} edges, " if self._dialect == "cypher" else ""
            self._fail(
                quantifier.at,
                f"a quantified path that counts needs {short}ANY before it, RETURN DISTINCT without aggregates, or EXISTS "
                "{ … } around it: otherwise it means pairs of vertices",
            )
        return self.add_steps(block, path, nodes, connectors, overlapping)

    def _length(
        self, block: MatchBlock, path: PathPattern, connectors: Sequence[EdgePattern | QuantifiedGroup]
    ) -> str | None:
        """Declare the name of a path of any length. Return the column of its length where that is read and determined."""
        if path.variable is None:
            return None
        self.check_name(path.variable, path.at)
        block.scope.own[path.variable] = NameBinding("inner", path.variable)
        quantifier = connectors[0].quantifier
        if not path.is_function or path.variable not in self._read_names or len(connectors) > 1 or quantifier is None:
            return None
        if quantifier.most is None or quantifier.most * edges_of(connectors[0]) > MAX_COUNTED:
            return None
        name, internal = f"{path.variable}#length", self.new_internal(".length")
        block.scope.own[path.variable] = NameBinding("shortest", path.variable, elements=(name,))
        block.scope.own[name] = NameBinding("value", internal, column=ResultColumn("", "count"))
        return internal

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
            self._add_comparison(block, names[0], names[1], "vertex", is_equal=False)

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
            self.check_name(name, at)
            binding = block.scope.get(name)
            if binding is not None:
                advice = "name them apart, and compare them in WHERE" if binding.kind == "edge" else "rename one of them"
                self._fail(at, f"{name} is an edge here, and {_WHAT[binding.kind]} already, which is refused: {advice}")
            kind: Literal["edge", "inner"] = "edge" if connector.quantifier is None else "inner"
            block.scope.own[name] = NameBinding(kind, self.new_internal(name), directions=(connector.direction,))

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
            ends = {term.name for term in (source, target) if isinstance(term, Variable)}
            bindings = [{*map(block.scope.get, pair)} for pair in block.different_ends]
            pairs = [{end.internal for end in pair if end is not None} for pair in bindings]
            is_trail = has_trails(connector, ends_differ=len(ends) == 2 and ends in pairs)
            return BoundEdge(labels, None, connector.at, is_trail=is_trail)
        labels = self._expressions.labels(connector)
        condition, others = self._expressions.own_conditions(connector)
        expression = self._expressions.expression(step_text(labels, connector.direction, condition), connector.at)
        name = connector.variable
        is_read = name is not None and (name in self._read_names or bool(others))
        is_alone = self.is_triple and connector.direction != "either" and not labels.is_negated and len(labels.names) == 1
        if (block.is_set or is_alone) and not is_read and not must_bind:
            if name is not None:
                block.scope.own[name] = replace(block.scope.own[name], kind="inner")
            self.add_atom(block, Atom(source, expression, target), connector.at)
            return BoundEdge(labels, None, connector.at, is_trail=True)
        self.has_edges = True
        internal = self._new_name() if name is None else block.scope.own[name].internal
        edge, text = Variable(edge_column(internal)), str(expression)
        self.add_atom(block, Atom(source, Label(EdgeEnd(text, self._ends[0])), edge), connector.at)
        self.atoms -= 1
        self.add_atom(block, Atom(edge, Label(EdgeEnd(text, self._ends[1])), target), connector.at)
        block.deferred_conditions += others
        return BoundEdge(labels, internal, connector.at)

    # --- conditions ------------------------------------------------------------------------------------------------

    def add_condition(self, block: MatchBlock, condition: Node) -> None:
        """Add the conjuncts of a condition to a block."""
        for part in conjuncts(expand(condition, block.scope.get)):
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
                if negated:  # nor does the label of a node that is null
                    nodes = (one.node for one in choices if isinstance(one, MatchExists) and one.node is not None)
                    nullable = (one for node in nodes if (one := block.scope.get(node.name)) is not None and one.may_be_null)
                    block.conditions += [FunctionCall("BOUND", (Variable(one.internal),)) for one in nullable]
                bodies = [
                    self._exists(block.scope, one) if test is None else self._test_body(block, *test)
                    for one, test in zip(choices, tests, strict=True)
                ]
                block.tests.append((make_union(*bodies), negated))
                continue
            if self._fix_id(block, part):
                continue
            plain = self.filter_of(block.scope, part)
            if plain is not None:
                self._add_filter(block, plain)
                continue
            self.check_condition(part)
            self._read_values(block, self.computed.values_read(block.scope, part))
            for node in condition_nodes(part):
                if isinstance(node, MatchExists):
                    self._exists(block.scope, node)  # for the properties of nodes of the block that it reads
            block.computed.append(part)

    def check_condition(self, condition: Any) -> None:
        """Raise `MatchError` for an aggregate in a condition."""
        is_constant = isinstance(condition, WhereConstant) and not isinstance(condition.value, bool)
        if is_constant or isinstance(condition, (Arithmetic, ListOf)):
            self._fail(condition.column - 1, "a number, a text or a list is no condition, and refused")
        for node in condition_nodes(condition):
            if isinstance(node, AggregateCall):
                advice = "aggregates stand in WITH and RETURN: write WITH …, and WHERE behind it"
                self._fail(node.column - 1, f"the aggregate {node.function} inside a condition is refused: {advice}")

    def filter_of(self, scope: Scope, condition: Any) -> edge_variables.BindingFilter | None:
        """Return a condition as a filter over nodes and edges, or None if it computes with other values."""
        tree = filter_tree(condition, self._dialect)
        if tree is None:
            return None
        for node in condition_nodes(tree):
            if isinstance(node, IsNull) and isinstance(node.inner, Name) and "." not in node.inner.name:
                return None  # an edge or a node that an OPTIONAL MATCH may lack
        for name in (node for node in condition_nodes(tree) if isinstance(node, Name)):
            value, binding = self._values.value(scope, name), scope.get(name.name.partition(".")[0])
            if value.is_list or binding is None or binding.kind == "value":
                return None
        return self._values.filter(scope, tree)

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
        return None if tree is None or binding.may_be_null else (Variable(binding.internal), tree)

    def _test_body(self, block: MatchBlock, term: Term, tree: Node) -> Operator:
        """Return the test of a node as the body of an EXISTS."""
        self.atoms += 1
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
        bodies = []
        self._bodies += 1
        around, self.computed.place = self.computed.place, f" in body {self._bodies}"
        for variant in self.variants_of(exists.pattern, is_set=True):
            block = self._block(Scope(outer), is_set=True)
            self._add_variant(block, variant)
            block.lone_nodes = [name for name in block.lone_nodes if block.scope.has(name)]
            self._close(block, {})
            for node in (part for value in exists.returned_values for part in condition_nodes(value)):
                if isinstance(node, AggregateCall):
                    advice = "it has a row even without a match; leave RETURN out"
                    self._fail(node.column - 1, f"the aggregate {node.function} in EXISTS is refused: {advice}")
                if isinstance(node, Name) and block.scope.get(node.name.partition(".")[0]) is None:
                    self._values.value(block.scope, node)
            bodies.append(block.operator())
        self.computed.place = around
        return make_union(*bodies)

    def _count(self, inner: Operator, scope: Scope, count: CountOf) -> tuple[Operator, str]:
        """Return rows with the number of matches of a pattern for each of them, and the name of this column."""
        read = {name for name, _ in variables_of_pattern(count.pattern.paths, count.pattern.where)}
        bindings = {name: one for name in scope.names() if name in read and (one := scope.get(name)) is not None}
        keys = [one.internal for one in bindings.values() if one.kind in ("vertex", "value")]
        keys += [edge_column(one.internal) for one in bindings.values() if one.kind == "edge"]
        carried = sorted(algebra.possible_variables(inner) & {*keys})
        facts = sorted(
            name for name in algebra.possible_variables(inner) if any(name.startswith(f".{key}.") for key in keys)
        )
        rows: Operator = Distinct(Project(inner, (*carried, *facts)))
        nullable = [one.internal for one in bindings.values() if one.may_be_null]
        branches = []
        for variant in self.variants_of(count.pattern, is_set=False):
            found, _ = self.match(rows, bindings, [variant], {}, is_set=False)
            branches.append(Project(found, tuple(carried)))
        number, whole = self.new_internal(".count"), self.new_internal(".count")
        groups = Group(make_union(*branches), tuple(carried), ((number, Aggregate("COUNT", None, False)),))
        joined = self.left_join(inner, groups, nullable, None)
        zero = FunctionCall("COALESCE", (Variable(number), Constant(integer_term(0))))
        return Extend(joined, whole, zero), whole

    def left_join(self, left: Operator, right: Operator, nullable: Sequence[str], condition: Formula | None) -> Operator:
        """Return a left join in which a variable of the left that is null agrees with no value."""
        conditions = [condition] if condition is not None else []
        for name in nullable:
            copy = self.new_internal(guard_of(name))
            left = Extend(left, copy, Variable(name))
            conditions.append(FunctionCall("BOUND", (Variable(copy),)))
        whole = None if not conditions else conditions[0] if len(conditions) == 1 else FunctionCall("&&", (*conditions,))
        return LeftJoin(left, right, whole)

    # --- OPTIONAL MATCH --------------------------------------------------------------------------------------------

    def optional(
        self,
        left: Operator,
        names: Mapping[str, NameBinding],
        pattern: GraphPattern,
        needed: NeededValues,
        *,
        is_set: bool,
    ) -> tuple[Operator, dict[str, NameBinding]]:
        """Return the left join with an optional clause, and what the names stand for behind it."""
        read = {name for name, _ in variables_of_paths(pattern.paths)}
        nullable = [one.internal for name, one in names.items() if name in read and one.may_be_null]
        sure = {name: replace(one, may_be_null=one.may_be_null and name not in read) for name, one in names.items()}
        variants = self.variants_of(pattern, is_set=is_set)
        across: list[Any] = []
        branches: list[tuple[Operator, dict[str, NameBinding]]] = []
        for variant in variants:
            outer = Scope()
            outer.own = dict(sure)
            block = self._block(Scope(outer), is_set)
            conditions = self._add_paths(block, variant)
            block.outer_names.clear()  # nodes with a constant are columns, which its own inequalities read and which join it
            for internal in dict.fromkeys(block.lone_nodes):
                if outer.has(internal) and not block.binds(internal):
                    block.parts.append(Distinct(Project(left, (internal,))))
            own = algebra.possible_variables(block.operator()) | {*block.lone_nodes}
            across = []
            inside: list[Any] = []
            for part in conditions:
                part = expand(part, block.scope.get)
                (across if self._reads_rows(part, block, outer, own) else inside).append(part)
            for part in inside:
                self.add_condition(block, part)
            if across and len(variants) > 1:
                self._fail(
                    across[0].column - 1,
                    "a condition of an OPTIONAL MATCH with a path of several lengths reads its own nodes and edges alone: "
                    "write the others in WITH … WHERE",
                )
            behind = {name: [*attributes] for name, attributes in needed.items() if name in block.scope.own}
            for part in across:
                for value in self.computed.values_read(block.scope, part):
                    if value.kind == "fact" and (block.scope.has(value.variable) or block.binds(value.variable)):
                        block.scope.node_values[value.variable, value.name] = None
            self._close(block, behind)
            right = block.operator()
            self._check_tests(block, left, right, pattern)
            branches.append((right, dict(block.scope.own)))
        right, found = self._one_branch(branches, needed)
        scope = Scope()
        scope.own = {**sure, **found}
        condition: Formula | None = None
        if across:
            whole = across[0] if len(across) == 1 else Logical("and", tuple(across), column=across[0].column)
            filter = self.filter_of(scope, whole)
            if filter is not None:
                self._note_filter(filter)
                condition = EdgeCondition(filter)
            else:
                self.check_condition(whole)
                left, right, condition = self.computed.condition_across(left, right, scope, whole)
        joined = self.left_join(left, right, nullable, condition)
        new = {name: replace(one, constant=None, may_be_null=True) for name, one in found.items() if name not in names}
        return joined, {**names, **new}

    def _reads_rows(self, condition: Any, block: MatchBlock, outer: Scope, own: Collection[str]) -> bool:
        """Return whether a condition of an OPTIONAL MATCH reads values that only the rows before it have.

        Conditions of their own that are EXISTS are part of the clause, which binds the nodes that they read.
        """
        choices = disjuncts(condition.inner if isinstance(condition, Not) else condition)
        if all(isinstance(one, MatchExists) for one in choices):
            return False
        named = {node.name.partition(".")[0] for node in walk(condition) if isinstance(node, Name)}
        named |= {str(node.variable) for node in walk(condition) if isinstance(node, (NodePattern, EdgePattern))}
        for name in named:
            binding = outer.get(name)
            if binding is not None and block.scope.own.get(name) is None:
                column = edge_column(binding.internal) if binding.kind == "edge" else binding.internal
                if binding.kind == "value" or column not in own:
                    return True
        return False

    def _check_tests(self, block: MatchBlock, left: Operator, right: Operator, pattern: GraphPattern) -> None:
        for body, _ in block.tests:
            missing = algebra.mentioned_variables(body) & algebra.possible_variables(left)
            if not missing <= algebra.possible_variables(right):
                self._fail(
                    pattern.at, "EXISTS in an OPTIONAL MATCH reads the nodes of that clause alone: write a node in it"
                )

    def _one_branch(
        self, branches: Sequence[tuple[Operator, dict[str, NameBinding]]], needed: NeededValues
    ) -> tuple[Operator, dict[str, NameBinding]]:
        """Return the union of branches, in which the names stand for the same columns."""
        if len(branches) == 1:
            return branches[0]
        _, first = branches[0]
        shared = frozenset.intersection(*(frozenset(algebra.possible_variables(branch)) for branch, _ in branches))
        found: dict[str, NameBinding] = {}
        changed = [branch for branch, _ in branches]
        columns = [*sorted(shared)]
        for name, binding in first.items():
            if binding.kind not in ("vertex", "edge"):
                found[name] = NameBinding("inner", name)
                continue
            if "#" in name:
                continue
            internal = self.new_internal(name)
            found[name] = replace(binding, internal=internal, constant=None)
            for place, (_, names) in enumerate(branches):
                pairs = columns_of(names[name], internal, needed.get(name, ()))
                for column, source in pairs:
                    changed[place] = Extend(changed[place], column, Variable(source))
            columns += [column for column, _ in columns_of(binding, internal, needed.get(name, ()))]
        return make_union(*(Project(one, tuple(dict.fromkeys(columns))) for one in changed)), found


_WHAT = {
    "vertex": "a node",
    "edge": "an edge",
    "value": "a value",
    "path": "a path",
    "list": "a list",
    "shortest": "a path",
    "inner": "inside a path of which only the ends are returned",
}


def columns_of(binding: NameBinding, internal: str, attributes: Collection[str]) -> list[tuple[str, str]]:
    """Return the columns of a name and of properties of its node, and the columns under another internal name.

    >>> columns_of(NameBinding("vertex", "a"), "b", ["risk"])
    [('b', 'a'), ('.b.risk', '.a.risk')]
    """
    if binding.kind == "edge":
        return [(edge_column(internal), edge_column(binding.internal))]
    if binding.kind in ("path", "list", "shortest"):
        return []
    found = [(internal, binding.internal)]
    for attribute in attributes:
        name = "labels" if attribute == LABELS_OF else attribute
        found.append((node_column(internal, name), node_column(binding.internal, name)))
        if name == "labels":
            found.append((column_of_labels(internal), column_of_labels(binding.internal)))
    return found


def _nodes_of(names: Mapping[str, NameBinding], name: str) -> list[NameBinding]:
    """Return the node that a name stands for, or the nodes of a path or a list."""
    binding = names.get(name)
    if binding is None:
        return []
    found = [names[one] for one in binding.elements if one in names] if binding.kind in ("path", "list") else [binding]
    return [one for one in found if one.kind == "vertex"]


def _different_nodes(condition: Any) -> list[frozenset[str]]:
    """Return the pairs of names that a condition requires to differ."""
    found = []
    for part in conjuncts(condition):
        match part:
            case Comparison("!=", Name(one), Name(other)) | Not(Comparison("==", Name(one), Name(other))):
                found.append(frozenset({one, other}))
    return found
