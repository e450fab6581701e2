"""Trees of conditions in MATCH: their conjuncts, the names in them, and copies with other names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """Return a condition in which each name is replaced."""
    if isinstance(condition, Name):
        return change(condition)
    changes: dict[str, Any] = {}
    for name in ("parts", "inner", "values", "low", "high", "left", "right", "arguments"):
        part = getattr(condition, name, None)
        if isinstance(part, tuple):
            changes[name] = tuple(_with_names(one, change) for one in part)
        elif part is not None:
            changes[name] = _with_names(part, change)
    return replace(condition, **changes) if changes else condition


def rename(condition: Any, names: dict[Name, str]) -> Node:
    """Return a condition with other names."""
    found: Node = _with_names(condition, lambda name: replace(name, name=names[name]))
    return found


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
