"""The explanation of a pattern: its atoms, the relations that they read, and the order in which they are joined.

For a running pattern it has measurements too: the values examined and the rows written for each seed, the sizes of the
relations and the other queries that read them, and whether and why support lists are maintained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rpq.errors import QueryError
from rpq.language.pattern import Blank, Constant, Pattern, Term, Variable, accepted_edges_on_paths
from rpq.language.query import PatternQuery, Query, automaton_of
from rpq.operators.paths.explanation import Drawing, DrawnArrow, DrawnNode
from rpq.operators.patterns.joins.plan import Component, describe_seed, format_atom, plan_pattern, spanning_tree
from rpq.operators.patterns.joins.supports import can_have_supports
from rpq.operators.patterns.meanings import (
    Meaning,
    NamedVertex,
    comparisons_of,
    direct_atoms,
    meanings_of,
    name_of_read,
    variable,
)
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.relations.path_relations import PathContent
from rpq.operators.patterns.relations.shared_relations import RelationKey
from rpq.stream.edges.edge_ends import ALL, ends_texts
from rpq.stream.names.stream_labels import NodeLabel, NodeTest

NODE_DISTANCE = 1.32
"""The distance of nodes in a drawing, along their circle."""


@dataclass(frozen=True, kw_only=True)
class ExplainedAtom:
    """An atom and the relation that it reads: the edges of one label, or the pairs of a path."""

    text: str
    subject: str
    object: str
    reads: str
    kind: str
    """`edge`, `path` or `test`: the test of a vertex."""


@dataclass(frozen=True, kw_only=True)
class ExplainedRelation:
    """A relation that atoms read; for a running pattern with its size and the other queries that read it.

    For a path, `edges` counts its pairs, which `trees` with `cells` in total find: a cell is a vertex of a tree in a state
    of the expression.
    """

    name: str
    atoms: tuple[int, ...]
    """Numbers of the atoms, from 1; empty for a path that replaces several atoms."""
    edges: int | None = None
    trees: int | None = None
    cells: int | None = None
    shared_with: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    """The edges that are stored, such as "any vertex to h7", if others are ignored; empty if all are stored.

    For a running pattern, the edges that other queries accept of the label are stored, too."""


@dataclass(frozen=True, kw_only=True)
class ExplainedSeed:
    """The join order after a change of an atom's relation: a line for the conditions, then one for each variable bound.

    `looked_at` counts the candidate values that gave no row by themselves, `rows` the rows written so far; None before it
    runs.
    """

    atom: str
    order: tuple[str, ...]
    looked_at: int | None = None
    rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class ExplainedPart:
    """Atoms joined by common variables: their seeds, and whether support lists are kept for them, and why."""

    variables: tuple[str, ...]
    seeds: tuple[ExplainedSeed, ...]
    support_lists: str
    sharing: str = ""
    """The sharing with parts of other queries, in words; empty before it runs, and where little is shared."""


@dataclass(frozen=True, kw_only=True)
class ExplainedMeaning:
    """One choice of vertices for the literals of a pattern, in parts without a common variable."""

    constants: tuple[str, ...]
    conditions: tuple[str, ...]
    parts: tuple[ExplainedPart, ...]
    waits_for: tuple[str, ...] = ()
    """Constants that no edge in the window has: until one does, there are no solutions."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The meaning of a pattern and the plan of its evaluation. Its text is for people; `to_dict` has the same for programs.

    >>> from rpq import Query, Window
    >>> print(explain(Query("?x a ?y . ?y b ann", window=Window(size=10, slide=1), select=["x"])))
    pattern      ?x a ?y . ?y b ann
    language     a graph pattern: it has variables, and is no path expression
    columns      x
    matching     homomorphism
    <BLANKLINE>
    atoms
      1  ?x a ?y: edges labelled a
      2  ?y b ann: edges labelled b
    <BLANKLINE>
    relations
      a: read by atom 1
      b: read by atom 2; only edges from any vertex to ann are stored
    <BLANKLINE>
    order of binding
      ?x a ?y changes (if ?y b ann)
      ?y b ann changes (if a into ?y)
        ?x from a into ?y
    <BLANKLINE>
    support lists: where the query examines many values in vain; decided while it runs
    """

    pattern: str
    columns: tuple[str, ...]
    matching: str
    distinct: bool
    atoms: tuple[ExplainedAtom, ...]
    relations: tuple[ExplainedRelation, ...]
    meanings: tuple[ExplainedMeaning, ...]
    warnings: tuple[str, ...] = ()
    filter: str = ""
    """The condition on bindings; empty without one."""
    identity: str = ""
    """When two inserts are the same edge; empty before it is registered, and where edges are triples without properties."""

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON values.

        >>> from rpq import Query, Window
        >>> explain(Query("?x a ?y", window=Window(size=10, slide=1))).to_dict()["relations"]
        [{'name': 'a', 'atoms': [1], 'edges': None, 'trees': None, 'cells': None, 'shared_with': [], 'accepts': []}]
        """
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def to_dot(self) -> str:
        """Return the pattern in Graphviz's language.

        Atoms are arrows, dashed for paths; constants are boxes, blank nodes dotted.

        >>> from rpq import Query, Window
        >>> print(explain(Query("?x a ?y", window=Window(size=10, slide=1))).to_dot())
        digraph "?x a ?y" {
          rankdir=LR;
          "?x" [shape=ellipse];
          "?y" [shape=ellipse];
          "?x" -> "?y" [label="a"];
        }
        <BLANKLINE>
        """
        lines = [f"digraph {_quote(self.pattern)} {{", "  rankdir=LR;"]
        lines += [f"  {_quote(node)} [{_shape(node)}];" for node in self.nodes]
        for atom in self.atoms:
            style = ", style=dashed" if atom.kind == "path" else ""
            lines.append(f"  {_quote(atom.subject)} -> {_quote(atom.object)} [label={_quote(atom.reads)}{style}];")
        return "\n".join([*lines, "}"]) + "\n"

    def drawing(self, *, most_arrows: int | None = None) -> Drawing | None:
        """Return the drawing of the pattern, or None if it has more atoms than `most_arrows`.

        The terms are on a circle, in the order of the text; the atoms are arrows, dashed for paths.

        >>> from rpq import Query, Window
        >>> explain(Query("?x a+ ?y", window=Window(size=10, slide=1))).drawing().arrows
        (DrawnArrow(start=0, end=1, text='a+', is_dashed=True),)
        """
        if most_arrows is not None and len(self.atoms) > most_arrows:
            return None
        numbers = {name: number for number, name in enumerate(self.nodes)}
        nodes = (
            DrawnNode(name, place, "round" if name.startswith(("?", "_:")) else "box")
            for name, place in zip(self.nodes, _places(self.nodes), strict=True)
        )
        arrows = (
            DrawnArrow(numbers[atom.subject], numbers[atom.object], atom.reads, is_dashed=atom.kind == "path")
            for atom in self.atoms
        )
        return Drawing(kind="pattern", nodes=tuple(nodes), arrows=tuple(arrows))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The terms of the pattern, in order of appearance.

        >>> from rpq import Query, Window
        >>> explain(Query("?x a bob", window=Window(size=10, slide=1))).nodes
        ('?x', 'bob')
        """
        return tuple(dict.fromkeys(term for atom in self.atoms for term in (atom.subject, atom.object)))

    def __str__(self) -> str:
        lines = [
            f"pattern      {self.pattern}",
            "language     a graph pattern: it has variables, and is no path expression",
            f"columns      {', '.join(self.columns)}" + (", each row once" if self.distinct else ""),
            f"matching     {self.matching}",
            *([f"edges        {self.identity}"] if self.identity else []),
            *([f"filter       {self.filter}"] if self.filter else []),
            *(f"warning      {warning}" for warning in self.warnings),
            "",
            "atoms",
            *(f"  {n}  {atom.text}: {_atom_line(atom)}" for n, atom in enumerate(self.atoms, 1)),
            "",
            "relations",
            *(f"  {_relation_line(relation)}" for relation in self.relations),
            "",
            "order of binding",
        ]
        for meaning in self.meanings:
            lines += [f"  {line}" for line in _meaning_lines(meaning, with_constants=len(self.meanings) > 1)]
        supports = list(dict.fromkeys(part.support_lists for meaning in self.meanings for part in meaning.parts))
        shared = list(dict.fromkeys(part.sharing for meaning in self.meanings for part in meaning.parts if part.sharing))
        ending = [*(f"support lists: {text}" for text in supports), *(f"shared: {text}" for text in shared)]
        return "\n".join([*lines, "", *ending]).rstrip()


_SHOWN = 10
"""The number of queries that are named among those that read a relation, and of kinds of edges that it stores."""
_READS = {"edge": "edges labelled", "path": "paths along"}
_TEST, _RECORD = "a test of the vertex, decided when its record changes", "the vertex has a record"
_WHERE_WORTH_IT = "where the query examines many values in vain; decided while it runs"


def explain(query: Query) -> Explanation:
    """Explain how a pattern is understood and evaluated, before it runs.

    Raises `QueryError` for a path query: see its `dfa`.

    >>> from rpq import Window
    >>> explain(Query("?x a ?y . ?y b ?z", window=Window(size=10, slide=1))).atoms[1].text
    '?y b ?z'
    """
    if not isinstance(query, PatternQuery):
        raise QueryError(f"{query.expression} is a path expression: query.dfa has its automaton, with to_text and to_dot")
    explanation = explain_pattern(query.pattern, query.expression, distinct=query.distinct, matching=query.matching)
    return replace(explanation, warnings=query.warnings)


def explain_pattern(
    pattern: Pattern, text: str, *, distinct: bool = False, matching: str = "homomorphism"
) -> Explanation:
    """Explain a pattern and its text, without a window."""
    isomorphism = matching == "isomorphism"
    meanings = []
    join = pattern.to_join(paths="walk")
    isomorphism = isomorphism and join is pattern  # else what is joined is filtered
    for meaning in meanings_of(direct_atoms(join.atoms), isomorphism=isomorphism):
        labels = list(dict.fromkeys(name_of_read(reads) for _, reads, _ in meaning.edges))
        names = sorted(meaning.names)
        atoms = meaning.atoms(lambda edge, labels=labels: labels.index(name_of_read(edge[1])), names.index)  # type: ignore[misc]
        shown = _constant_texts(names)
        plan = plan_pattern(
            atoms,
            select=[variable(name) for name in join.columns],
            isomorphism=isomorphism,
            comparisons=comparisons_of(pattern.filter),
        )
        meanings.append(
            explain_meaning(
                meaning,
                plan.parts,
                [format_atom(atom, labels.__getitem__, shown) for atom in plan.conditions],
                relation_name=labels.__getitem__,
                vertex_name=shown,
                supports=[why_no_supports(part) or _WHERE_WORTH_IT for part in plan.parts],
            )
        )

    paths = [(atom, automaton_of(str(atom.expression))) for atom in join.atoms if atom.edge is None]

    def relation(name: str, atoms: tuple[int, ...]) -> ExplainedRelation:
        accepted = pattern.accepted_edges.get(name, frozenset({ALL})) | accepted_edges_on_paths(paths, name)
        return ExplainedRelation(name=name, atoms=atoms, accepts=ends_texts(accepted))

    return build_explanation(
        pattern, text, distinct=distinct, matching=matching, meanings=meanings, relation=relation
    )


def build_explanation(
    pattern: Pattern,
    text: str,
    *,
    distinct: bool,
    matching: str,
    meanings: Sequence[ExplainedMeaning],
    relation: Callable[[str, tuple[int, ...]], ExplainedRelation],
    more_relations: Sequence[ExplainedRelation] = (),
    warnings: tuple[str, ...] = (),
) -> Explanation:
    """Return an explanation made of its parts.

    `relation` explains the relation with a name, which these atoms read; `more_relations` follow.
    """
    atoms = tuple(_explain_atom(atom) for atom in pattern.atoms)
    reading: dict[str, list[int]] = {}
    for number, atom in enumerate(atoms, 1):
        reading.setdefault(atom.reads, []).append(number)
    return Explanation(
        pattern=text,
        columns=pattern.columns,
        matching=matching,
        distinct=distinct,
        atoms=atoms,
        relations=(*(relation(name, tuple(numbers)) for name, numbers in reading.items()), *more_relations),
        meanings=tuple(meanings),
        warnings=warnings,
        filter="" if pattern.filter is None else pattern.filter.text,
    )


def explain_meaning(
    meaning: Meaning,
    parts: Sequence[Component],
    conditions: Sequence[str],
    *,
    relation_name: Callable[[int], str],
    vertex_name: Callable[[int], str],
    supports: Sequence[str],
    work: Callable[[int, int], tuple[int, int]] | None = None,
) -> ExplainedMeaning:
    """Explain a meaning with its parts; `work` returns the values examined and the rows written for (part, atom)."""

    def seeds(number: int, part: Component) -> list[ExplainedSeed]:
        found = []
        for seed in part.seeds:
            head, *order = map(_term_text, describe_seed(part, seed, relation_name, vertex_name))
            looked, rows = (None, None) if work is None else work(number, seed.atom)
            text = head.removesuffix(":")
            found.append(ExplainedSeed(atom=text, order=tuple(map(str.strip, order)), looked_at=looked, rows=rows))
        return found

    return ExplainedMeaning(
        constants=tuple(dict.fromkeys(_names(meaning))),
        conditions=tuple(conditions),
        parts=tuple(
            ExplainedPart(
                variables=tuple(map(_term_text, part.variables)),
                seeds=tuple(seeds(number, part)),
                support_lists=supports[number],
            )
            for number, part in enumerate(parts)
        ),
    )


def _constant_texts(names: Sequence[str]) -> Callable[[int], str]:
    """Return a function from the number of a constant to its text as a pattern has it."""
    return [str(Constant(name)) for name in names].__getitem__


def _term_text(text: str) -> str:
    """Return a term with blank nodes and edge variables as the pattern writes them; in a plan they are variables."""
    return text.replace("?_:", "_:").replace("?.", "?")


def why_no_supports(part: Component) -> str | None:
    """Return why a part never has support lists, or None if it may have them."""
    if len(part.atoms) < 2:
        return "none: a part of one atom has no later atoms"
    if can_have_supports(part):
        return None
    return "none: no two variables are joined by an atom" if not spanning_tree(part) else "none: too many atoms"


def _names(meaning: Meaning) -> list[str]:
    ends = [end for source, _, target in meaning.edges for end in (source, target)]
    return [str(Constant(end.name)) for end in ends if isinstance(end, NamedVertex)]


def _explain_atom(atom: Any) -> ExplainedAtom:
    """Explain an atom; the ends of an edge atom are those of its edges."""
    edge = atom.edge if atom.variable is None else (atom.subject, atom.expression, atom.object)
    subject, reads, object_ = edge if edge is not None else (atom.subject, atom.reads, atom.object)
    return ExplainedAtom(
        text=str(atom),
        subject=_node(subject),
        object=_node(object_),
        reads=str(reads),
        kind="test" if isinstance(atom.fact, NodeTest) else "path" if edge is None else "edge",
    )


def _atom_line(atom: ExplainedAtom) -> str:
    if atom.kind == "test":
        return _RECORD if atom.text.endswith("[]") else _TEST
    return f"{_READS[atom.kind]} {atom.reads}"


def _node(term: Term) -> str:
    assert isinstance(term, (Variable, Blank, Constant))
    return str(term)


def _relation_line(relation: ExplainedRelation) -> str:
    atoms = ", ".join(map(str, relation.atoms))
    size = "" if relation.edges is None else ", " + _count_text(relation.edges, "edge" if relation.trees is None else "pair")
    if relation.trees is not None and relation.cells is not None:
        size += f" found by {_count_text(relation.trees, 'tree')} of {_count_text(relation.cells, 'cell')}"
    shared = f", shared with {_list_texts(relation.shared_with)}" if relation.shared_with else ""
    read = f"read by atom{'s' * (len(relation.atoms) > 1)} {atoms}" if atoms else "a chain of atoms, read as one path"
    stored = f"; only edges from {_list_texts(relation.accepts)} are stored" if relation.accepts else ""
    return f"{relation.name}: {read}{size}{shared}{stored}"


def _list_texts(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def _count_text(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _meaning_lines(meaning: ExplainedMeaning, *, with_constants: bool) -> list[str]:
    lines = [f"with {', '.join(meaning.constants)}"] if with_constants else []
    lines += [f"waits for an edge of {name}" for name in meaning.waits_for]
    lines += [f"if {condition}" for condition in meaning.conditions]
    for number, part in enumerate(meaning.parts, 1):
        if len(meaning.parts) > 1:
            lines.append(f"part {number}: {', '.join(part.variables)}")
        for seed in part.seeds:
            counts = "" if seed.rows is None else f"   {seed.looked_at:,} looked at, {seed.rows:,} rows"
            lines += [seed.atom + counts, *(f"  {line}" for line in seed.order)]
    return lines


def _shape(node: str) -> str:
    if node.startswith("?"):
        return "shape=ellipse"
    return "shape=ellipse, style=dotted" if node.startswith("_:") else "shape=box"


def _quote(text: str) -> str:
    """Return a DOT string: backslashes begin escapes there, and & begins an HTML entity."""
    return '"' + text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') + '"'


def _places(nodes: Sequence[str]) -> list[tuple[float, float]]:
    """Return the places of nodes in a drawing: a circle that has room for all of them, the first one on the left."""
    if len(nodes) == 1:
        return [(0.0, 0.0)]
    radius = max(1.0, len(nodes) * NODE_DISTANCE / (2 * math.pi))
    angles = [math.pi - 2 * math.pi * number / len(nodes) for number in range(len(nodes))]
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def explain_running(
    question: PatternQuery,
    host: PatternHost,
    meanings: Sequence[tuple[Meaning, Sequence[tuple[int, Component]] | None]],
    contents: Mapping[str, RelationKey | PathContent],
    of_atoms: Sequence[RelationKey | PathContent],
    names: Mapping[int, str],
) -> Explanation:
    """Explain a running pattern, whose relations have these names.

    `meanings` has for each meaning its parts with the numbers that the host gave them, or None while a constant has no
    vertex. `contents` has by name what is read, `of_atoms` what each atom of the question reads; it is empty where several
    atoms are evaluated as one path.
    """
    read_by_atoms = {atom.reads if atom.edge is None else atom.edge[1] for atom in question.pattern.atoms}

    def relation(name: str, atoms: tuple[int, ...]) -> ExplainedRelation:
        content = of_atoms[atoms[0] - 1] if of_atoms else contents.get(name)
        return ExplainedRelation(name=name, atoms=atoms) if content is None else explained_relation(name, atoms, content)

    def explained_relation(name: str, atoms: tuple[int, ...], content: RelationKey | PathContent) -> ExplainedRelation:
        shared_with = tuple(
            other for other, member in host.members.items() if other != question.name and content in member.contents
        )
        found = ExplainedRelation(
            name=name, atoms=atoms, edges=host.store.current_edges(host.number_of(content)), shared_with=shared_with
        )
        if isinstance(content, PathContent):
            return replace(found, trees=host.paths[content].tree_count, cells=host.paths[content].index.live()[0])
        assert content.label is not None, "a pattern names its labels"
        if isinstance(content.label, NodeLabel):
            return found
        return replace(found, accepts=ends_texts(host.accepted_edges(content.label) or question.accepts(content.label)))

    return build_explanation(
        question.pattern,
        question.expression,
        distinct=question.distinct,
        matching=question.matching,
        warnings=question.warnings,
        meanings=[_meaning(host, meaning, parts, names) for meaning, parts in meanings],
        relation=relation,
        more_relations=[] if of_atoms else [
            explained_relation(name, (), content) for name, content in contents.items() if name not in read_by_atoms
        ],
    )


def _meaning(
    host: PatternHost, meaning: Meaning, parts: Sequence[tuple[int, Component]] | None, names: Mapping[int, str]
) -> ExplainedMeaning:
    ids = {identity: name for name in meaning.names if (identity := host.constants.id_of(name)) is not None}
    waits = tuple(sorted(meaning.names - {*ids.values()}))
    texts = {identity: str(Constant(name)) for identity, name in ids.items()}
    joined = [(number, part) for number, part in parts or () if part.variables]
    found = explain_meaning(
        meaning,
        [part for _, part in joined],
        [
            format_atom(part.atoms[0], names.__getitem__, texts.__getitem__)
            for _, part in parts or ()
            if not part.variables
        ],
        relation_name=names.__getitem__,
        vertex_name=texts.__getitem__,
        supports=[why_no_supports(part) or host.why_supports(number) for number, part in joined],
        work=lambda place, atom: host.tables.work_of(joined[place][0])[atom],
    )
    shown = [replace(part, sharing=host.sharing_of(joined[place][0])) for place, part in enumerate(found.parts)]
    return replace(found, waits_for=waits, parts=tuple(shown))
