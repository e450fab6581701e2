"""The explanation of a pattern that runs: with the work of its seeds, its relations' sizes, and who shares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rpq.patterns.explained import (
    ExplainedMeaning,
    ExplainedRelation,
    Explanation,
    explained_meaning,
    explanation_of,
    why_no_supports,
)
from rpq.patterns.meanings import Meaning
from rpq.patterns.path_relations import PathContent
from rpq.patterns.pattern_host import PatternHost
from rpq.patterns.plan import Part, shown_atom
from rpq.patterns.shared_relations import Content
from rpq.queries.pattern import Constant
from rpq.queries.query import PatternQuery


def explain_running(
    question: PatternQuery,
    host: PatternHost,
    meanings: Sequence[tuple[Meaning, Sequence[tuple[int, Part]] | None]],
    contents: Mapping[str, Content | PathContent],
    of_atoms: Sequence[Content | PathContent],
) -> Explanation:
    """`meanings` come with their parts and the numbers that the host gave these; None while a constant has no vertex.

    `contents` are what is read, by its name; `of_atoms` what each atom of the question reads, nothing where some of them
    are evaluated as one path.
    """
    read_by_atoms = {str(atom.expression) if atom.edge is None else atom.edge[1] for atom in question.pattern.atoms}
    names = {host.number_of(content): name for name, content in contents.items()}

    def told(name: str, atoms: tuple[int, ...]) -> ExplainedRelation:
        content = of_atoms[atoms[0] - 1] if of_atoms else contents.get(name)
        return ExplainedRelation(name=name, atoms=atoms) if content is None else measured(name, atoms, content)

    def measured(name: str, atoms: tuple[int, ...], content: Content | PathContent) -> ExplainedRelation:
        others = tuple(
            other for other, member in host.members.items() if other != question.name and content in member.contents
        )
        found = ExplainedRelation(
            name=name, atoms=atoms, edges=host.store.edges_held(host.number_of(content)), shared_with=others
        )
        if isinstance(content, PathContent):
            return replace(found, trees=host.paths[content].trees, cells=host.paths[content].index.live()[0])
        return found

    return explanation_of(
        question.pattern,
        question.expression,
        distinct=question.distinct,
        matching=question.matching,
        warnings=question.warnings,
        meanings=[_meaning(host, meaning, parts, names) for meaning, parts in meanings],
        relation=told,
        further=[] if of_atoms else [
            measured(name, (), content) for name, content in contents.items() if name not in read_by_atoms
        ],
    )


def _meaning(
    host: PatternHost, meaning: Meaning, parts: Sequence[tuple[int, Part]] | None, names: dict[int, str]
) -> ExplainedMeaning:
    ids = {identity: name for name in meaning.names if (identity := host.constants.id_of(name)) is not None}
    waits = tuple(sorted(meaning.names - {*ids.values()}))
    texts = {identity: str(Constant(name)) for identity, name in ids.items()}
    joined = [(number, part) for number, part in parts or () if part.variables]
    found = explained_meaning(
        meaning,
        [part for _, part in joined],
        [
            shown_atom(part.atoms[0], names.__getitem__, texts.__getitem__)
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
