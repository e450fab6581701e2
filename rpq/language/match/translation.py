"""From the syntax tree of a MATCH text to the algebra of `rpq.language.sparql.algebra`.

The clauses of a part become blocks of atoms and conditions (`clauses`). Blocks of MATCH are joined, OPTIONAL MATCH is a
`LeftJoin`, EXISTS a `SemiJoin`, and WITH and RETURN group, select, order and make distinct (`projection`). A path that
counts stands for several patterns, whose rows are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rpq.language import edge_variables
from rpq.language.edge_variables import Value
from rpq.language.match.clauses import ClauseTranslator
from rpq.language.match.computed import parts_of_elements
from rpq.language.match.condition_trees import conjuncts, names_read, own_condition, variables_of_paths, variables_of_pattern
from rpq.language.match.expansion import MAX_VARIANTS, joined
from rpq.language.match.node_facts import FACTS, reads_facts
from rpq.language.match.projection import (
    Branch,
    ProjectionTranslator,
    QueryRows,
    collects,
    is_insensitive,
    union_of,
)
from rpq.language.match.scope import ResultColumn
from rpq.language.match.syntax import match_error
from rpq.language.match.tree import (
    Attribute,
    Clause,
    Comprehension,
    Dialect,
    EdgePattern,
    GraphPattern,
    MatchText,
    NodePattern,
    PathPattern,
    QuantifiedList,
    QueryPart,
    Reduce,
    SingleQuery,
    Unwind,
    change,
    walk,
)
from rpq.language.sparql import algebra
from rpq.language.sparql.algebra import SparqlQuestion
from rpq.language.where import Comparison, Name


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The algebra of a MATCH text, and the properties that it reads of edges."""

    question: SparqlQuestion
    columns: tuple[ResultColumn, ...]
    filters: tuple[edge_variables.BindingFilter, ...]
    properties: frozenset[str]
    """The properties of edges that columns and filters read."""
    selected: tuple[Value, ...]
    """The values of nodes and edges that columns and computed values read."""
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
        self._text = tree.text
        self._dialect = dialect
        numbers = iter(range(1 << 30))
        self._tree = with_conditions_in_place(tree, lambda: f"_{next(numbers)}_#")
        self._clauses = ClauseTranslator(
            tree.text,
            dialect,
            node_label,
            paths,
            is_triple=is_triple,
            has_nodes=has_nodes,
            read_names=self._read_names(),
        )
        self._projections = ProjectionTranslator(tree.text, dialect, self._clauses)
        self._variants = 0

    def translation(self) -> Translation:
        if self._dialect == "gql":
            self._refuse_cypher()
        queries = self._tree.queries
        is_distinct = len(queries) > 1 and not self._tree.is_union_all
        found = [self._query(one, is_set=is_distinct, is_alone=len(queries) == 1) for one in queries]
        rows = found[0] if len(found) == 1 else union_of(found, queries, self._text, is_distinct=is_distinct)
        has_facts = any(one.window is not None for one in algebra.atoms_of(rows.body))
        question = SparqlQuestion(
            text=self._text,
            form="select",
            body=rows.body,
            columns=rows.variables,
            windows=(FACTS,) if has_facts else (),
            warnings=self._warnings(),
        )
        return Translation(
            question=question,
            columns=rows.columns,
            filters=tuple(self._clauses.filters),
            properties=frozenset(self._clauses.computed.properties),
            selected=tuple(self._clauses.computed.selected),
            has_edge_variables=self._clauses.has_edges,
            differs=self._clauses.differs,
        )

    def _read_names(self) -> frozenset[str]:
        """Return the names that values and conditions read; `*` reads all names of paths, nodes and edges."""
        parts = [part for query in self._tree.queries for part in query.parts]
        names = {*names_read(self._tree.queries)}
        if any(part.projection.has_all for part in parts):
            named = (one for one in walk(self._tree.queries) if isinstance(one, (NodePattern, EdgePattern, PathPattern)))
            names |= {one.variable for one in named if one.variable is not None}
        return frozenset(names)

    def _warnings(self) -> tuple[str, ...]:
        """Return what `explain` says of an order that no LIMIT and no list reads."""
        for query in self._tree.queries:
            for part, following in zip(query.parts, (*query.parts[1:], None), strict=True):
                projection = part.projection
                is_cut = projection.limit is not None or projection.skip is not None
                is_read = following is not None and collects(following.projection)
                if projection.order and not is_cut and not is_read:
                    return ("ORDER BY without LIMIT has no effect: changes have no order of rows",)
        return ()

    def _refuse_cypher(self) -> None:
        for query in self._tree.queries:
            for part in query.parts:
                unwinds = [one for one in part.clauses if isinstance(one, Unwind)]
                at = unwinds[0].at if unwinds else part.projection.at if part is not query.parts[-1] else None
                if at is not None:
                    what = "UNWIND" if unwinds else "WITH"
                    raise match_error(self._text, at, f'{what} is refused in GQL: pass language="cypher"')

    # --- parts -----------------------------------------------------------------------------------------------------

    def _query(self, query: SingleQuery, *, is_set: bool, is_alone: bool) -> QueryRows:
        """Return the rows of a query between UNIONs."""
        needed = needed_values(query.parts)
        are_sets = [is_set]
        for part in reversed(query.parts[1:]):
            are_sets.insert(0, is_insensitive(part.projection, are_sets[0]))
        branches = [Branch(None, {})]
        for place, (part, after, is_set_after) in enumerate(zip(query.parts, needed, are_sets, strict=True)):
            inner_is_set = is_insensitive(part.projection, is_set_after)
            branches = self._add_clauses(branches, part, after, is_set=inner_is_set)
            if part is query.parts[-1]:
                break
            branches = self._projections.rows_behind_with(
                branches, part.projection, after, following=query.parts[place + 1].projection
            )
        return self._projections.result(branches, query.parts[-1].projection, is_alone=is_alone)

    def _add_clauses(
        self, branches: Sequence[Branch], part: QueryPart, after: Mapping[str, Collection[str]], *, is_set: bool
    ) -> list[Branch]:
        """Return the rows behind the clauses of a part."""
        found = [*branches]
        waiting: list[Clause] = []

        def flush(place: int) -> None:
            nonlocal found
            if waiting:
                rest = (part.clauses[place:], part.projection)
                found = self._add_matches(found, waiting, rest, after, is_set=is_set)
                waiting.clear()

        for place, clause in enumerate(part.clauses):
            if isinstance(clause, Unwind):
                flush(place)
                read = _reads((part.clauses[place + 1 :], part.projection), after)
                found = [self._projections.unwind(branch, clause, read) for branch in found]
                continue
            if not clause.is_optional and not _commutes(clause.pattern, waiting, found[0].names):
                flush(place)
            waiting.append(clause)
        flush(len(part.clauses))
        return found

    def _add_matches(
        self,
        branches: Sequence[Branch],
        clauses: Sequence[Clause],
        rest: Any,
        after: Mapping[str, Collection[str]],
        *,
        is_set: bool,
    ) -> list[Branch]:
        """Return the rows behind clauses, those of MATCH before those of OPTIONAL MATCH, which gives the same rows."""
        matches = [one.pattern for one in clauses if not one.is_optional]
        optionals = [one.pattern for one in clauses if one.is_optional]
        needed = _reads((optionals, rest), after)
        found: list[Branch] = []
        for branch in branches:
            for variants in product(*(self._clauses.variants_of(one, is_set=is_set) for one in matches)):
                rows, names = branch.rows, branch.names
                if variants:
                    rows, names = self._clauses.match(rows, names, variants, needed, is_set=is_set)
                for place, pattern in enumerate(optionals):
                    needed_behind = _reads((optionals[place + 1 :], rest), after)
                    rows, names = self._clauses.optional(rows or algebra.UNIT, names, pattern, needed_behind, is_set=is_set)
                found.append(replace(branch, rows=rows, names=names))
        self._variants += len(found)
        if self._variants > MAX_VARIANTS:
            raise match_error(
                self._text,
                clauses[0].at,
                f"the paths of several lengths stand for more than {MAX_VARIANTS} patterns: write shorter ones, or DISTINCT",
            )
        return found


