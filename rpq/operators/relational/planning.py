"""The plan of a query: from the algebra of a question to the network of operators that maintains its answer.

Each operator of the algebra becomes one of the network, with the columns that operators above it need.

A conjunction becomes leaves for the pattern kernels. With literals it has several meanings, whose solutions are added up
(`rpq.operators.patterns.meanings`). Each meaning is divided into parts without common variables; an atom without variables
is a part without columns.

EXISTS inside a formula becomes a column that the formula reads. It asks whether its body has a solution when the variables
of the outer row are replaced by their values. Where that is equivalent to a join with the row (`is_join`), the body is
evaluated by itself. Otherwise it is evaluated for all rows at once: the different values of the variables that it mentions
are an input of the body (`outer_rows`), together with copies under other names that pass through all operators unchanged and
say at the end to which outer row a solution of the body belongs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

from rpq.automata.symbols import LabelSymbol
from rpq.language.edge_variables import Value
from rpq.language.linear_comparisons import LinearComparison
from rpq.language.pattern import Blank, Constant, Variable, merge_overlapping
from rpq.language.sparql.algebra import (
    Conjunction,
    Distinct,
    EdgeCondition,
    EdgeValue,
    Exists,
    Extend,
    Filter,
    Formula,
    FunctionCall,
    Group,
    Join,
    LeftJoin,
    Minus,
    Operator,
    Project,
    ReportTime,
    SemiJoin,
    Slice,
    SparqlQuestion,
    Union,
    Unwind,
    Values,
    WindowAtom,
    certain_variables,
    conditions_of,
    has_exists,
    mentioned_variables,
    name_of,
    possible_variables,
    variables_in_order,
    variables_of,
)
from rpq.language.sparql.restriction import OneOf, restrict
from rpq.language.sparql.rewriting import rewrite
from rpq.language.sparql.values.typed_values import FALSE, TRUE
from rpq.operators.bags.value_matching import ValueMode
from rpq.operators.patterns.joins.plan import plan_pattern
from rpq.operators.patterns.meanings import (
    DirectedAtom,
    Meaning,
    NamedVertex,
    PathRead,
    Roots,
    comparisons_in,
    comparisons_of,
    direct_atoms,
    edge_step,
    meanings_of,
    name_of_read,
    variable,
)
from rpq.operators.relational.edge_values import EdgeConditionNode, EdgeValueNode
from rpq.operators.relational.groups import GroupNode
from rpq.operators.relational.joins import (
    MIRRORED,
    Agreement,
    ExistsNode,
    FormulaComparison,
    JoinNode,
    LeftJoinNode,
    ValueMatchNode,
)
from rpq.operators.relational.nodes import (
    ConstructNode,
    CopyNode,
    DistinctNode,
    ExtendNode,
    FilterNode,
    LeafNode,
    Node,
    ProductNode,
    ProjectNode,
    ReportTimeNode,
    RowsNode,
    UnionNode,
    UnwindNode,
)
from rpq.operators.relational.slices import SliceNode
from rpq.operators.relational.values.term_ids import TermIds


class EveryLabel(NamedTuple):
    """All labels, as a triple with a variable as its predicate reads them; the variable has their names."""

    predicate: str

    def __str__(self) -> str:
        return "!()" if self.predicate == _ANY.name else variable(self.predicate)


class RelationRead(NamedTuple):
    """The relation that an atom reads: edges of a label, or pairs of a path, in a window (None: the default graph)."""

    window: str | None
    of: LabelSymbol | PathRead | EveryLabel

    def __str__(self) -> str:
        name = str(self.of) if isinstance(self.of, EveryLabel) else name_of_read(self.of)
        return name if self.window is None else f"{name} in <{self.window}>"


class ConjunctionPart(NamedTuple):
    """Atoms that are connected by shared variables, or one atom without variables, and the variables that are columns."""

    meaning: Meaning
    columns: tuple[str, ...]
    label_column: str | None = None
    """The column for the label of the edge, after the others. None if it is not needed, or the part reads one label."""
    comparisons: tuple[LinearComparison, ...] = ()
    """Comparisons of values of its variables, in the notation of plans, that hold for all rows that are needed."""

    @property
    def reads_every_label(self) -> bool:
        """True if it is one triple with a variable as its predicate."""
        return any(isinstance(read.of, EveryLabel) for read in self.reads)

    @property
    def leaf_columns(self) -> tuple[str, ...]:
        """All columns, with that of the label."""
        return self.columns if self.label_column is None else (*self.columns, self.label_column)

    @property
    def reads(self) -> list[RelationRead]:
        """The relations that its atoms read."""
        return [read for _, read, _ in self.meaning.edges]  # type: ignore[misc]  # it is of these that meanings were made

    @property
    def roots(self) -> dict[str, frozenset[str]]:
        """The names of the vertices at which the paths from a variable begin, unless they begin at all vertices."""
        found: dict[str, Roots] = {}
        for source, read, _ in self.meaning.edges:
            if isinstance(source, str) and isinstance(read, RelationRead) and isinstance(read.of, PathRead):
                found[source.removeprefix("?")] = read.of.roots
        return {name: roots for name, roots in found.items() if isinstance(roots, frozenset)}

    @property
    def select(self) -> list[str]:
        """The columns, in the notation of variables in plans."""
        return [variable(name) for name in self.columns]

    def __str__(self) -> str:
        def text_of(term: str | NamedVertex) -> str:
            return f"<{term.name}>" if isinstance(term, NamedVertex) else term

        return " . ".join(f"{text_of(source)} {read} {text_of(target)}" for source, read, target in self.meaning.edges)


def parts_of(conjunction: Conjunction, needed: Sequence[str]) -> list[list[ConjunctionPart]]:
    """Return for each meaning its parts, whose columns are the `needed` variables in this order.

    A conjunction with a variable as a predicate has one atom (`separate_predicates`). Raises `QueryError`. O(atoms³).
    """
    if any(one.predicate is not None for one in conjunction.atoms):
        return _parts_of_every_label(conjunction, needed)
    return [_parts(meaning, needed, conjunction.comparisons) for meaning in meanings_in(conjunction)]


def meanings_in(conjunction: Conjunction) -> list[Meaning]:
    """Return the meanings of a conjunction, with its atoms in the order of `atoms_by_window`. O(atoms²)."""
    terms = dict(conjunction.restricted)
    ends = {term for one in conjunction.atoms for term in (one.atom.subject, one.atom.object)}
    restricted = {term: terms[name] for term in ends if (name := name_of(term)) in terms}
    atoms = []
    for window, group in itertools.groupby(atoms_by_window(conjunction), lambda one: one.window):
        mine = direct_atoms([one.atom for one in group], restricted)
        atoms += [DirectedAtom(atom.source, RelationRead(window, atom.reads), atom.target) for atom in mine]  # type: ignore[arg-type]
    return meanings_of(atoms, isomorphism=False)


def atoms_by_window(conjunction: Conjunction) -> list[WindowAtom]:
    """Return the atoms of a conjunction, those of a window together."""
    places = {window: place for place, window in enumerate(dict.fromkeys(one.window for one in conjunction.atoms))}
    return sorted(conjunction.atoms, key=lambda one: places[one.window])


def separate_predicates(conjunction: Conjunction) -> Operator:
    """Return a conjunction as the join of its atoms that read all labels, each by itself, and of all others.

    These are the triples with a variable as predicate, and the pairs of `!()` that no other atom binds at an end.
    """
    apart: dict[WindowAtom, Operator] = {}
    for one in conjunction.atoms:
        if one.predicate is not None:
            apart[one] = Conjunction((one,))
        elif (pairs := _pairs_of_every_label(one, conjunction)) is not None:
            apart[one] = pairs
    rest = tuple(one for one in conjunction.atoms if one not in apart)
    parts = [*([replace(conjunction, atoms=rest)] if rest else []), *apart.values()]
    if not apart or parts == [conjunction]:
        return conjunction
    return parts[0] if len(parts) == 1 else Join(tuple(parts))


_ANY = Variable(".any")
"""The predicate of a triple whose label is not needed. No text can contain it."""


def _pairs_of_every_label(one: WindowAtom, conjunction: Conjunction) -> Operator | None:
    """Return the pairs that an atom of `!()` reads: the ends of all edges, each pair once. None for other atoms.

    An atom with a constant is read from that root. An atom that shares a variable with other atoms is planned with these,
    and read from the roots that they bind. Both are paths of one edge.
    """
    step = edge_step(one.atom.expression)
    terms = {one.atom.subject, one.atom.object}
    other_terms = {
        term
        for other in conjunction.atoms
        if other is not one and other.predicate is None
        for term in (other.atom.subject, other.atom.object)
    }
    if step is None or step.label is not None or terms & other_terms or any(isinstance(term, Constant) for term in terms):
        return None
    source, target = (one.atom.subject, one.atom.object)[:: -1 if step.inverse else 1]
    edges = Conjunction((WindowAtom.of_every_label(source, _ANY, target, one.window),))
    names = dict.fromkeys(name for term in (source, target) if (name := name_of(term)) is not None)
    return Distinct(Project(edges, tuple(names)))


def _parts_of_every_label(conjunction: Conjunction, needed: Sequence[str]) -> list[list[ConjunctionPart]]:
    (one,) = conjunction.atoms
    assert one.predicate is not None
    name = one.predicate.name
    read = RelationRead(one.window, EveryLabel(name))
    directed = DirectedAtom(one.atom.subject, read, one.atom.object)  # type: ignore[arg-type]
    label_column = name if name in needed else None
    return [
        [part._replace(label_column=label_column) for part in _parts(meaning, [other for other in needed if other != name])]
        for meaning in meanings_of([directed], isomorphism=False)
    ]


def _parts(
    meaning: Meaning, needed: Sequence[str], comparisons: Sequence[LinearComparison] = ()
) -> list[ConjunctionPart]:
    edges = [*dict.fromkeys(meaning.edges)]
    output_variables = [variable(name) for name in needed]
    variables = [{term for term in (source, target) if isinstance(term, str)} for source, _, target in edges]
    parts = []
    for names, places in merge_overlapping(variables):
        meaning = Meaning(tuple(edges[place] for place in places))
        output = dict.fromkeys([*output_variables, *map(variable, ConjunctionPart(meaning, ()).roots)])
        columns = tuple(name.removeprefix("?") for name in output if name in names)
        part = ConjunctionPart(meaning, columns, comparisons=tuple(one for one in comparisons if one.variables <= names))
        _check_plan(part)
        parts.append(part)
    return parts


def _check_plan(part: ConjunctionPart) -> None:
    """Raise `QueryError` if there is no plan for the query."""
    numbers: dict[object, int] = {}

    def number_of(thing: object) -> int:
        return numbers.setdefault(thing, len(numbers))

    plan_pattern(part.meaning.atoms(lambda edge: number_of(edge[1]), number_of), select=part.select)


Names = frozenset[str]


def copy_of(name: str) -> str:
    """Return the name of the column that carries an outer variable through a body. No text can contain it."""
    return f".given {name}"


def is_join(body: Operator, outer: Names) -> bool:
    """Return whether a body in which outer variables are replaced equals its join with the row around it. O(size²).

    >>> from rpq.language.sparql.syntax.reading import read
    >>> bodies = [read(f"ASK {{ ?x <a> ?y FILTER EXISTS {{ {body} }} }}").body.right for body in (
    ...     "?y <b> ?z FILTER(?z > ?y)", "?y <b> ?z FILTER(?z > ?x)")]
    >>> [is_join(body, frozenset("xy")) for body in bodies]
    [True, False]
    """

    def agrees_with_outer(names: Names, inner: Operator) -> bool:
        """Return whether an operator binds the outer variables among names, so that it must agree with the outer row in
        them."""
        return names & outer <= certain_variables(inner)

    match body:
        case Conjunction() | Values() | ReportTime() | Group() | Slice():
            return True  # the values of a grouped subselect are compared after its evaluation
        case Join(parts) | Union(parts):
            return all(is_join(part, outer) for part in parts)
        case Filter(inner, condition):
            return is_join(inner, outer) and not has_exists(condition) and agrees_with_outer(variables_of(condition), inner)
        case Extend(inner, _, formula, is_joined) if is_joined:
            return is_join(inner, outer) and variables_of(formula) <= certain_variables(inner)
        case Extend(inner, variable, formula) | Unwind(inner, variable, formula):
            is_its_own = variable not in outer and not has_exists(formula)
            return is_its_own and is_join(inner, outer) and agrees_with_outer(variables_of(formula), inner)
        case Project(inner) | Distinct(inner):
            return is_join(inner, outer)
        case LeftJoin(left, right, condition):
            used_names = mentioned_variables(right) | (frozenset() if condition is None else variables_of(condition))
            are_joins = is_join(left, outer) and is_join(right, outer)
            return are_joins and not has_exists(condition) and agrees_with_outer(used_names, left)
        case SemiJoin(left, right):
            return is_join(left, outer) and agrees_with_outer(mentioned_variables(right), left)
        case Minus(left, right):
            return is_join(left, outer) and not mentioned_variables(right) & outer


def exists_in(formula: Formula) -> list[Exists]:
    """Return the EXISTS in a formula, each once."""
    if isinstance(formula, Exists):
        return [formula]
    if isinstance(formula, FunctionCall):
        return [*dict.fromkeys(one for argument in formula.arguments for one in exists_in(argument))]
    return []


def replace_exists(formula: Formula, names: Mapping[Exists, str]) -> Formula:
    """Return a formula in which variables with these `names` replace EXISTS."""
    if isinstance(formula, Exists):
        return Variable(names[formula])
    if isinstance(formula, FunctionCall):
        return replace(formula, arguments=tuple(replace_exists(one, names) for one in formula.arguments))
    return formula


def add_comparisons(operator: Operator, above: Sequence[Filter | Extend] = ()) -> Operator:
    """Return an operator whose conjunctions have the comparisons of values of edges in filters above them. O(size).

    `above` are the operators above this one, through which no row passes that they do not need.
    """
    match operator:
        case Filter(inner) | Extend(inner):
            return replace(operator, inner=add_comparisons(inner, [*above, operator]))
        case Conjunction():
            return replace(operator, comparisons=tuple(_comparisons_in(above)))
        case Join(parts):
            return replace(operator, parts=tuple(map(add_comparisons, parts)))
        case Union(branches):
            return replace(operator, branches=tuple(map(add_comparisons, branches)))
        case LeftJoin(left, right) | SemiJoin(left, right) | Minus(left, right):
            return replace(operator, left=add_comparisons(left), right=add_comparisons(right))
        case Unwind(inner) | Group(inner) | Project(inner) | Distinct(inner) | Slice(inner):
            return replace(operator, inner=add_comparisons(inner))
        case Values() | ReportTime():
            return operator


def _comparisons_in(operators: Sequence[Filter | Extend]) -> Iterator[LinearComparison]:
    """Yield the comparisons of values of edges in filters among operators, which bind these values."""
    values = {}
    for one in operators:
        if isinstance(one, Extend) and isinstance(one.formula, EdgeValue):
            values[one.variable] = one.formula.value
    for one in operators:
        for condition in conditions_of(one.condition) if isinstance(one, Filter) else ():
            yield from _comparisons_of_condition(condition, values)


def _comparisons_of_condition(condition: Formula, values: Mapping[str, Value]) -> list[LinearComparison]:
    """Return the comparisons of values of edges that a condition implies. `values` are those of variables."""
    if isinstance(condition, EdgeCondition):
        return comparisons_of(condition.filter)
    if isinstance(condition, FunctionCall) and not isinstance(condition.function, str):
        from rpq.language.match.values.computation import Computation

        if isinstance(condition.function, Computation):
            inputs = zip(condition.function.inputs, condition.arguments, strict=True)
            names = [(name, one.name) for (name, _), one in inputs if isinstance(one, Variable)]
            return comparisons_in(condition.function.tree, [(name, values[one]) for name, one in names if one in values])
    return []


@dataclass(frozen=True)
class NetworkPlan:
    """A network: the operator whose bag is the answer, the part of a conjunction of each leaf, and the operator of NOW."""

    top: Node
    leaves: tuple[tuple[LeafNode, ConjunctionPart], ...]
    report_time: ReportTimeNode | None = None


def plan_network(question: SparqlQuestion, terms: TermIds) -> NetworkPlan:
    """Return the network of a question. Raises `QueryError`. O(size · depth)."""
    body = add_comparisons(restrict(rewrite(question.body), {}))
    planner = _Planner(terms, variables_in_order(body))
    match question.form:
        case "select":
            top: Node = _project(question.columns, planner.node(body, frozenset(question.columns)))
        case "ask":
            top = DistinctNode(ProjectNode((), planner.node(body, frozenset())))
        case "construct":
            terms_of_template = [term for triple in question.template for term in triple.terms]
            names = {term.name for term in terms_of_template if isinstance(term, Variable)}
            solution: list[str] = []
            if any(isinstance(term, Blank) for term in terms_of_template):  # their names depend on the whole solution
                solution = sorted(name for name in possible_variables(body) if not name.startswith(("_:", ".")))
            inner = planner.node(body, frozenset(names).union(solution))
            top = DistinctNode(ConstructNode(question.template, inner, terms, solution=solution))
    return NetworkPlan(top, tuple(planner.leaves), planner.report_time)


class _Planner:
    """The builder of operators, which numbers the columns that are not in the text.

    Columns are in the order in which the query names its `variables`, so queries that differ in these names have one plan.
    """

    def __init__(self, terms: TermIds, variables: Sequence[str]) -> None:
        self._terms = terms
        self._places = {name: place for place, name in enumerate(variables)}
        self._numbers = 0
        self.leaves: list[tuple[LeafNode, ConjunctionPart]] = []
        self.report_time: ReportTimeNode | None = None

    def _new_column(self, prefix: str) -> str:
        self._numbers += 1
        return f".{prefix} {self._numbers}"

    def _sort_names(self, names: Names) -> list[str]:
        """Return variables of the query in the order of their first occurrence."""
        return sorted(names & self._places.keys(), key=self._places.__getitem__)

    def node(self, operator: Operator, needed: Names) -> Node:
        """Return the node of an operator, with those of the `needed` columns that it may bind, and perhaps others."""
        match operator:
            case Conjunction(atoms):
                if (apart := separate_predicates(operator)) is not operator:
                    return self.node(apart, needed)
                return self._conjunction(operator, needed) if atoms else RowsNode((), [()])
            case Join(parts):
                return self._join(parts, needed)
            case Union(branches):
                columns = self._sort_names(needed & possible_variables(operator))
                return UnionNode(columns, *(self.node(branch, needed) for branch in branches))
            case LeftJoin():
                return self._left_join(operator, needed)
            case Filter():
                return self._filter(operator, needed)
            case SemiJoin(left, right, is_negated):
                return self.exists(self.node(left, needed | mentioned_variables(right)), right, is_negated=is_negated)
            case Minus(left, right):
                shared = self._sort_names(possible_variables(left) & possible_variables(right))
                if not shared:
                    return self.node(left, needed)
                other = ProjectNode(shared, self.node(right, frozenset(shared)))
                of_left = self.node(left, needed | frozenset(shared))
                return ExistsNode(of_left, other, is_negated=True, common=[(name, None) for name in shared])
            case Extend(inner, variable, formula):
                if variable not in needed:
                    return self.node(inner, needed)
                return self.extend_node(self.node(inner, (needed - {variable}) | variables_of(formula)), variable, formula)
            case Unwind(inner, variable, formula):
                return UnwindNode(
                    self.node(inner, (needed - {variable}) | variables_of(formula)), variable, formula, self._terms
                )
            case Values(variables, rows):
                return RowsNode(variables, [tuple(map(self._terms.intern, row)) for row in rows])
            case ReportTime():
                self.report_time = self.report_time or ReportTimeNode()
                return self.report_time
            case Group():
                return self._group(operator)
            case Project(inner, columns):
                used = [name for name in columns if name in needed]
                return _project(used, self.node(inner, frozenset(used)))
            case Distinct(inner):
                names = self._sort_names(possible_variables(inner))
                return DistinctNode(_project(names, self.node(inner, frozenset(names))))
            case Slice(inner, columns, order, offset, limit):
                input_columns = [*dict.fromkeys([*columns, *(name for name, _ in order)])]
                ordered = _project(input_columns, self.node(inner, frozenset(input_columns)))
                return SliceNode(ordered, columns, order, offset, limit, self._terms)

    # --- conjunctions and joins ------------------------------------------------------------------------------

    def _conjunction(self, conjunction: Conjunction, needed: Names) -> Node:
        meanings = [self._product([*map(self._leaf, parts)]) for parts in parts_of(conjunction, self._sort_names(needed))]
        if len(meanings) == 1:
            return meanings[0]
        return UnionNode(self._sort_names(needed & possible_variables(conjunction)), *meanings)

    def _product(self, parts: Sequence[Node]) -> Node:
        """Return the product of parts of a conjunction."""
        return ProductNode(*parts) if len(parts) > 2 else reduce(JoinNode, parts)

    def _leaf(self, part: ConjunctionPart) -> Node:
        leaf = LeafNode(part.leaf_columns, str(part))
        self.leaves.append((leaf, part))
        node: Node = leaf
        for name, terms in part.roots.items():  # the relation has pairs of other roots while other queries need them
            node = FilterNode(node, FunctionCall(OneOf(terms), (Variable(name),)), self._terms)
        return node

    def _join(self, parts: Sequence[Operator], needed: Names) -> Node:
        return self._join_nodes(self._nodes(parts, needed))

    def _nodes(self, parts: Sequence[Operator], needed: Names) -> list[Node]:
        """Return the nodes of parts that are joined, with the columns that other parts share."""
        nodes: list[Node] = []
        for place, part in enumerate(parts):
            other_parts = (*parts[:place], *parts[place + 1 :])
            other_variables = frozenset().union(*map(possible_variables, other_parts))
            nodes += self._parts_of_join(part, needed | other_variables)
        return nodes

    def _parts_of_join(self, part: Operator, needed: Names) -> Sequence[Node]:
        """Return the nodes of a part of a join: those of a conjunction may have only other parts of the join in common."""
        if isinstance(part, Conjunction) and part.atoms and separate_predicates(part) is part:
            meanings = parts_of(part, self._sort_names(needed))
            if len(meanings) == 1:
                return [*map(self._leaf, meanings[0])]
        return [self.node(part, needed)]

    def _join_nodes(self, nodes: Sequence[Node]) -> Node:
        """Return the join of nodes, one after the other. The next node is always the one that shares most columns."""
        join, *rest = nodes
        while rest:
            following = max(rest, key=lambda node: len({*join.columns} & {*node.columns}))
            rest.remove(following)
            join = JoinNode(join, following)
        return join

    # --- joins by value --------------------------------------------------------------------------------------

    def _filter(self, operator: Filter, needed: Names) -> Node:
        """Return the node of a filter. A comparison between parts that it joins becomes a join by value."""
        inner: Operator = operator
        conditions: list[Formula] = []
        while isinstance(inner, Filter) and not has_exists(inner.condition):
            conditions += conditions_of(inner.condition)
            inner = inner.inner
        if isinstance(inner, Conjunction):
            inner = separate_predicates(inner)
        comparisons = [one for one in map(_comparison, conditions) if one is not None]
        used_names = needed.union(*map(variables_of, conditions))
        nodes: Sequence[Node] = ()
        if comparisons and isinstance(inner, Join) and _are_linked([*map(possible_variables, inner.parts)], comparisons):
            nodes = self._nodes(inner.parts, used_names)
        elif comparisons and isinstance(inner, Conjunction) and inner.atoms:
            meanings = parts_of(inner, self._sort_names(used_names))
            if len(meanings) == 1 and _are_linked([frozenset(part.leaf_columns) for part in meanings[0]], comparisons):
                nodes = [*map(self._leaf, meanings[0])]
        if not nodes:
            return self.filter_node(self.node(operator.inner, needed | variables_of(operator.condition)), operator.condition)
        node, rest = self._join_by_values(nodes, conditions, needed)
        for condition in reversed(rest):
            node = self.filter_node(node, condition)
        return node

    def _join_by_values(
        self, nodes: Sequence[Node], conditions: Sequence[Formula], needed: Names
    ) -> tuple[Node, Sequence[Formula]]:
        """Return the join of nodes under conditions that must all hold, and the conditions that the join does not check."""
        join, *rest = nodes
        conditions = [*conditions]
        while rest:
            # The next node shares most columns with those before and, among such nodes, is joined by most comparisons.
            ranks = []
            for place, node in enumerate(rest):
                found = _links(conditions, join, node, [*rest[:place], *rest[place + 1 :]])
                ranks.append((len({*join.columns} & {*node.columns}), len(found)))
            following = rest.pop(ranks.index(max(ranks)))
            found = _links(conditions, join, following, rest)
            if max(ranks)[0] and not (isinstance(_source(join), GroupNode) or isinstance(_source(following), GroupNode)):
                found = []  # a compiled join on the shared columns finds few partners
            if not found or Agreement(join, following).has_optional_columns:
                join = JoinNode(join, following)
                continue
            condition, comparison = min(found, key=lambda one: one[1].sign != "=")
            conditions.remove(condition)
            above = needed.union(*map(variables_of, conditions), *(frozenset(one.columns) for one in rest))
            of_left, of_right = frozenset(join.columns), frozenset(following.columns)
            if above & (of_right - of_left) and not above & (of_left - of_right):
                join, following, comparison = following, join, comparison.mirror()
                of_left, of_right = of_right, of_left
            mode: ValueMode = "join" if above & (of_right - of_left) else "rows"
            join = ValueMatchNode(mode, join, following, comparison, self._terms)
        return join, conditions

    def _exists_by_value(self, left: Node, body: Operator, *, is_negated: bool) -> Node | None:
        """Return the rows with or without a partner if one comparison joins the body with them, otherwise None."""
        conditions: list[Formula] = []
        inner = body
        while isinstance(inner, Filter) and not has_exists(inner.condition):
            conditions += conditions_of(inner.condition)
            inner = inner.inner
        outer, own = frozenset(left.columns), certain_variables(inner)
        shared = possible_variables(inner) & outer
        across = [one for one in conditions if not variables_of(one) <= own]
        comparison = _comparison(across[0]) if len(across) == 1 else None
        if comparison is None or not is_join(inner, outer) or not shared <= own & left.sure:
            return None
        for condition in conditions:
            if condition not in across:
                inner = Filter(inner, condition)
        for one in (comparison, comparison.mirror()):
            compared = variables_of(one.right)
            if variables_of(one.left) <= outer and compared <= own:
                right = ProjectNode(self._sort_names(shared | compared), self.node(inner, shared | compared))
                return ValueMatchNode("not exists" if is_negated else "exists", left, right, one, self._terms)
        return None

    def _optional_by_value(self, left: Node, right: Node, condition: Formula) -> Node | None:
        """Return OPTIONAL if one comparison joins its sides, otherwise None."""
        conditions = conditions_of(condition)
        of_right = [one for one in conditions if variables_of(one) <= right.sure and not has_exists(one)]
        across = [one for one in conditions if one not in of_right]
        comparison = _link(across[0], left, right, ()) if len(across) == 1 else None
        if comparison is None or Agreement(left, right).has_optional_columns:
            return None
        for one in of_right:
            right = self.filter_node(right, one)
        return ValueMatchNode("left join", left, right, comparison, self._terms)

    def _left_join(self, operator: LeftJoin, needed: Names) -> Node:
        used_names = needed if operator.condition is None else needed | variables_of(operator.condition)
        left = self.node(operator.left, used_names | possible_variables(operator.right))
        right = self.node(operator.right, used_names | possible_variables(operator.left))
        return self._optional(left, right, operator.condition, same=())

    def _optional(self, left: Node, right: Node, condition: Formula | None, *, same: Sequence[str]) -> Node:
        by_value = None if condition is None or same else self._optional_by_value(left, right, condition)
        if by_value is not None:
            return by_value
        conditions = [] if condition is None else conditions_of(condition)
        if not has_exists(condition) and not any(isinstance(one, EdgeCondition) for one in conditions):
            return LeftJoinNode(left, right, condition, self._terms, same=same)
        # By definition: the join with its filter, and the rows of the left that occur in none of its rows.
        copies = [(self._new_column("left"), name) for name in left.columns]
        joined: Node = JoinNode(CopyNode(copies, left), right, same=same)
        for one in conditions:
            joined = self.filter_node(joined, one)
        partners = ProjectNode(left.columns, joined, sources=[copy for copy, _ in copies])
        alone = ExistsNode(left, partners, is_negated=True, same=left.columns)
        columns = [name for name in joined.columns if name not in {copy for copy, _ in copies}]
        return UnionNode(columns, joined, alone)

    # --- formulas --------------------------------------------------------------------------------------------

    def filter_node(self, inner: Node, condition: Formula) -> Node:
        """Return a node with the rows for which a condition holds."""
        if isinstance(condition, EdgeCondition):
            return EdgeConditionNode(inner, condition, self._terms)
        marked, plain = self._mark_exists(inner, condition)
        node: Node = FilterNode(marked, plain, self._terms)
        return node if marked is inner else ProjectNode(inner.columns, node)

    def extend_node(self, inner: Node, variable: str, formula: Formula) -> Node:
        """Return a node with the rows of `inner` and one more column."""
        if isinstance(formula, EdgeValue):
            return EdgeValueNode(inner, variable, formula, self._terms)
        marked, plain = self._mark_exists(inner, formula)
        node: Node = ExtendNode(marked, variable, plain, self._terms)
        return node if marked is inner else ProjectNode((*inner.columns, variable), node)

    def _mark_exists(self, inner: Node, formula: Formula) -> tuple[Node, Formula]:
        """Return a node with a column for each EXISTS in a formula, and the formula over these columns."""
        names = {}
        for one in exists_in(formula):
            name = names[one] = self._new_column("exists")
            inner = self.exists(inner, one.body, is_negated=False, mark=name)
            if one.is_negated:
                formula = _replace_one_exists(formula, one, FunctionCall("!", (Variable(name),)))
        return inner, replace_exists(formula, names)

    def exists(self, left: Node, body: Operator, *, is_negated: bool, mark: str | None = None) -> Node:
        """Return the rows for which a body has a solution or, if `is_negated`, has none. With `mark`, return all rows, with
        a column that says whether it has."""
        by_value = self._exists_by_value(left, body, is_negated=is_negated) if mark is None else None
        if by_value is not None:
            return by_value
        marks = None if mark is None else (mark, self._terms.intern(FALSE), self._terms.intern(TRUE))
        used_names = mentioned_variables(body)
        names = [name for name in left.columns if name in used_names]
        if is_join(body, frozenset(left.columns)):
            shared = [name for name in names if name in possible_variables(body)]
            right: Node = ProjectNode(shared, self.node(body, frozenset(shared)))
            return ExistsNode(left, right, is_negated=is_negated, mark=marks)
        outer_rows = CopyNode([(copy_of(name), name) for name in names], DistinctNode(ProjectNode(names, left)))
        solutions = self._apply_to(body, outer_rows, frozenset(names))
        right = ProjectNode(names, solutions, sources=[copy_of(name) for name in names])
        return ExistsNode(left, right, is_negated=is_negated, mark=marks, same=names)

    # --- bodies evaluated for outer rows ---------------------------------------------------------------------

    def _apply_to(self, operator: Operator, outer_rows: Node, outer: Names) -> Node:
        """Return an operator evaluated for all `outer_rows`, with their columns and its own."""
        copies = [copy_of(name) for name in outer]

        def apply(inner: Operator) -> Node:
            return self._apply_to(inner, outer_rows, outer)

        def apply_or_join(inner: Operator) -> Node:
            return self.node(inner, possible_variables(inner)) if is_join(inner, outer) else apply(inner)

        if is_join(operator, outer):
            return JoinNode(outer_rows, self.node(operator, possible_variables(operator)))
        match operator:
            case Join(parts):
                join = outer_rows
                for part in parts:
                    join = JoinNode(join, apply_or_join(part), same=copies)
                return join
            case Union(branches):
                nodes = [apply(branch) for branch in branches]
                columns = dict.fromkeys(name for branch in nodes for name in branch.columns)
                return UnionNode([*columns], *nodes)
            case Filter(inner, condition):
                return self.filter_node(apply(inner), condition)
            case SemiJoin(left, right, is_negated):
                return self.exists(apply(left), right, is_negated=is_negated)
            case LeftJoin(left, right, condition):
                return self._optional(apply(left), apply_or_join(right), condition, same=copies)
            case Minus(left, right):
                of_left, of_right = apply(left), apply_or_join(right)
                shared = self._sort_names(possible_variables(left) & possible_variables(right))
                partners = [name for name in of_right.columns if name in shared or name in copies]
                common = [(name, copy_of(name) if name in outer else None) for name in shared]
                other = ProjectNode(partners, of_right)
                return ExistsNode(of_left, other, is_negated=True, common=common, same=copies)
            case Extend(inner, variable, formula, is_joined):
                if variable not in outer:
                    return self.extend_node(apply(inner), variable, formula)
                node, name = apply(inner), self._new_column("bound")
                if is_joined:
                    unbound = FunctionCall("!", (FunctionCall("BOUND", (Variable(variable),)),))
                    equal = FunctionCall("SAMETERM", (Variable(variable), formula))
                    node = self.filter_node(node, FunctionCall("||", (unbound, equal)))
                # A value of the outer variable replaces the variable.
                either = self.extend_node(node, name, FunctionCall("COALESCE", (Variable(variable), formula)))
                sources = [name if column == variable else column for column in node.columns]
                return ProjectNode(node.columns, either, sources=sources)
            case Unwind(inner, variable, formula):
                return UnwindNode(apply(inner), variable, formula, self._terms)
            case Project(inner, columns):
                node = apply(inner)
                names = [name for name in node.columns if name in columns or name in outer or name in copies]
                return ProjectNode(names, node)
            case Distinct(inner):
                return DistinctNode(apply(inner))
            case Conjunction() | Values() | ReportTime() | Group() | Slice():
                raise AssertionError(operator)  # `is_join` is true of these

    # --- groups ----------------------------------------------------------------------------------------------

    def _group(self, group: Group) -> Node:
        needed = frozenset(group.keys)
        for _, one in group.aggregates:
            if one.argument is not None:
                needed |= variables_of(one.argument)
            elif one.is_distinct:
                needed |= possible_variables(group.inner)
        inner = self.node(group.inner, needed)
        aggregates = []
        for name, one in group.aggregates:
            if one.argument is not None and has_exists(one.argument):
                inner, argument = self._mark_exists(inner, one.argument)
                one = replace(one, argument=argument)
            aggregates.append((name, one))
        return GroupNode(inner, group.keys, aggregates, self._terms)


def _project(columns: Sequence[str], inner: Node) -> Node:
    """Return a projection. Nodes below that only rename or select its columns are skipped."""
    sources = [*columns]
    while isinstance(inner, ExtendNode | ProjectNode):
        columns_of_inner, source_of = frozenset(inner.columns), inner.sources()
        if any(name in columns_of_inner and name not in source_of for name in sources):
            break
        if isinstance(inner, ProjectNode) and not columns_of_inner.issuperset(sources):
            break  # a column with this name further down is another column
        sources = [source_of.get(name, name) for name in sources]
        (inner,) = inner.inputs
    return ProjectNode(columns, inner, sources=sources)


def _comparison(condition: Formula) -> FormulaComparison | None:
    """Return a condition as a comparison of two formulas with variables, or None if it is none."""
    if not isinstance(condition, FunctionCall) or condition.function not in MIRRORED:
        return None
    left, right = condition.arguments
    of_left, of_right = variables_of(left), variables_of(right)
    if has_exists(condition) or not of_left or not of_right or of_left & of_right:
        return None
    return FormulaComparison(condition.function, left, right)


def _are_linked(sides: Sequence[Names], comparisons: Sequence[FormulaComparison]) -> bool:
    """Return whether a comparison joins two of several sides."""
    return any(
        variables_of(one.left) <= side and variables_of(one.right) <= other
        for one in comparisons
        for side in sides
        for other in sides
        if side is not other
    )


def _link(condition: Formula, left: Node, right: Node, other_nodes: Sequence[Node]) -> FormulaComparison | None:
    """Return a condition as a comparison of values of `left` with values of `right`, None if it is none.

    The values must be those that the condition sees above the join of all nodes: a variable that some row of a side leaves
    unbound may not occur elsewhere.
    """
    comparison = _comparison(condition)
    if comparison is None:
        return None

    def is_of(names: Names, side: Node, other: Node) -> bool:
        elsewhere = frozenset(other.columns).union(*(node.columns for node in other_nodes))
        return names <= frozenset(side.columns) and names & elsewhere <= side.sure

    for one in (comparison, comparison.mirror()):
        if is_of(variables_of(one.left), left, right) and is_of(variables_of(one.right), right, left):
            return one
    return None


def _links(
    conditions: Sequence[Formula], left: Node, right: Node, other_nodes: Sequence[Node]
) -> list[tuple[Formula, FormulaComparison]]:
    """Return the conditions that are comparisons of values of `left` with values of `right`, as in `_link`."""
    found = ((one, _link(one, left, right, other_nodes)) for one in conditions)
    return [(one, link) for one, link in found if link is not None]


def _source(node: Node) -> Node:
    """Return the node whose values a node passes on, below projections, extensions and filters."""
    while isinstance(node, (ProjectNode, ExtendNode, FilterNode, DistinctNode)):
        (node,) = node.inputs
    return node


def _replace_one_exists(formula: Formula, exists: Exists, other: Formula) -> Formula:
    """Return a formula with another in place of an EXISTS."""
    if formula == exists:
        return other
    if isinstance(formula, FunctionCall):
        return FunctionCall(formula.function, tuple(_replace_one_exists(one, exists, other) for one in formula.arguments))
    return formula
