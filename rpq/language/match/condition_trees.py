"""Trees of values and conditions in MATCH: their conjuncts, the names in them, and copies with other names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from rpq.language.match.tree import (
    AggregateCall,
    CountOf,
    Dialect,
    EdgePattern,
    Element,
    MatchExists,
    PathPattern,
    QuantifiedGroup,
    change,
    parts_of,
    walk,
)
from rpq.language.where import (
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    IsNull,
    Logical,
    Name,
    Node,
    Not,
    WhereConstant,
    exact_number,
)


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
    """Yield a condition and all nodes below it, but none inside an EXISTS or a COUNT."""
    yield condition
    if not isinstance(condition, (MatchExists, CountOf)):
        for part in parts_of(condition):
            yield from condition_nodes(part)


def rename(condition: Any, names: Mapping[Any, Node | str]) -> Node:
    """Return a condition with other names, or with other conditions in place of names and of EXISTS."""

    def changed(node: Any) -> Any:
        if not isinstance(node, (Name, MatchExists)):
            return node
        found = names.get(node, node)
        return replace(node, name=found) if isinstance(found, str) and isinstance(node, Name) else found

    renamed: Node = change(condition, changed)
    return renamed


def own_condition(condition: Any, variable: str) -> Node | None:
    """Return a condition on one edge alone with the names of its properties; None if it reads anything else."""
    names = [node for node in condition_nodes(condition) if isinstance(node, Name)]
    if not names or any(not node.name.startswith(f"{variable}.") for node in names):
        return None
    found = filter_tree(condition, "gql")
    return None if found is None else rename(found, {node: node.name.removeprefix(f"{variable}.") for node in names})


def has_value(name: str, value: Any, at: int) -> Node:
    """Return the condition that a property has a constant as its value, in the language of filters."""
    found = filter_tree(Comparison("==", Name(name, column=at + 1), value, column=at + 1), "gql")
    assert found is not None, "it compares with a constant"
    return found


_FILTER_FUNCTIONS = {
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    "contains": "contains",
    "matches": "matches",
    "lower": "lower",
    "tolower": "lower",
    "upper": "upper",
    "toupper": "upper",
    "number": "number",
    "text": "text",
    "abs": "abs",
    "length": "length",
}
"""The functions that the language of filters has, by their names here."""


def filter_tree(condition: Any, dialect: Dialect) -> Node | None:
    """Return a condition in the language of filters, which evaluates whole columns; None if it means something else there.

    >>> tree = filter_tree(Call("tolower", (Name("a.x", column=1),), column=1), "cypher")
    >>> tree.function
    'lower'
    """
    for node in condition_nodes(condition):
        match node:
            case Logical("and" | "or") | Not() | Comparison() | Between() | IsNull() | Name() | WhereConstant():
                pass
            case In(_, values) if all(isinstance(one, (Name, WhereConstant)) for one in values):
                pass
            case Arithmetic(sign) if dialect == "gql" or sign in "-*":
                pass
            case Arithmetic("+", left, right) if any(_is_number(one) for one in (left, right)):
                pass
            case Call("=~", (_, WhereConstant(str()))):
                pass
            case Call(function) if function in _FILTER_FUNCTIONS:
                pass
            case tuple() | str() | int() | bool():
                pass
            case _:
                return None

    def changed(node: Any) -> Any:
        match node:
            case Call("=~", (text, WhereConstant(value, column=column))):
                whole = WhereConstant(rf"\A(?:{value})\z", column=column)
                return Call("matches", (text, whole), column=node.column)
            case Call(function):
                return replace(node, function=_FILTER_FUNCTIONS[function])
            case WhereConstant(value) if isinstance(value, Decimal):
                return replace(node, value=exact_number(str(value)))
        return node

    found: Node = change(condition, changed)
    return found


def _is_number(node: Any) -> bool:
    return isinstance(node, WhereConstant) and not isinstance(node.value, (str, bool))


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
    yield from variables_of_paths(paths)
    for node in walk((tuple(paths), where)):
        if isinstance(node, Name):
            yield node.name.partition(".")[0], node.column - 1
        elif isinstance(node, PathPattern) and node not in paths:
            yield from variables_of_paths([node])


def names_read(tree: Any) -> Iterator[str]:
    """Yield the names of variables that values and conditions read, without those of conditions on an edge alone."""
    if isinstance(tree, Name):
        yield tree.name.partition(".")[0]
    for part in parts_of(tree):
        of_part = names_read(part)
        yield from (name for name in of_part if not isinstance(tree, EdgePattern) or name != tree.variable)


def has_aggregate(tree: Any) -> bool:
    """Return whether a value has an aggregate outside of EXISTS."""
    return any(isinstance(node, AggregateCall) for node in condition_nodes(tree))