def _commutes(pattern: GraphPattern, before: Sequence[Clause], known: Collection[str]) -> bool:
    """Return whether a MATCH behind OPTIONAL MATCH clauses can stand before them: neither names what the other binds."""
    bound = {name for one in before if not one.is_optional for name, _ in variables_of_paths(one.pattern.paths)}
    optional = [one.pattern for one in before if one.is_optional]
    of_optional = {name for one in optional for name, _ in variables_of_paths(one.paths)} - bound - {*known}
    mine = {name for name, _ in variables_of_paths(pattern.paths)} - bound - {*known}
    named = {name for one in optional for name, _ in variables_of_pattern(one.paths, one.where)}
    return mine.isdisjoint(named) and of_optional.isdisjoint(
        name for name, _ in variables_of_pattern(pattern.paths, pattern.where)
    )


def _reads(tree: Any, after: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Return the parts of variables that a tree reads, by variable, beside those that later parts read."""
    found = {name: {*attributes} for name, attributes in after.items()}
    for node in walk(_as_tuples(tree)):
        for name, attribute in _parts_of_elements(node):
            found.setdefault(name, set()).add(attribute)
        if isinstance(node, Name) and "." in node.name:
            name, _, attribute = node.name.partition(".")
            if attribute != "id":
                found.setdefault(name, set()).add(attribute)
    for path in walk(_as_tuples(tree)):
        if isinstance(path, PathPattern) and path.variable in found:  # what is read of a path is read of its nodes
            for node in path.elements:
                if isinstance(node, NodePattern) and node.variable is not None:
                    found.setdefault(node.variable, set()).update(found[path.variable])
    return found


def _parts_of_elements(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the lists, and the properties that a value reads of their elements."""
    if isinstance(node, Attribute):
        yield from ((one.name.partition(".")[0], node.name) for one in walk(node.inner) if isinstance(one, Name))
    if isinstance(node, (Comprehension, QuantifiedList, Reduce)):
        sources = {one.name.partition(".")[0] for one in walk(node.source) if isinstance(one, Name)}
        for one in parts_of_elements(node):
            yield from ((name, one.name.partition(".")[2]) for name in sources)


def _as_tuples(tree: Any) -> Any:
    return tuple(map(_as_tuples, tree)) if isinstance(tree, (list, tuple)) else tree


def needed_values(parts: Sequence[QueryPart]) -> list[dict[str, set[str]]]:
    """Return for each part the parts of variables that are read behind it, by the names that they have before its WITH.

    >>> from rpq.language.match.syntax import parse
    >>> (query,) = parse("MATCH (a)-->(b) WITH a AS c, count(*) AS n RETURN c.risk, n").queries
    >>> needed_values(query.parts)[0]
    {'a': {'risk'}, 'c': {'risk'}}
    """
    found: list[dict[str, set[str]]] = []
    behind: dict[str, set[str]] = {}
    for part in reversed(parts):
        mine = {name: {*attributes} for name, attributes in behind.items()}
        for item in part.projection.items:
            if isinstance(item.value, Name):
                attributes = behind.get(item.name or item.value.name)
                if attributes:
                    mine.setdefault(item.value.name, set()).update(attributes)
        found.insert(0, dict(sorted(mine.items())))
        behind = _reads((part.clauses, part.projection), mine)
    return found


def with_conditions_in_place(tree: MatchText, new_name: Callable[[], str]) -> MatchText:
    """Return a text in which conditions stand where they are evaluated best.

    A condition in WHERE that reads one edge alone stands in its brackets, and a computed value of `{amount: x}` in WHERE.
    """

    def of(node: Any) -> Any:
        if isinstance(node, (NodePattern, EdgePattern)):
            others = [one for one in node.properties if not one.is_constant]
            if not others:
                return node
            name = node.variable or new_name()
            conditions = [
                Comparison("==", Name(f"{name}.{one.name}", column=one.at + 1), one.value, column=one.at + 1)
                for one in others
            ]
            where = joined("and", [*conjuncts(node.where), *conditions], node.at + 1)
            constant = tuple(one for one in node.properties if one.is_constant)
            return replace(node, variable=name, properties=constant, where=where)
        if isinstance(node, GraphPattern):
            return _with_conditions_of_edges(node)
        return node

    return replace(tree, queries=change(tree.queries, of))


def _with_conditions_of_edges(pattern: GraphPattern) -> GraphPattern:
    edges = [
        one
        for path in pattern.paths
        if not path.is_any
        for one in path.elements
        if isinstance(one, EdgePattern) and one.quantifier is None and one.variable is not None
    ]
    mine: dict[str, list[Any]] = {}
    rest: list[Any] = []
    for part in conjuncts(pattern.where):
        name = next((str(one.variable) for one in edges if own_condition(part, str(one.variable)) is not None), None)
        (rest if name is None else mine.setdefault(name, [])).append(part)
    if not mine:
        return pattern

    def of(node: Any) -> Any:
        if node in edges and node.variable in mine:
            return replace(node, where=joined("and", [*conjuncts(node.where), *mine[node.variable]], node.at + 1))
        return node

    paths = tuple(replace(path, elements=tuple(map(of, path.elements))) for path in pattern.paths)
    return replace(pattern, paths=paths, where=joined("and", rest, pattern.at + 1) if rest else None)
