"""A graph pattern while it runs: which relations it reads, its plans in the host, and its rows.

Most patterns are one part, and the rows of the kernels are its rows. Where a pattern has several parts, atoms without
variables, literals or DISTINCT, `Solutions` makes its rows from theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rpq.compiled.cycle_counter import LATENCY_BUCKETS
from rpq.errors import ConflictBudgetError
from rpq.files.described import Damage, Described
from rpq.paths.budget import aside_of, budget_error
from rpq.patterns import tables
from rpq.patterns.chains import alone, chains_to_evaluate
from rpq.patterns.delivered import PartRows, events_of
from rpq.patterns.directed_atoms import Neighbours, PathRead, Roots, directed
from rpq.patterns.explained import Explanation
from rpq.patterns.meanings import Meaning, meanings_of, variable
from rpq.patterns.path_relations import Need, PathContent, PathRelation, content_of
from rpq.patterns.pattern_host import PatternHost, Place
from rpq.patterns.pattern_witness import Held, witness_of
from rpq.patterns.plan import Part, Plan, condition_part, is_one_part, plan_pattern
from rpq.patterns.running_explained import explain_running
from rpq.patterns.shared_relations import Content
from rpq.patterns.solutions import Solutions
from rpq.patterns.tally import Tally
from rpq.patterns.witnessed import Witness
from rpq.queries import written_patterns
from rpq.queries.kinds import Kind
from rpq.queries.label_set import LabelSet
from rpq.queries.protocol import COUNTS, Figures, Overrun, Resources, RunningQuery, Worker
from rpq.queries.query import PatternQuery
from rpq.results.changes import SetAside
from rpq.results.delta import Delta, IdRows
from rpq.results.netting import ends_of_kept, net_rows
from rpq.stream.chunk import Chunk
from rpq.stream.snapshot import Edges, SnapshotGraph
from rpq.stream.vertices import VertexDictionary

_NOT_HELD = int(np.iinfo(np.int64).min)
_LARGEST_COUNT = 2**56
_BYTES_AN_EDGE = 100
"""About what an edge takes: its record, its entries in the hash table and in two lists."""


class Derived(NamedTuple):
    """A path of a pattern: what is read for it, from where, and the roots that it needs there."""

    read: PathRead
    content: PathContent
    need: Need | None


class RunningPattern(RunningQuery):
    """A registered pattern."""

    question: PatternQuery
    workers: Sequence[Worker] = ()
    needs_room = False
    witnesses_are_of_now = True

    def __init__(self, question: PatternQuery, resources: Resources) -> None:
        self.question = question
        self.report = question.report
        self.is_divided = bool(question.pattern.constants) or resources.share[1] > 1
        # A join of edges alone needs no index, and what it holds is no more than they are.
        has_paths = bool(question.pattern.path_expressions)
        self._chains = chains_to_evaluate(question) if has_paths else alone(question.pattern.atoms)
        atoms = directed([chain.atom for chain in self._chains])
        self._labels = sorted({atom.reads for atom in atoms if isinstance(atom.reads, str)})
        self._paths = list(dict.fromkeys(atom.reads for atom in atoms if isinstance(atom.reads, PathRead)))
        self._host: PatternHost = resources.host
        self._graph: SnapshotGraph | None = None
        self._meanings = meanings_of(atoms, isomorphism=self._is_isomorphism)
        self._reads = [atom.reads for atom in atoms]
        self._names = sorted({name for meaning in self._meanings for name in meaning.names})
        self._is_counted = question.window.kind == "count"
        self._repeats = False  # whether two bindings may give the same row
        self._is_direct = self._rows_are_those_of_its_part()
        self._solutions = Solutions(
            select=[variable(name) for name in question.columns],
            meanings=len(self._meanings),
            most_parts=len(question.pattern.atoms),
            distinct=question.distinct,
            differ=self._is_isomorphism,
        )
        self._ids: dict[int, dict[str, int | None]] = {}  # of a meaning's constants, as its plans have them
        self._parts: dict[int, list[tuple[int, Part]]] = {}  # of a meaning: the numbers that the host gave
        self._most_rows = resources.rows.limit if question.report == "change" else None
        self._rows = np.zeros(2, np.int64)
        self._order = tuple(range(len(question.columns)))
        self._origin = self._host.new_origin() if resources.is_late else 0
        self._host.members[question.name] = self
        self._host.constants.take(question.name, self._names)
        # Its windows are loaded next, and everything is counted then.
        self._enter(most=0)

    @property
    def _is_netted(self) -> bool:
        """Whether a solution may leave and come back in one event: of a count window that an insert moves.

        Where there are paths it is the rows that are told whether what they lose is lost by an eviction alone.
        """
        return self._is_counted and (self._repeats or not self._is_direct or bool(self._paths))

    @property
    def _is_isomorphism(self) -> bool:
        return self.question.matching == "isomorphism"

    def _rows_are_those_of_its_part(self) -> bool:
        if len(self._meanings) != 1 or (self.question.distinct and not self._meanings[0].shown_by(self.question.columns)):
            return False
        numbers: dict[str | PathRead, int] = {}
        atoms = self._meanings[0].atoms(lambda reads: numbers.setdefault(reads, len(numbers)), self._names.index)
        if not is_one_part(atoms):
            return False
        named = {term for atom in atoms for term in (atom.source, atom.target) if isinstance(term, str)}
        self._repeats = len(named) > len(self.question.columns)
        return True

    def _plan(self, meaning: Meaning, relation_of: Callable[[str | PathRead], int], id_of: Callable[[str], int]) -> Plan:
        atoms = meaning.atoms(relation_of, id_of)
        select = [variable(name) for name in self.question.columns]
        plan = plan_pattern(atoms, select=select, isomorphism=self._is_isomorphism)
        if self._is_isomorphism and len(plan.parts) > 1:
            # Variables of different parts are compared where their product is formed, so all have to be there.
            everything = [name for part in plan.parts for name in part.variables]
            plan = plan_pattern(atoms, select=everything, isomorphism=True)
        return plan

    # --- relations and plans ---------------------------------------------------------------------------------

    def _content(self, label: str, *, loopless: bool) -> Content:
        question = self.question
        return Content(label, question.window, self._numbered, self._origin, loopless)

    @property
    def _numbered(self) -> LabelSet | None:
        """Of a count window: the labels whose inserts it numbers."""
        return self.question.label_set if self._is_counted else None

    @property
    def _held(self) -> list[Content]:
        """For each label the relation with all its edges in the window, which counts; none where a tally does."""
        return [] if self._paths else [self._content(label, loopless=False) for label in self._labels]

    @property
    def _joined(self) -> list[Content]:
        """For each label the relation that atoms read."""
        return [self._content(label, loopless=self.question.paths == "simple") for label in self._labels]

    @property
    def contents(self) -> set[Content | PathContent]:
        """What its relations hold."""
        return {*self._edge_contents, *(derived.content for derived in self._derived)}

    @property
    def _edge_contents(self) -> set[Content]:
        return {*self._held, *self._joined}

    def _what_paths_read(self) -> list[Derived]:
        return [
            Derived(read, content_of(read.expression, self.question, self._origin), self._need(read.roots))
            for read in self._paths
        ]

    @property
    def _path_relations(self) -> Iterator[PathRelation]:
        return (self._host.paths[derived.content] for derived in self._derived)

    def _need(self, roots: Roots) -> Need | None:
        if isinstance(roots, Neighbours):
            content = self._content(roots.label, loopless=self.question.paths == "simple")
            return Need(roots.names, content, roots.inward)
        return None if roots is None else Need(roots)

    @property
    def _tally(self) -> Tally:
        """What counts where there are path atoms."""
        return self._host.tally(self.question.window, self._numbered, self._origin)

    @property
    def _reader(self) -> tuple[object, ...]:
        """Its labels, to the tally."""
        return (*self._labels, *(derived.content.words for derived in self._derived))

    def _enter(self, *, most: int | None = None) -> None:
        """Take relations and put plans in; `most` as `resolve`."""
        for content in self._edge_contents:
            self._host.relations.take(content)
        self._derived = self._what_paths_read()
        for read, path_content, need in self._derived:
            self._host.paths.take(path_content, read.expression, self.question, need)
        if self._paths:
            self._tally.take(self._reader)
            self.set_labels(*self._host.relations.labels())
        self._counted_before = self._counted()
        self._latency_before = self._host.latency.copy()
        self.resolve(most=most)

    def leave(self) -> None:
        """Let go of relations and plans."""
        self._withdraw()
        self._host.constants.release(self.question.name, self._names)
        del self._host.members[self.question.name]

    def _withdraw(self) -> None:
        self._solutions.clear()
        for meaning in [*self._parts]:
            self._take_out(meaning)
        self._ids.clear()
        if self._paths:
            self._tally.release(self._reader)
        for _, path_content, need in self._derived:
            self._host.paths.release(path_content, self.question, need)
        for content in self._edge_contents:
            self._host.relations.release(content)

    def resolve(self, *, most: int | None = None) -> None:
        """Put in the plans of meanings all of whose constants are vertices now; take out those of others.

        A meaning of which a constant has no id or another one has no solutions: the vertex it was had no edge left.
        Where there are more than `most` solutions not all are counted, and they have to be before anything changes.
        """
        for number, meaning in enumerate(self._meanings):
            ids = {name: self._host.constants.id_of(name) for name in meaning.names}
            if ids != self._ids.get(number):
                self._take_out(number)
                self._ids[number] = ids
                if None not in ids.values():
                    self._put_in(number, most)

    def _put_in(self, number: int, most: int | None) -> None:
        relation: dict[str | PathRead, int] = {content.label: self._host.relations[content] for content in self._joined}
        relation |= {derived.read: self._host.paths[derived.content].number for derived in self._derived}
        ids = self._ids[number]

        def id_of(name: str) -> int:
            identity = ids[name]
            assert identity is not None
            return identity

        plan = self._plan(self._meanings[number], relation.__getitem__, id_of)
        parts = [*plan.parts, *map(condition_part, plan.conditions)]
        # What expires silently has to be known where it is counted, or may come back in the same event.
        explicit = self.question.semantics == "explicit" or not self._is_direct or self._is_netted
        is_told = self._is_direct and not self._is_netted and self.question.report == "change"
        name = self.question.name
        self._parts[number] = [
            (self._host.add_part(name, Place(number, place), part, explicit=explicit, told=is_told), part)
            for place, part in enumerate(parts)
        ]
        self._count_solutions(number, most=most)

    def _take_out(self, number: int) -> None:
        for part, _ in self._parts.pop(number, []):
            self._host.remove_part(part)
        self._solutions.drop(number)

    def _count_solutions(self, number: int, *, most: int | None) -> None:
        """Have the solutions of a meaning as the relations have them now; of more than `most` not all."""
        if self._is_direct:
            return
        self._solutions.put(number, self._columns_of_parts(number), self._rows_of_parts(number), most=most)

    def _columns_of_parts(self, meaning: int) -> list[tuple[str, ...]]:
        return [part.columns for _, part in self._parts[meaning]]

    def _rows_of_parts(self, meaning: int) -> list[np.ndarray]:
        """The rows of each part of a meaning now: (row, column). O(edges, and what joining them costs)."""
        return [
            rows.values.reshape(rows.row_count, len(part.columns))
            for rows, part in ((self._host.rows_of_part(number), part) for number, part in self._parts[meaning])
        ]

    # --- what it reads ---------------------------------------------------------------------------------------

    def set_labels(self, labels: np.ndarray, names: Sequence[str]) -> None:
        if self._paths:
            self._tally.read(self._reader, labels, self.reads(labels)[:, 0])

    def reads(self, labels: np.ndarray) -> np.ndarray:
        read = np.zeros(len(labels), bool)
        for label in self._labels:
            read |= labels == self._host.relations.label_id(label)
        for relation in self._path_relations:
            read |= relation.reads(labels)
        return read[:, None]

    def make_room(self, vertices: VertexDictionary, fresh: np.ndarray, graph: SnapshotGraph) -> None:
        self._graph = graph
        self.vertex_room = self._host.vertex_room

    def count_from(self, numbers: Sequence[int]) -> None:
        if self._is_counted:
            for content in self._edge_contents:
                self._host.relations.set_number(content, numbers[0])
            for derived in self._derived:
                self._host.paths.count_from(derived.content, numbers[0])
            if self._paths:
                self._tally.count_from(numbers[0])

    def load_static(self, chunk: Chunk) -> None:
        self._host.ask_for(_BYTES_AN_EDGE * len(chunk.edge))
        for content in self._edge_contents:
            mine = chunk.label == self._host.relations.label_id(content.label)
            self._host.relations.enter_static(content, chunk.source[mine], chunk.target[mine])
        for derived in self._derived:
            self._host.paths.load_static(derived.content, chunk)

    def load(self, time: int, chunk: Chunk | None, *slides: np.ndarray, quiet: bool = False) -> list[Delta]:
        self._host.advance(time)
        if chunk is not None:
            self._fill(chunk, slides[0], is_checked=quiet)
        # More than these will be refused.
        most = None if quiet or chunk is None or not self._host.division.is_whole else self._most_rows
        self._solutions.clear()
        for number in self._parts:
            self._count_solutions(number, most=most)
        if quiet or chunk is None:
            return []
        ids = self._own(self._ids_of_answers(most=most))
        return [self._told(ids, np.array([time]), np.array([len(ids)]), np.array([1], np.int8), np.array([1]))]

    def _fill(self, chunk: Chunk, slides: np.ndarray, *, is_checked: bool) -> None:
        """Let the relations that are empty have the edges that are theirs; others have them, as `is_checked`."""
        store = self._host.store
        for content in self._edge_contents:
            mine = chunk.label == self._host.relations.label_id(content.label)
            if content.loopless:
                mine &= chunk.source != chunk.target
            source, target, expires = chunk.source[mine], chunk.target[mine], slides[mine]
            number = self._host.relations[content]
            if not store.edges_held(number):
                self._host.ask_for(_BYTES_AN_EDGE * len(source))
                store.fill_relation(number, source, target, chunk.timestamp[mine], expires)
            elif is_checked and (
                store.edges_held(number) != len(source)
                or (store.expiries(number, source, target, _NOT_HELD) != expires).any()
            ):
                raise Damage(f"query {self.question.name!r} holds other edges than one that has the same")
        for derived in self._derived:
            self._host.paths.load(derived.content, chunk, slides, is_checked=is_checked)
            self._host.settle(derived.content)
        if self._paths:
            self._tally.load(self._reader, chunk, slides, is_checked=is_checked)

    # --- what it tells ---------------------------------------------------------------------------------------

    def delta(self, found: dict[Place, PartRows]) -> Delta:
        """The rows that changes of its parts make."""
        if not self._is_direct:
            return self._delta_of_solutions(found)
        ((runs, values),) = found.values()
        last, ends = events_of(runs)
        if not len(values):
            return self._counted_alone(last, ends)
        ids = values.reshape(-1, len(self.question.columns))
        if not self._host.division.is_whole:
            ids, ends, some = self._own_of(ids, ends)
            last = last[some]
        kinds = last[:, tables.RUN_SIGN].astype(np.int8)
        told = ids, last[:, tables.RUN_TIME], ends, kinds, last[:, tables.RUN_ORDER]
        return self._told(*(self._net(*told) if self._is_netted else told))

    def _net(
        self, ids: np.ndarray, times: np.ndarray, ends: np.ndarray, kinds: np.ndarray, orders: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The rows of events without those that leave and come back in one, nor those that an eviction takes in silence."""
        kept = net_rows(ids, ends, kinds, orders)
        if self.question.semantics == "implicit" and len(ends):
            is_insert = (orders % 2 == 1) & (kinds < 0)
            is_insert[is_insert] = self._host.is_delete[orders[is_insert] // 2] == 0
            kept &= ~np.repeat(is_insert, np.diff(ends, prepend=0))
        ends = ends_of_kept(kept, ends)
        some = np.diff(ends, prepend=0) > 0
        return ids[kept], times[some], ends[some], kinds[some], orders[some]

    def _delta_of_solutions(self, found: dict[Place, PartRows]) -> Delta:
        # Where the row guard would refuse them, not all are found; of a share it is told which are its own first.
        most = None if self._is_netted or not self._host.division.is_whole else self._most_rows
        ids, events = self._solutions.change(found, explicit=self.question.semantics == "explicit", most=most)
        orders, times, signs, ends = np.ascontiguousarray(events.T)
        if not self._host.division.is_whole:
            ids, ends, some = self._own_of(ids, ends)
            orders, times, signs = orders[some], times[some], signs[some]
        told = ids, times, ends, signs.astype(np.int8), orders
        return self._told(*(self._net(*told) if self._is_netted else told))

    def _own_of(self, ids: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows, ends, events): the rows of this share, and where those of events end, of which some have none."""
        own = self._host.is_own[ids[:, 0]]
        ends = np.append(0, np.cumsum(own))[ends]
        some = np.diff(ends, prepend=0) > 0
        return ids[own], ends[some], some

    def _told(self, ids: np.ndarray, times: np.ndarray, ends: np.ndarray, kinds: np.ndarray, orders: np.ndarray) -> Delta:
        return self._note(
            Delta(ids=self._id_rows(ids), times=times, ends=ends, kinds=kinds, orders=orders, is_lasting=True)
        )

    def _counted_alone(self, last: np.ndarray, ends: np.ndarray) -> Delta:
        """As many rows as runs say, which nobody wants to see; `last` is the last run of each event."""
        kinds = last[:, tables.RUN_SIGN].astype(np.int8)
        orders = last[:, tables.RUN_ORDER]
        return self._note(Delta(ids=None, times=last[:, tables.RUN_TIME], ends=ends, kinds=kinds, orders=orders))

    def _note(self, delta: Delta) -> Delta:
        """A delta that is told, its rows counted."""
        if len(delta.ends) == 1:
            self._rows[0 if delta.kinds[0] > 0 else 1] += delta.ends[0]
        else:
            self._rows += delta.counts()
        return delta

    def _id_rows(self, ids: np.ndarray) -> IdRows:
        return IdRows(ids, self._order)

    def _is_own(self, row: tuple[int, ...]) -> bool:
        return self._host.division.is_whole or bool(self._host.is_own[row[0]])

    def _own(self, ids: np.ndarray) -> np.ndarray:
        return ids if self._host.division.is_whole else ids[self._host.is_own[ids[:, 0]]]

    def _ids_of_answers(self, *, most: int | None = None) -> np.ndarray:
        """The answer; where it has more than `most` rows, only some more than that."""
        if not self._is_direct:
            return self._solutions.answers(most=most)
        if not self._parts:
            return np.zeros((0, len(self.question.columns)), np.int32)
        ((number, _),) = self._parts[0]
        return self._host.rows_of_part(number, most=most).values.reshape(-1, len(self.question.columns))

    def slides(self, edges: np.ndarray) -> list[np.ndarray]:
        assert self._graph is not None
        held = self._graph.edges
        if self._paths:
            return [self._tally.slides(self._reader, edges, held.label[edges])]
        found = np.full(len(edges), _NOT_HELD, np.int64)
        for content in self._held:
            mine = held.label[edges] == self._host.relations.label_id(content.label)
            source, target = held.source[edges][mine], held.target[edges][mine]
            found[mine] = self._host.store.expiries(self._host.relations[content], source, target, _NOT_HELD)
        return [found]

    def answers(self) -> list[IdRows]:
        return [self._id_rows(self._own(self._ids_of_answers()))]

    def explain(self) -> Explanation:
        meanings = [(meaning, self._parts.get(number)) for number, meaning in enumerate(self._meanings)]
        contents: dict[str, Content | PathContent] = {content.label: content for content in self._joined}
        contents |= {derived.read.expression: derived.content for derived in self._derived}
        of_reads: dict[str | PathRead, Content | PathContent] = {content.label: content for content in self._joined}
        of_reads |= {derived.read: derived.content for derived in self._derived}
        is_each_alone = len(self._chains) == len(self.question.pattern.atoms)
        of_atoms = [of_reads[reads] for reads in self._reads] if is_each_alone else []
        return explain_running(self.question, self._host, meanings, contents, of_atoms)

    def witness(
        self, answer: tuple[int, ...], edges: Edges, vertices: VertexDictionary, labels: list[str]
    ) -> Witness | None:
        if not self._is_own(answer):
            return None
        known = {variable(name): value for name, value in zip(self.question.columns, answer, strict=True)}
        relation = {content.label: self._host.relations[content] for content in self._joined}
        return witness_of(
            [(self._meanings[number], [part for _, part in parts]) for number, parts in self._parts.items()],
            known,
            question=self.question,
            chains=self._chains,
            host=self._host,
            relation_of=relation.__getitem__,
            index_of={derived.read: self._host.paths[derived.content].index for derived in self._derived}.__getitem__,
            graph=Held(edges, vertices, labels, lambda edge: self._tally.time_of(edge, int(edges.timestamp[edge]))),
        )

    def witnesses(self, delta: Delta, edges: Edges, vertices: VertexDictionary, labels: list[str]) -> pa.Array:
        is_added = np.repeat(delta.kinds > 0, delta.lengths()).tolist()
        texts = []
        for row, added in zip(delta.as_lists(), is_added, strict=True):
            found = self.witness(row, edges, vertices, labels) if added else None
            texts.append("" if found is None else found.to_json())
        return pa.array(texts, pa.string())

    def rows(self) -> np.ndarray:
        return self._rows.copy()

    def _counted(self) -> np.ndarray:
        """What the relations and the host have counted, in the order of `COUNTS`."""
        store, relations = self._host.store, self._host.relations
        if self._paths:
            relevant = self._tally.counted(self._reader)
            return np.append(relevant, self._host.tuples - relevant.sum())
        relevant = sum((store.counted(relations[content]) for content in self._held), np.zeros(len(COUNTS) - 1, np.int64))
        return np.append(relevant, self._host.tuples - relevant.sum())

    def _counts(self) -> list[int]:
        counts: list[int] = (self._counted() - self._counted_before).tolist()
        return counts

    def _latency(self) -> np.ndarray:
        """Tuples since it was registered that some pattern reads, by ticks: the work of a tuple is that of all patterns."""
        latency: np.ndarray = self._host.latency - self._latency_before
        return latency

    @property
    def nbytes(self) -> int:
        """Bytes held beside what the host holds for all."""
        return self._solutions.nbytes

    def figures(self) -> Figures:
        counted = self._held or self._joined
        edges = cells = sum(self._host.store.edges_held(self._host.relations[content]) for content in counted)
        if self._paths:
            assert self._graph is not None
            edges = self._tally.edges_live(self._reader, self._graph.edges.label)
            cells += sum(relation.index.live()[0] for relation in self._path_relations)
        added, removed = self._rows.tolist()
        return Figures(
            counts=tuple(self._counts()),
            added=added,
            removed=removed,
            answers=len(self._own(self._ids_of_answers())),
            edges=edges,
            cells=cells,
            nbytes=self._host.nbytes // len(self._host.members),
            latency=self._latency(),
        )

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def may_overrun(self) -> bool:
        return any(relation.index.may_overrun for relation in self._path_relations)

    def take_overruns(self) -> list[Overrun]:
        return [overrun for relation in self._path_relations for overrun in relation.take_overruns(self.question.name)]

    def overrun_error(self, report: SetAside) -> ConflictBudgetError | None:
        return budget_error(self.question, report)

    def set_aside(self) -> list[int]:
        return sorted({root for relation in self._path_relations for root in relation.index.aside})

    def restore_root(self, root: int) -> list[tuple[str, Delta]]:
        return self._host.restore_root({derived.content for derived in self._derived}, root)

    # --- to go on later --------------------------------------------------------------------------------------

    def saved(self, name_of: Callable[[int], int | str]) -> dict[str, Any]:
        return {
            "counters": dict(zip(COUNTS, self._counts(), strict=True)),
            "rows": self._rows.tolist(),
            "latency": [(bucket, count) for bucket, count in enumerate(self._latency().tolist()) if count],
            "origin": self._origin,
            "set_aside": [
                [(name_of(root), size) for root, size in relation.index.aside.items()] for relation in self._path_relations
            ],
        }

    def restore(self, saved: Described, load: Callable[[], None], id_of: Callable[[int | str], int]) -> None:
        counts = [saved["counters"][name].whole(0, _LARGEST_COUNT) for name in COUNTS]
        rows = [count.whole(0, _LARGEST_COUNT) for count in saved["rows"].tuple_of(2)]
        latency = np.zeros(LATENCY_BUCKETS, np.int64)
        for bucket, count in (entry.tuple_of(2) for entry in saved["latency"]):
            latency[bucket.whole(0, LATENCY_BUCKETS - 1)] = count.whole(0, _LARGEST_COUNT // LATENCY_BUCKETS)
        origin = saved["origin"].whole(0, _LARGEST_COUNT)
        if origin != self._origin:
            self._withdraw()
            self._host.know_origin(origin)
            self._origin = origin
            self._enter()
        aside = self._read_aside(saved, id_of)
        for relation, roots in zip(self._path_relations, aside, strict=True):
            if not relation.is_loaded:
                relation.index.set_aside(roots)
        load()
        now_aside = [relation.index.aside for relation in self._path_relations]
        if any(now.keys() != roots.keys() for now, roots in zip(now_aside, aside, strict=True)):
            raise Damage("a root is set aside that meets no conflict")
        self._counted_before = self._counted() - np.array(counts, np.int64)
        self._latency_before = self._host.latency - latency
        self._rows[:] = rows

    def _read_aside(self, saved: Described, id_of: Callable[[int | str], int]) -> list[dict[int, int]]:
        """Of each path the roots that were set aside, with the size at which each was. Raises `Damage`."""
        if "set_aside" not in saved:
            return [{} for _ in self._paths]
        return [aside_of(roots, id_of) for roots in saved["set_aside"].tuple_of(len(self._paths))]

    def _check(self) -> None:
        """Assert that what is counted of parts is what the relations hold. O(answers)."""
        if not self._is_direct:
            rows = {meaning: self._rows_of_parts(meaning) for meaning in self._parts}
            self._solutions.check({meaning: self._columns_of_parts(meaning) for meaning in rows}, rows)


KIND = Kind(
    name="pattern",
    question=PatternQuery,
    start=RunningPattern,
    described=written_patterns.described,
    read=written_patterns.read,
    host=PatternHost,
)
