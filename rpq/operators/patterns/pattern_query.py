"""A running graph pattern: its plans in the host, and its rows.

Most patterns are one part, and the rows of the kernels are its rows. Where a pattern has several parts, atoms without
variables, literals or DISTINCT, `Solutions` forms its rows from theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rpq.automata.symbols import LabelSymbol
from rpq.language.hypercube import Cell, Share
from rpq.language.kinds import QueryKind, content_of, read_content
from rpq.language.linear_comparisons import LinearComparison
from rpq.language.protocol import Figures, PresentGraph, Resources
from rpq.language.query import PatternQuery
from rpq.operators.patterns.chains import chains_to_evaluate, single_atom_chains
from rpq.operators.patterns.explanation import Explanation, explain_running
from rpq.operators.patterns.hosted_query import HostedQuery
from rpq.operators.patterns.joins.binding_search import Binding
from rpq.operators.patterns.joins.plan import Component, Plan, condition_part, is_one_part, plan_pattern, shaped_parts
from rpq.operators.patterns.meanings import Meaning, PathRead, direct_atoms, meanings_of, name_of_read, variable
from rpq.operators.patterns.pattern_host import PatternHost
from rpq.operators.patterns.read_relations import ReadRelations
from rpq.operators.patterns.rows.solutions import PartPlace, Solutions
from rpq.operators.patterns.witness import WindowGraph, Witness, witness_of
from rpq.rows.delta import Delta, IdRows, ids_of_columns
from rpq.rows.weighted_rows import WeightedRows, as_changes
from rpq.stream.chunk import Chunk
from rpq.stream.edges.edge_values import ValuesOf
from rpq.stream.edges.snapshot import Edges, SnapshotGraph
from rpq.stream.names.stream_labels import LabelName
from rpq.stream.names.vertices import VertexDictionary

_NONE = np.zeros(0, np.int64)
_NO_CHANGE = Delta(ids=None, times=_NONE, ends=_NONE, kinds=np.zeros(0, np.int8), orders=_NONE)


class MeaningPart(NamedTuple):
    """A part of a meaning: the number that the host gave it, its columns, and the names of its constants."""

    number: int
    columns: tuple[str, ...]
    constants: frozenset[str]


class RunningPattern(HostedQuery):
    """A registered pattern."""

    question: PatternQuery
    _relations: ReadRelations
    needs_room = False
    witnesses_are_of_now = True
    reports_joins = True
    """True if the solutions of the join are the rows."""
    _comparisons: Sequence[LinearComparison] = ()
    """Comparisons that hold for all solutions of the join that are needed."""

    def __init__(self, question: PatternQuery, resources: Resources) -> None:
        super().__init__(question, resources)
        self._joined_pattern = question.joined_pattern
        self.is_divided = bool(self._joined_pattern.pattern.constants) or resources.share.total > 1
        # A join of edges alone needs no index, and holds no more than the edges.
        pattern = self._joined_pattern.pattern
        has_paths = bool(pattern.path_expressions)
        self._chains = chains_to_evaluate(self._joined_pattern) if has_paths else single_atom_chains(pattern.atoms)
        atoms = direct_atoms([chain.atom for chain in self._chains])
        self._has_paths = any(isinstance(atom.reads, PathRead) for atom in atoms)
        self._meanings = meanings_of(atoms, isomorphism=self._is_isomorphism)
        self._reads = [atom.reads for atom in atoms]
        self._names_of = [tuple(meaning.names) for meaning in self._meanings]
        self._names = sorted({name for names in self._names_of for name in names})
        self._is_counted = question.window.kind == "count"
        self._has_events = resources.events is not None
        self._repeats = False  # whether two bindings may give the same row
        self._is_direct = self._rows_are_those_of_its_part()
        self._solutions = Solutions(
            select=[variable(name) for name in self._joined_pattern.columns],
            meanings=len(self._meanings),
            most_parts=len(self._joined_pattern.pattern.atoms),
            distinct=self._joined_pattern.distinct,
            isomorphism=self._is_isomorphism,
        )
        self._ids: dict[int, dict[str, int | None]] = {}  # meaning to the ids of its constants, as its plans have them
        self._parts: dict[int, list[MeaningPart]] = {}  # meaning to its parts
        self._written_parts: dict[
            int, list[Component]
        ] = {}  # meaning to its parts with the names of the pattern, for witnesses
        self._joined_meanings: set[int] = set()  # meanings whose parts deliver rows to it
        self._most_rows = resources.rows.limit if question.report == "change" and self.reports_joins else None
        self._relations = ReadRelations(
            self._joined_pattern,
            atoms,
            self._host,
            origin=self._origin,
            coordinates=_coordinates_of(question, resources.share),
        )
        self._start()

    @property
    def _is_netted(self) -> bool:
        """True if a solution may leave silently and come back in one event, as in a count window that moves.

        Where there are paths, the rows themselves show whether a pair is lost by an eviction alone.
        """
        return self._is_counted and (self._repeats or not self._is_direct or self._has_paths or self._has_events)

    @property
    def _is_isomorphism(self) -> bool:
        return self._joined_pattern.matching == "isomorphism"

    def _rows_are_those_of_its_part(self) -> bool:
        if len(self._meanings) != 1:
            return False
        if self._joined_pattern.distinct and not self._meanings[0].is_covered_by(self._joined_pattern.columns):
            return False
        numbers: dict[LabelSymbol | PathRead, int] = {}
        atoms = self._meanings[0].atoms(lambda edge: numbers.setdefault(edge[1], len(numbers)), self._names.index)
        if not is_one_part(atoms):
            return False
        named = {term for atom in atoms for term in (atom.source, atom.target) if isinstance(term, str)}
        self._repeats = len(named) > len(self._joined_pattern.columns)
        return True

    def _plan(self, meaning: Meaning, id_of: Callable[[str], int]) -> Plan:
        atoms = meaning.atoms(self._relations.relation_of, id_of)
        select = [variable(name) for name in self._joined_pattern.columns]
        plan = plan_pattern(atoms, select=select, isomorphism=self._is_isomorphism, comparisons=self._comparisons)
        if self._is_isomorphism and len(plan.parts) > 1:
            # Variables of different parts are compared where their product is formed, so all must be columns.
            everything = [name for part in plan.parts for name in part.variables]
            plan = plan_pattern(atoms, select=everything, isomorphism=True)
        return plan

    # --- plans -----------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        self._relations.acquire()
        if not self._is_isomorphism:  # so that only linking is left when its constants get ids
            for number in range(len(self._meanings)):
                self._prepare(number)
        self._begin_latency()
        self.resolve(row_limit=0)  # its windows are loaded next, and solutions are counted then

    def _withdraw(self) -> None:
        self._solutions.clear()
        for meaning in [*self._joined_meanings]:
            self._leave_parts(meaning)
        for meaning in [*self._parts]:
            self._release(meaning)
        self._ids.clear()
        self._relations.release()

    def leave_changed(self) -> None:
        """Leave the parts of meanings in which a constant has lost its id or has another one.

        A part is bound to the vertices of its constants when it is linked, which is when the first query joins it.
        """
        for number in [*self._joined_meanings]:
            if any(self._host.constants.id_of(name) != identity for name, identity in self._ids[number].items()):
                self._leave_parts(number)

    def resolve(self, *, row_limit: int | None = None, new_names: Container[str] = ()) -> None:
        """Link the plans of meanings all of whose constants are vertices now; unlink those of others.

        A meaning in which a constant has lost its id or has another one has no solutions: the former vertex had no edge
        left. If there are more than `row_limit` solutions, not all are counted. They must be counted before anything
        changes. Constants with `new_names` have no edges yet.
        """
        for number, names in enumerate(self._names_of):
            ids = {name: self._host.constants.id_of(name) for name in names}
            if ids != self._ids.get(number):
                self._leave_parts(number)
                self._ids[number] = ids
                if None not in ids.values():
                    self._join_parts(number, row_limit, new_names)

    def _prepare(self, number: int) -> None:
        """Add the parts of a meaning to the host; under isomorphism its constants must have ids."""
        ids = self._id_of(number) if self._is_isomorphism else self._names.index
        atoms = self._meanings[number].atoms(self._relations.relation_of, ids)
        select = [variable(name) for name in self._joined_pattern.columns]
        # Rows that expire silently must be known where they are counted, or may come back in the same event.
        explicit = self._joined_pattern.semantics == "explicit" or not self._is_direct or self._is_netted
        is_reported = self.reports_joins and self._is_direct and not self._is_netted
        is_reported = is_reported and self._joined_pattern.report == "change"
        numbers = [self._host.constants.number_of(name) for name in self._names]
        parts = self._parts[number] = []
        for part, columns, ranks in shaped_parts(
            atoms, select, isomorphism=self._is_isomorphism, comparisons=self._comparisons
        ):
            constants = None if ranks is None else tuple([numbers[rank] for rank in ranks])
            part_number = self._host.add_part(
                part,
                explicit=explicit,
                is_reported=is_reported,
                cell=self._own_cell if is_reported else (),
                constants=constants,
            )
            parts.append(MeaningPart(part_number, columns, frozenset(self._names[rank] for rank in ranks or ())))

    def _release(self, number: int) -> None:
        for part in self._parts.pop(number, []):
            self._host.release_part(part.number)

    def _join_parts(self, number: int, row_limit: int | None, new_names: Container[str]) -> None:
        if number not in self._parts:
            self._prepare(number)
        self._written_parts.pop(number, None)  # with the former ids of constants and numbers of relations
        for place, part in enumerate(self._parts[number]):
            self._host.join_part(part.number, self.question.name, PartPlace(number, place))
        self._joined_meanings.add(number)
        self._count_solutions(number, row_limit=row_limit, new_names=new_names)

    def _parts_as_written(self, number: int) -> list[tuple[int, Component]]:
        """Return the parts of a meaning with the pattern's own names of variables, and the ids of its constants."""
        plan = self._plan(self._meanings[number], self._id_of(number))
        parts = [*plan.parts, *map(condition_part, plan.conditions)]
        return [(linked.number, part) for linked, part in zip(self._parts[number], parts, strict=True)]

    def _id_of(self, number: int) -> Callable[[str], int]:
        ids = self._ids[number]

        def id_of(name: str) -> int:
            identity = ids[name]
            assert identity is not None
            return identity

        return id_of

    def _leave_parts(self, number: int) -> None:
        if number not in self._joined_meanings:
            return
        self._joined_meanings.remove(number)
        for place, part in enumerate(self._parts[number]):
            self._host.leave_part(part.number, self.question.name, PartPlace(number, place))
        if self._is_isomorphism:
            self._release(number)
        self._solutions.drop(number)

    def _count_all_solutions(self, *, row_limit: int | None) -> None:
        """Count the current solutions of all meanings again, or somewhat more than `row_limit` of each."""
        self._solutions.clear()
        for number in self._joined_meanings:
            self._count_solutions(number, row_limit=row_limit)

    def _count_solutions(self, number: int, *, row_limit: int | None, new_names: Container[str] = ()) -> None:
        """Count the current solutions of a meaning, or somewhat more than `row_limit` of them."""
        if self._is_direct:
            return
        rows = self._rows_of_parts(number, new_names)
        self._solutions.put(number, self._columns_of_parts(number), rows, row_limit=row_limit)

    def _columns_of_parts(self, meaning: int) -> list[tuple[str, ...]]:
        return [part.columns for part in self._parts[meaning]]

    def _rows_of_parts(self, meaning: int, new_names: Container[str] = ()) -> list[np.ndarray]:
        """Return the current rows of each part of a meaning: (row, column). O(edges, and the cost of joining them)."""
        rows = []
        for part in self._parts[meaning]:
            # With paths a vertex without edges may have rows: those of paths without steps.
            is_bare = not self._has_paths and any(name in new_names for name in part.constants)
            columns = len(part.columns)
            rows.append(np.zeros((0, columns), np.int32) if is_bare else self._host.rows_of_part(part.number, columns))
        return rows

    # --- labels and edges ------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[LabelName]) -> None:
        self._relations.set_labels(labels)

    def reads(self, labels: np.ndarray) -> np.ndarray:
        return self._relations.reads(labels)

    def make_room(self, vertices: VertexDictionary, new_ids: np.ndarray, graph: SnapshotGraph) -> None:
        self._graph = graph
        self.vertex_room = self._host.vertex_room
        if len(new_ids):
            self._host.look_up(vertices, self._names)
            self.resolve(row_limit=0)

    def count_from(self, numbers: Sequence[int]) -> None:
        self._relations.count_from(numbers[0])

    def load_static(self, chunk: Chunk) -> None:
        self._relations.load_static(chunk)

    @property
    def has_content(self) -> bool:
        return self._relations.has_content

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        row_limit = self._fill(time, chunk, *slides, quiet=quiet)
        if quiet or chunk is None:
            return []
        answers = WeightedRows.insertion_of(self._own_rows(self._ids_of_answers(row_limit=row_limit)))
        return [self._count_rows(answers.delta(np.array([1]), np.array([time])))]

    def _fill(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool) -> int | None:
        """Fill relations and solutions; return the number of rows above which they will be refused."""
        self._host.advance(time)
        self._host.invalidate_size(self.question.name)
        if chunk is not None:
            self._relations.fill(chunk, *slides, quiet=quiet)
        # More than these will be refused.
        row_limit = None if quiet or chunk is None or not self._host.is_whole else self._most_rows
        self._count_all_solutions(row_limit=row_limit)
        return row_limit

    # --- results ---------------------------------------------------------------------------------------------

    def delta(self, parts: dict[PartPlace, Delta], changed: Mapping[int, Delta]) -> Delta:
        """Return the rows that follow from changes of its parts."""
        if not self._is_direct:
            return self._delta_of_solutions(parts)
        (delta,) = parts.values()
        if not delta.ids.order:  # rows were only counted
            return self._count_rows(delta.without_ids())
        if self._is_netted:
            events, (changes,) = as_changes([delta], first=self._host.first)
            return self._net_delta(changes, events)
        return self._count_rows(self._own_rows_of_delta(delta))

    def _delta_of_solutions(self, parts: dict[PartPlace, Delta]) -> Delta:
        # If the row guard would refuse them, not all are formed; the rows of a share are selected first.
        is_partial = self._is_netted or self._host.first is not None or not self._host.is_whole
        row_limit = None if is_partial else self._most_rows
        events, changes = as_changes(parts.values(), first=self._host.first)
        is_boundary = None if self._joined_pattern.semantics == "explicit" else events[:, 0] % 2 == 0
        solutions = self._solutions.change(dict(zip(parts, changes, strict=True)), silent=is_boundary, row_limit=row_limit)
        if not len(solutions):
            return _NO_CHANGE
        if self._is_netted:
            return self._net_delta(solutions, events)
        return self._count_rows(self._own_rows_of_delta(solutions.delta(events[:, 0], events[:, 1])))

    def _net_delta(self, changes: WeightedRows, events: np.ndarray) -> Delta:
        """Return the net rows of events, without those that an eviction removes silently."""
        changes = changes.net()
        if self._joined_pattern.semantics == "implicit":
            changes = changes.select((changes.weights > 0) | ~self._host.is_silent(events[:, 0])[changes.events])
        return self._count_rows(self._own_rows_of_delta(changes.delta(events[:, 0], events[:, 1])))

    def _own_rows_of_delta(self, delta: Delta) -> Delta:
        """Return the rows of this share."""
        return delta if self._host.is_whole else delta.select(self._host.are_own(delta.ids.values, self._own_cell))

    @property
    def _own_cell(self) -> Cell:
        """The cell of this share; a pattern has columns, so that there is one."""
        assert self._cell is not None
        return self._cell

    def _is_own(self, row: tuple[int, ...]) -> bool:
        return self._host.is_whole or bool(self._host.are_own(np.array([row], np.int32), self._own_cell)[0])

    def _own_rows(self, ids: np.ndarray) -> np.ndarray:
        return ids if self._host.is_whole else ids[self._host.are_own(ids, self._own_cell)]

    def _ids_of_answers(self, *, row_limit: int | None = None) -> np.ndarray:
        """Return the answer as ids, or somewhat more than `row_limit` rows of it."""
        if not self._is_direct:
            return self._solutions.answers(row_limit=row_limit)
        if not self._joined_meanings:
            return np.zeros((0, len(self._joined_pattern.columns)), np.int32)
        ((number, _, _),) = self._parts[0]
        return self._host.rows_of_part(number, len(self._joined_pattern.columns), row_limit=row_limit)

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        assert self._graph is not None
        return self._relations.slides(edges, self._graph.edges)

    def answers(self) -> list[IdRows]:
        return [ids_of_columns(self._own_rows(self._ids_of_answers()))]

    def explain(self) -> Explanation:
        meanings = [
            (meaning, self._parts_as_written(number) if number in self._joined_meanings else None)
            for number, meaning in enumerate(self._meanings)
        ]
        of_reads = self._relations.contents_by_read
        contents = {name_of_read(reads): content for reads, content in of_reads.items()}
        is_each_alone = len(self._chains) == len(self._joined_pattern.pattern.atoms)
        of_atoms = []
        if is_each_alone:
            reads = iter(self._reads)
            for atom in self.question.pattern.atoms:
                of_atoms.append(of_reads[next(reads)])
                if atom.variable is not None:
                    next(reads)  # it is two in the join
        by_content = self._relations.reads_by_content
        names = {self._host.number_of(content): name_of_read(reads) for content, reads in by_content.items()}
        return explain_running(self.question, self._host, meanings, contents, of_atoms, names)

    def witness(self, answer: tuple[int, ...], graph: PresentGraph) -> Witness | None:
        edges, vertices, labels, values = graph
        if not self._is_own(answer):
            return None
        bound = {variable(name): value for name, value in zip(self._joined_pattern.columns, answer, strict=True)}
        return self._witness_of(bound, edges, vertices.name_of, labels, values)

    def _meanings_with_parts(self) -> list[tuple[Meaning, list[Component]]]:
        """Return the meanings that may have solutions, each with the parts of its plan."""
        for number in self._joined_meanings - self._written_parts.keys():
            self._written_parts[number] = [part for _, part in self._parts_as_written(number)]
        return [(self._meanings[number], self._written_parts[number]) for number in sorted(self._joined_meanings)]

    def _witness_of(
        self,
        bound: Binding,
        edges: Edges,
        name_of: Callable[[int], int | str],
        labels: list[str],
        values: ValuesOf | None,
    ) -> Witness | None:
        """Return the witness of a solution of the join with these values, None if there is none."""
        relations = self._relations
        paths = relations.relations_by_path
        return witness_of(
            self._meanings_with_parts(),
            bound,
            question=self._joined_pattern,
            chains=self._chains,
            host=self._host,
            relation_of=relations.relation_of,
            index_of=lambda read: paths[read].index,
            graph=WindowGraph(edges, name_of, labels, lambda edge: relations.time_of(edge, edges), values),
        )

    @property
    def nbytes(self) -> int:
        """The size in memory of this query alone, in bytes."""
        return self._solutions.nbytes

    def figures(self) -> Figures:
        edges, cells = self._relations.sizes(None if self._graph is None else self._graph.edges)
        return self._figures(answers=len(self._own_rows(self._ids_of_answers())), edges=edges, cells=cells)

    def restore_root(self, root: int) -> list[tuple[str, Delta]]:
        return self._host.restore_root(self._relations.path_contents, root)

    def _check(self) -> None:
        """Assert that counted solutions are those of the relations. O(edges + answers)."""
        if not self._is_direct:
            rows = {meaning: self._rows_of_parts(meaning) for meaning in self._joined_meanings}
            self._solutions.check({meaning: self._columns_of_parts(meaning) for meaning in rows}, rows)


def _coordinates_of(question: PatternQuery, share: Share) -> dict[str, tuple[int, int]]:
    """Return the coordinates of a share (number, of how many) by variable, as plans have it."""
    cube = question.hypercube
    if cube is None or share.total == 1:
        return {}
    found = cube.grid(share.total, share.sizes).coordinates(share.number)
    if found is None:  # no vertex has these
        found = {name: (1, 1) for name, _ in cube.columns}
    return {variable(name): coordinate for name, coordinate in found.items()}


KIND = QueryKind(
    name="pattern",
    question=PatternQuery,
    start=RunningPattern,
    to_json=content_of,
    read=partial(read_content, kind=PatternQuery),
    host=PatternHost,
)
