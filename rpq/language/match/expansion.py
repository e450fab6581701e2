"""Paths of fixed lengths: quantified paths that count become the union of their lengths, and values of a path become values
of its nodes and edges.

A quantified path that counts has a solution for each trail. It has few edges, so it stands for several patterns, one of each
length, whose edges are bound like all others (`variants_of`). There a variable of the path, `p` or `e`, is a list of nodes
and edges, which functions over lists take apart before anything is evaluated (`expand`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import product
from typing import Any

from rpq.language.match.condition_trees import conjuncts
from rpq.language.match.path_expressions import PathExpressions, has_trails
from rpq.language.match.scope import NameBinding
from rpq.language.match.tree import (
    Attribute,
    Case,
    Comprehension,
    CountOf,
    EdgePattern,
    GraphPattern,
    Index,
    InList,
    ListOf,
    ListSlice,
    MatchExists,
    NodePattern,
    Null,
    PathPattern,
    QuantifiedGroup,
    QuantifiedList,
    Reduce,
    change,
    walk,
)
from rpq.language.where import Arithmetic, Call, In, IsNull, Logical, Name, Not, WhereConstant

MAX_COUNTED = 6
"""The greatest number of edges of a quantified path that counts."""

MAX_VARIANTS = 64
"""The greatest number of patterns that the paths of a text stand for."""

# --- values --------------------------------------------------------------------------------------------------------

_LARGEST_RANGE = 64


def substitute(tree: Any, variable: str, value: Any) -> Any:
    """Return a tree with a value in place of a variable, and with its parts in place of those of the variable.

    >>> substitute(Name("x.risk", column=1), "x", Name("a", column=1)).name
    'a.risk'
    """

    def of(node: Any) -> Any:
        if isinstance(node, Name):
            owner, dot, rest = node.name.partition(".")
            if owner != variable:
                return node
            if not dot:
                return value
            return replace(value, name=f"{value.name}.{rest}") if isinstance(value, Name) else _attribute(value, rest, node)
        if isinstance(node, (NodePattern, EdgePattern)) and node.variable == variable and isinstance(value, Name):
            return replace(node, variable=value.name)
        return node

    if isinstance(tree, tuple):
        return tuple(substitute(one, variable, value) for one in tree)
    if isinstance(tree, (Comprehension, QuantifiedList)) and tree.variable == variable:
        return replace(tree, source=substitute(tree.source, variable, value))
    if isinstance(tree, Reduce) and variable in (tree.variable, tree.accumulator):
        source, initial = (substitute(one, variable, value) for one in (tree.source, tree.initial))
        return replace(tree, source=source, initial=initial)
    return change(tree, of)


def _attribute(value: Any, names: str, node: Name) -> Any:
    return Attribute(value, names, column=node.column)


def joined(word: str, parts: Sequence[Any], column: int) -> Any:
    """Return the conjunction or disjunction of conditions; of none, true or false."""
    if not parts:
        return WhereConstant(word == "and", column=column)
    return parts[0] if len(parts) == 1 else Logical(word, tuple(parts), column=column)


def expand(tree: Any, get: Callable[[str], NameBinding | None], hidden: frozenset[str] = frozenset()) -> Any:
    """Return a value in which lists of nodes and edges are taken apart where functions read their elements.

    `get` returns what a name stands for; `hidden` are variables of lists around the value.
    """
    if isinstance(tree, tuple):
        return tuple(expand(part, get, hidden) for part in tree)
    if not is_dataclass(tree):
        return tree
    if isinstance(tree, Name):
        binding = None if tree.name in hidden else get(tree.name)
        return tree if binding is None or binding.kind != "list" else _list_of(binding.elements, tree.column)
    if isinstance(tree, Call) and len(tree.arguments) == 1 and isinstance(tree.arguments[0], Name):
        binding = get(tree.arguments[0].name)
        if binding is not None and binding.kind == "shortest" and tree.function in ("length", "path_length"):
            return Name(binding.elements[0], column=tree.column)
        if binding is not None and binding.kind == "path":
            nodes, edges = binding.elements[::2], binding.elements[1::2]
            match tree.function:
                case "nodes":
                    return _unless_null(_list_of(nodes, tree.column), binding, get)
                case "relationships" | "edges":
                    return _unless_null(_list_of(edges, tree.column), binding, get)
                case "length" | "path_length":
                    return _unless_null(WhereConstant(len(edges), column=tree.column), binding, get)
    if isinstance(tree, (Comprehension, QuantifiedList, Reduce)):
        return _expand_over_list(tree, get, hidden)
    if isinstance(tree, (MatchExists, CountOf)):
        return tree
    parts = {name: part for name, part in vars(tree).items() if isinstance(part, tuple) or is_dataclass(part)}
    found = replace(tree, **{name: expand(part, get, hidden) for name, part in parts.items()})
    return _fold(found)


def _unless_null(value: Any, path: NameBinding, get: Callable[[str], NameBinding | None]) -> Any:
    """Return a value of a path, which is null where OPTIONAL MATCH did not find the path."""
    for name in path.elements:
        if path.may_be_null and (element := get(name)) is not None and element.may_be_null:
            is_null = IsNull(Name(name, column=value.column), column=value.column)
            return Case(None, (is_null,), (Null(column=value.column),), value, column=value.column)
    return value


def _list_of(names: Sequence[str], column: int) -> ListOf:
    return ListOf(tuple(Name(name, column=column) for name in names), column=column)


def _expand_over_list(
    tree: Comprehension | QuantifiedList | Reduce, get: Callable[[str], NameBinding | None], hidden: frozenset[str]
) -> Any:
    source = expand(tree.source, get, hidden)
    names = {tree.variable, tree.accumulator} if isinstance(tree, Reduce) else {tree.variable}
    bodies = [tree.value] if isinstance(tree, Reduce) else [tree.where]
    bodies += [tree.value] if isinstance(tree, Comprehension) else []
    if not isinstance(source, ListOf) or not any(_takes_apart(body, tree.variable) for body in bodies):
        inner = hidden | names
        changed = {
            name: expand(getattr(tree, name), get, inner)
            for name in ("where", "value")
            if getattr(tree, name, None) is not None
        }
        if isinstance(tree, Reduce):
            changed["initial"] = expand(tree.initial, get, hidden)
        return replace(tree, source=source, **changed)

    def of(body: Any, element: Any) -> Any:
        return expand(substitute(body, tree.variable, element), get, hidden)

    column = tree.column
    match tree:
        case QuantifiedList(quantifier):
            holds = [of(tree.where, element) for element in source.values]
            if quantifier in ("all", "none"):
                return joined("and", holds if quantifier == "all" else [Not(one, column=column) for one in holds], column)
            if quantifier == "any":
                return joined("or", holds, column)
            alone = [
                joined("and", [one, *(Not(other, column=column) for other in holds if other is not one)], column)
                for one in holds
            ]
            return joined("or", alone, column)
        case Comprehension(_, _, where, value):
            values = [element if value is None else of(value, element) for element in source.values]
            if where is None:
                return ListOf(tuple(values), column=column)
            parts = [
                _chosen(of(where, element), ListOf((one,), column=column), column)
                for element, one in zip(source.values, values, strict=True)
            ]
            total: Any = ListOf((), column=column)
            for part in parts:
                total = Arithmetic("+", total, part, column=column)
            return total
        case Reduce():
            total = expand(tree.initial, get, hidden)
            for element in source.values:
                total = expand(
                    substitute(substitute(tree.value, tree.variable, element), tree.accumulator, total), get, hidden
                )
            return total


def _chosen(condition: Any, value: Any, column: int) -> Any:
    return Case(None, (condition,), (value,), ListOf((), column=column), column=column)


def _takes_apart(body: Any, variable: str) -> bool:
    """Return whether a value reads parts of a variable, or an element of another list at its place."""
    for node in walk(body):
        if isinstance(node, Name) and node.name.startswith(f"{variable}."):
            return True
        if isinstance(node, MatchExists) and any(
            isinstance(one, NodePattern) and one.variable == variable for one in walk(node)
        ):
            return True
        if isinstance(node, Call) and node.function in _OF_ELEMENTS and Name(variable, column=0) in _bare(node.arguments):
            return True
        if isinstance(node, Index) and any(isinstance(one, Name) and one.name == variable for one in walk(node.index)):
            return True
    return False


_OF_ELEMENTS = frozenset({"type", "startnode", "endnode", "id", "elementid"})


def _bare(arguments: Sequence[Any]) -> list[Any]:
    return [replace(one, column=0) if isinstance(one, Name) else one for one in arguments]


def _constant(tree: Any) -> int | None:
    is_integer = isinstance(tree, WhereConstant) and isinstance(tree.value, int) and not isinstance(tree.value, bool)
    return tree.value if is_integer else None


def _fold(tree: Any) -> Any:
    """Return a value, with the element or the part of a written list in place of the function that takes it."""
    column = getattr(tree, "column", 0)
    match tree:
        case Attribute(Name(name) as inner, attribute):
            return replace(inner, name=f"{name}.{attribute}")
        case Index(ListOf(values), index) if (place := _constant(index)) is not None:
            return values[place] if -len(values) <= place < len(values) else Null(column=column)
        case ListSlice(ListOf(values), low, high):
            first, end = (None if one is None else _constant(one) for one in (low, high))
            if (low is None or first is not None) and (high is None or end is not None):
                return ListOf(values[first:end], column=column)
        case Call("head" | "last" as function, (ListOf(values),)) if values:
            return values[0 if function == "head" else -1]
        case Call("tail", (ListOf(values),)):
            return ListOf(values[1:], column=column)
        case Call("reverse", (ListOf(values),)):
            return ListOf(values[::-1], column=column)
        case Call("size", (ListOf(values),)):
            return WhereConstant(len(values), column=column)
        case Call("range", arguments) if None not in (found := [*map(_constant, arguments)]):
            first, last, step = ([one for one in found if one is not None] + [1])[:3]
            if step and len(numbers := range(first, last + (1 if step > 0 else -1), step)) <= _LARGEST_RANGE:
                return ListOf(tuple(WhereConstant(one, column=column) for one in numbers), column=column)
        case Arithmetic("+" | "-" as sign, left, right):
            one, other = _constant(left), _constant(right)
            if one is not None and other is not None:
                return WhereConstant(one + other if sign == "+" else one - other, column=column)
        case InList(inner, ListOf(values)) if values:
            return In(inner, values, column=column)
    return tree


# --- patterns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A pattern without quantified paths that count, and what the variables of those stand for in it."""

    pattern: GraphPattern
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The variables of edges and groups that were repeated, with the names of their repetitions."""
    paths: tuple[tuple[str, NameBinding], ...] = ()
    """The names of paths of fixed length."""
    different: tuple[tuple[str, str], ...] = ()
    """Nodes that must not be the same, since another variant has the solutions with one node for both."""


@dataclass(frozen=True)
class Expansion:
    """The division of patterns into variants. `new_name` returns names for nodes and edges that have none."""

    expressions: PathExpressions
    new_name: Callable[[], str]
    read_names: Collection[str]
    """The names of paths and of quantified edges that values read."""

    def variants_of(self, pattern: GraphPattern, *, is_set: bool, differs: bool) -> list[Variant]:
        """Return the patterns that a pattern stands for, whose solutions are added up.

        With `is_set` the number of times that a binding occurs has no effect on the rows. Where edges of a solution must be
        different (`differs`), a quantified path has trails. Raises `MatchError`.
        """
        paths, conditions = self._with_conditions_of_paths(pattern)
        pattern = replace(pattern, paths=tuple(paths), where=joined("and", conditions, pattern.at) if conditions else None)
        choices = [[*self._choices(path, pattern, is_set=is_set, differs=differs)] for path in pattern.paths]
        found = []
        for chosen in product(*choices):
            parts = [part for one in chosen for part in one.pattern.paths]
            found.append(
                Variant(
                    replace(pattern, paths=tuple(parts)),
                    tuple(entry for one in chosen for entry in one.lists),
                    tuple(entry for one in chosen for entry in one.paths),
                    tuple(pair for one in chosen for pair in one.different),
                )
            )
        return found

    def _choices(self, path: PathPattern, pattern: GraphPattern, *, is_set: bool, differs: bool) -> Iterator[Variant]:
        nodes, connectors = self.expressions.alternating(path)
        for connector in connectors:
            if connector.quantifier is not None:
                self.expressions.check_quantifier(connector.quantifier)
        lengths = [[*self._lengths(one, path, pattern, is_set=is_set, differs=differs)] for one in connectors]
        if path.is_any and len(connectors) > 1:
            lengths = [[None] for _ in connectors]  # one expression has the empty paths of its parts
        for chosen in product(*lengths):
            yield self._variant(path, nodes, connectors, chosen, pattern, is_set=is_set)

    def _lengths(
        self,
        connector: EdgePattern | QuantifiedGroup,
        path: PathPattern,
        pattern: GraphPattern,
        *,
        is_set: bool,
        differs: bool,
    ) -> list[int | None]:
        """Return the numbers of repetitions that have patterns of their own; None for all that a path expression has."""
        quantifier = connector.quantifier
        if quantifier is None:
            return [None]
        is_short = quantifier.most is not None and quantifier.most * edges_of(connector) <= MAX_COUNTED
        names = {path.variable, *names_in(connector)} - {None}
        is_read = not names.isdisjoint(self.read_names)
        is_counted = not is_set or is_read or not self._has_walks(connector, pattern)
        if not path.is_any and is_short and differs and is_counted:
            return [*range(quantifier.least, quantifier.most + 1)]  # type: ignore[operator]
        return [None, 0] if quantifier.least == 0 else [None]

    def _has_walks(self, connector: EdgePattern | QuantifiedGroup, pattern: GraphPattern) -> bool:
        """Return whether the pairs of a path are those of its walks, although its edges differ from others."""
        if not has_trails(connector) or not isinstance(connector, EdgePattern):
            return False
        mine = self.expressions.labels(connector)
        others = [one for one in walk(pattern.paths) if isinstance(one, EdgePattern) and one is not connector]
        return not any(mine.overlaps(self.expressions.labels(one)) for one in others)

    def _variant(
        self,
        path: PathPattern,
        nodes: Sequence[NodePattern],
        connectors: Sequence[EdgePattern | QuantifiedGroup],
        chosen: Sequence[int | None],
        pattern: GraphPattern,
        *,
        is_set: bool,
    ) -> Variant:
        """Return a path with numbers of repetitions in place of quantifiers."""
        elements: list[Any] = [nodes[0]]
        lists: list[tuple[str, tuple[str, ...]]] = []
        different: list[tuple[str, str]] = []
        for connector, node, length in zip(connectors, nodes[1:], chosen, strict=True):
            if length is None:
                quantifier = connector.quantifier
                if quantifier is not None and quantifier.least == 0 and (len(connectors) == 1 or not path.is_any):
                    connector = replace(connector, quantifier=quantifier._replace(least=1))
                    if not is_set:
                        first, last = self._named(elements, -1), self._with_name(node)
                        different.append((first, str(last.variable)))
                        node = last
                elements += [connector, node]
                continue
            repeated = [self._repetition(connector, number) for number in range(length)]
            lists += [(name, tuple(names[name] for _, names in repeated)) for name in names_in(connector)]
            for number, (part, _) in enumerate(repeated):
                if number and isinstance(connector, EdgePattern):
                    elements.append(NodePattern(None, None, (), None, connector.at))
                elements += part
            elements.append(node)
        return self._finished(
            path,
            elements,
            pattern,
            lists,
            different,
            is_fixed=None
            not in [
                length for connector, length in zip(connectors, chosen, strict=True) if connector.quantifier is not None
            ],
        )

    def _finished(
        self,
        path: PathPattern,
        elements: Sequence[Any],
        pattern: GraphPattern,
        lists: Sequence[tuple[str, tuple[str, ...]]],
        different: Sequence[tuple[str, str]],
        *,
        is_fixed: bool,
    ) -> Variant:
        merged = merged_nodes(elements)
        paths: tuple[tuple[str, NameBinding], ...] = ()
        if path.variable is not None and is_fixed and not path.is_any:
            merged = [self._with_name(one) for one in merged]
            names = tuple(str(one.variable) for one in merged)
            directions = tuple(one.direction for one in merged[1::2])
            paths = ((path.variable, NameBinding("path", path.variable, elements=names, directions=directions)),)
        changed = replace(path, elements=tuple(merged), variable=None if paths else path.variable)
        return Variant(replace(pattern, paths=(changed,)), tuple(lists), paths, tuple(different))

    def _with_name(self, element: Any) -> Any:
        return element if element.variable is not None else replace(element, variable=self.new_name())

    def _named(self, elements: list[Any], place: int) -> str:
        elements[place] = self._with_name(elements[place])
        return str(elements[place].variable)

    def _repetition(self, connector: EdgePattern | QuantifiedGroup, number: int) -> tuple[list[Any], dict[str, str]]:
        """Return the elements of one repetition, and their names by those of the variables."""
        names = {name: self.new_name() for name in names_in(connector)}

        def renamed(tree: Any) -> Any:
            for name, other in names.items():
                tree = substitute(tree, name, Name(other, column=1))
            return tree

        if isinstance(connector, EdgePattern):
            return [renamed(replace(connector, quantifier=None))], names
        nodes, edges = self.expressions.alternating(PathPattern(False, None, connector.elements, connector.at))
        inner: list[Any] = [nodes[0]]
        for edge, node in zip(edges, nodes[1:], strict=True):
            inner += [edge, node]
        inner = [renamed(one) for one in inner]
        if connector.where is not None:
            inner[0] = replace(
                inner[0],
                where=joined("and", [*conjuncts(inner[0].where), *conjuncts(renamed(connector.where))], connector.at),
            )
        return inner, names

    # --- conditions of all elements of a path --------------------------------------------------------------------

    def _with_conditions_of_paths(self, pattern: GraphPattern) -> tuple[list[PathPattern], list[Any]]:
        """Return the paths with the conditions in WHERE that hold for all their edges or nodes, and the other conditions.

        They are moved into paths that stay quantified: those whose length is not fixed.
        """
        paths, rest = [*pattern.paths], []
        for condition in conjuncts(pattern.where):
            for place, path in enumerate(paths):
                changed = self._with_condition(path, condition)
                if changed is not None:
                    paths[place] = changed
                    break
            else:
                rest.append(condition)
        return paths, rest

    def _with_condition(self, path: PathPattern, condition: Any) -> PathPattern | None:
        """Return a path whose edges or nodes all satisfy a condition, or None if the condition is none on all of them."""
        if path.is_any and not path.is_function:
            return None  # behind ANY they would filter the path that was chosen
        is_negated = False
        while isinstance(condition, Not):
            is_negated, condition = not is_negated, condition.inner
        if not isinstance(condition, QuantifiedList):
            return None
        where = condition.where
        if (condition.quantifier, is_negated) in (("none", False), ("any", True)):
            where = Not(where, column=condition.column)
        elif condition.quantifier != "all" or is_negated:
            return None
        edges = [one for one in path.elements if not isinstance(one, NodePattern)]
        edge = edges[0] if len(edges) == 1 else None
        if not isinstance(edge, EdgePattern) or edge.quantifier is None:
            return None
        most = edge.quantifier.most
        if not path.is_any and most is not None and most <= MAX_COUNTED:
            return None  # its lengths are patterns of their own
        source = condition.source
        of_edges = edge.variable is not None and isinstance(source, Name) and source.name == edge.variable
        if isinstance(source, Call) and len(source.arguments) == 1 and isinstance(source.arguments[0], Name):
            is_mine = source.arguments[0].name == path.variable and path.variable is not None
            of_edges = of_edges or (is_mine and source.function in ("relationships", "edges"))
            of_nodes = is_mine and source.function == "nodes"
        else:
            of_nodes = False
        if of_edges:
            name = edge.variable or self.new_name()
            own = substitute(where, condition.variable, Name(name, column=condition.column))
            changed = replace(edge, variable=name, where=joined("and", [*conjuncts(edge.where), own], condition.column))
            return replace(path, elements=tuple(changed if one is edge else one for one in path.elements))
        if of_nodes:
            return self._with_test_of_nodes(path, edge, condition.variable, where)
        return None

    def _with_test_of_nodes(self, path: PathPattern, edge: EdgePattern, variable: str, where: Any) -> PathPattern:
        inner, last = self.new_name(), self.new_name()
        tests = [substitute(where, variable, Name(name, column=where.column)) for name in (inner, last)]
        ends = [NodePattern(name, None, (), test, edge.at) for name, test in zip((inner, last), tests, strict=True)]
        assert edge.quantifier is not None
        group = QuantifiedGroup((ends[0], replace(edge, quantifier=None), ends[1]), None, edge.quantifier, edge.at)
        elements = [group if one is edge else one for one in path.elements]
        if edge.quantifier.least == 0 and isinstance(first := elements[0], NodePattern):  # no repetition tests this node
            name = first.variable or self.new_name()
            own = substitute(where, variable, Name(name, column=where.column))
            elements[0] = replace(first, variable=name, where=joined("and", [*conjuncts(first.where), own], where.column))
        return replace(path, elements=tuple(elements))


def edges_of(connector: EdgePattern | QuantifiedGroup) -> int:
    """Return the number of edges of one repetition."""
    return sum(isinstance(one, EdgePattern) for one in walk(connector))


def names_in(connector: EdgePattern | QuantifiedGroup) -> list[str]:
    """Return the variables of the nodes and edges of one repetition."""
    found = (one for one in walk(connector) if isinstance(one, (NodePattern, EdgePattern)))
    return [*dict.fromkeys(one.variable for one in found if one.variable is not None)]


def merged_nodes(elements: Sequence[Any]) -> list[Any]:
    """Return the elements of a path in which nodes side by side, which stand for one vertex, are one."""
    found: list[Any] = []
    for one in elements:
        if found and isinstance(one, NodePattern) and isinstance(found[-1], NodePattern):
            before = found[-1]
            first, other = (before, one) if before.variable is not None or one.variable is None else (one, before)
            found[-1] = replace(first, same=(*first.same, replace(other, same=()), *other.same))
        else:
            found.append(one)
    return found
