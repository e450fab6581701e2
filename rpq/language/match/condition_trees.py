"""Trees of conditions in MATCH: their conjuncts, the names in them, and copies with other names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rpq.language.match.syntax import (
    AggregateCall,
    Element,
    GraphPattern,
    MatchExists,
    MatchText,
    NodePattern,
    PathPattern,
    QuantifiedGroup,
)
from rpq.language.where import Comparison, In, IsNull, Logical, Name, Node, Not


def conjuncts(condition: Any) -> list[Any]:
    """Return the parts of a condition that must all hold; an absent condition has none."""
    if condition is None:
        return []
    if isinstance(condition, Logical) and condition.word == "and":
        return [part for one in condition.parts for part in conjuncts(one)]
    return [condition]


def disjuncts(condition: Any) -> list[Any]:
    """Return the parts of a condition one of which must hold."""
    if isinstance(condition, Logical) and condition.word == "or":
        return [part for one in condition.parts for part in disjuncts(one)]
    return [condition]


def condition_nodes(condition: Any) -> Iterator[Any]:
    """Yield a condition and all nodes below it, but none inside an EXISTS."""
    if isinstance(condition, MatchExists):
        yield condition
    elif isinstance(condition, AggregateCall):
        yield condition
        if condition.argument is not None:
            yield from condition_nodes(condition.argument)
    elif isinstance(condition, (Logical, Not, IsNull, In, Comparison)) or hasattr(condition, "column"):
        yield condition
        for part in _children(condition):
            yield from condition_nodes(part)


def _children(condition: Any) -> Sequence[Any]:
    found: list[Any] = []
    for name in ("parts", "inner", "values", "low", "high", "left", "right", "arguments"):
        part = getattr(condition, name, None)
        if isinstance(part, tuple):
            found += part
        elif part is not None:
            found.append(part)
    return found


def _with_names(condition: Any, change: Any) -> Any:
    """Return a condition in which each name and each EXISTS is replaced."""
    if isinstance(condition, (Name, MatchExists)):
        return change(condition)
    changes: dict[str, Any] = {}
    for name in ("parts", "inner", "values", "low", "high", "left", "right", "arguments"):
        part = getattr(condition, name, None)
        if isinstance(part, tuple):
            changes[name] = tuple(_with_names(one, change) for one in part)
        elif part is not None:
            changes[name] = _with_names(part, change)
    return replace(condition, **changes) if changes else condition


def rename(condition: Any, names: Mapping[Any, Node | str]) -> Node:
    """Return a condition with other names, or with other conditions in place of names and of EXISTS."""

    def changed(node: Any) -> Any:
        found = names.get(node, node)
        return replace(node, name=found) if isinstance(found, str) else found

    renamed: Node = _with_names(condition, changed)
    return renamed


def own_condition(condition: Any, variable: str) -> Node | None:
    """Return a condition on one edge alone with the names of its properties; None if it reads anything else."""
    nodes = [*condition_nodes(condition)]
    names = [node for node in nodes if isinstance(node, Name)]
    if any(isinstance(node, (MatchExists, AggregateCall)) for node in nodes) or not names:
        return None
    if any(not node.name.startswith(f"{variable}.") for node in names):
        return None
    return rename(condition, {node: node.name.removeprefix(f"{variable}.") for node in names})


def variables_of_paths(paths: Sequence[PathPattern]) -> Iterator[tuple[str, int]]:
    """Yield the variables of the nodes and edges of paths, and their places."""

    def of_elements(elements: Sequence[Element]) -> Iterator[tuple[str, int]]:
        for element in elements:
            if isinstance(element, QuantifiedGroup):
                yield from of_elements(element.elements)
            elif element.variable is not None:
                yield element.variable, element.at

    for path in paths:
        yield from of_elements(path.elements)


def variables_of_pattern(paths: Sequence[PathPattern], where: Any = None) -> Iterator[tuple[str, int]]:
    """Yield the variables of paths and those in their conditions, including EXISTS, with their places."""

    def of_condition(condition: Any) -> Iterator[tuple[str, int]]:
        for node in condition_nodes(condition):
            if isinstance(node, Name):
                yield node.name.partition(".")[0], node.column - 1
            elif isinstance(node, MatchExists):
                yield from variables_of_pattern(node.pattern.paths, node.pattern.where)

    def of_elements(elements: Sequence[Element]) -> Iterator[tuple[str, int]]:
        for element in elements:
            yield from of_condition(element.where)
            if isinstance(element, QuantifiedGroup):
                yield from of_elements(element.elements)

    yield from variables_of_paths(paths)
    for path in paths:
        yield from of_elements(path.elements)
    yield from of_condition(where)


def names_read(tree: MatchText) -> Iterator[str]:
    """Yield the names of variables that items and conditions read, without those of conditions on an edge alone."""

    def of_condition(condition: Any) -> Iterator[str]:
        for node in condition_nodes(condition):
            if isinstance(node, Name):
                yield node.name.partition(".")[0]
            elif isinstance(node, MatchExists):
                yield from of_pattern(node.pattern)

    def of_elements(elements: Sequence[Element]) -> Iterator[str]:
        for element in elements:
            if isinstance(element, QuantifiedGroup):
                yield from of_elements(element.elements)
            elif isinstance(element, NodePattern):
                yield from of_condition(element.where)
            else:
                own = element.variable
                for part in conjuncts(element.where):
                    yield from (name for name in of_condition(part) if name != own)

    def of_pattern(pattern: GraphPattern) -> Iterator[str]:
        for path in pattern.paths:
            yield from of_elements(path.elements)
        yield from of_condition(pattern.where)

    for clause in tree.clauses:
        yield from of_pattern(clause.pattern)
    for item in tree.items:
        yield from of_condition(item.value)


def parts_of_text(tree: MatchText) -> Iterator[Any]:
    """Yield all elements of paths and all nodes of conditions and items, also those in EXISTS."""

    def of_condition(condition: Any) -> Iterator[Any]:
        for node in condition_nodes(condition):
            yield node
            if isinstance(node, MatchExists):
                yield from of_pattern(node.pattern)
                for value in node.returned_values:
                    yield from of_condition(value)

    def of_elements(elements: Sequence[Element]) -> Iterator[Any]:
        for element in elements:
            yield element
            yield from of_condition(element.where)
            if isinstance(element, QuantifiedGroup):
                yield from of_elements(element.elements)

    def of_pattern(pattern: GraphPattern) -> Iterator[Any]:
        for path in pattern.paths:
            yield from of_elements(path.elements)
        yield from of_condition(pattern.where)

    for clause in tree.clauses:
        yield from of_pattern(clause.pattern)
    for item in tree.items:
        yield from of_condition(item.value)


def names_read_later(tree: MatchText) -> Iterator[str]:
    """Yield the names that RETURN reads, and those that an OPTIONAL MATCH reads of nodes and edges in none of its paths."""
    for item in tree.items:
        yield from (node.name for node in condition_nodes(item.value) if isinstance(node, Name))
    for clause in tree.clauses:
        if not clause.is_optional:
            continue
        own = {name for name, _ in variables_of_paths(clause.pattern.paths)}
        for name in names_of_pattern(clause.pattern):
            if name.partition(".")[0] not in own:
                yield name


def names_of_pattern(pattern: GraphPattern) -> Iterator[str]:
    """Yield the names that the conditions of a clause read, outside EXISTS."""

    def of_elements(elements: Sequence[Element]) -> Iterator[Any]:
        for element in elements:
            yield element.where
            if isinstance(element, QuantifiedGroup):
                yield from of_elements(element.elements)

    conditions = [pattern.where, *(where for path in pattern.paths for where in of_elements(path.elements))]
    for condition in conditions:
        yield from (node.name for node in condition_nodes(condition) if isinstance(node, Name))
