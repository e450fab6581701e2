"""The plans of all patterns in one set of tables of records, which kernels interpret (`tables.py`).

A pattern is added at the end of the tables, and removed by unlinking its seeds. When more than half of the seeds are of
removed patterns, the tables are rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from ctypes import sizeof
from typing import Any, Literal, NamedTuple

import numpy as np

from rpq.compiled.cycle_counter import LATENCY_BUCKETS, new_deadline
from rpq.compiled.views import Record, bound, lengthen, view
from rpq.language.linear_comparisons import LinearComparison
from rpq.operators.patterns import tables
from rpq.operators.patterns.joins.condition_graph import BranchShape, ConditionGraph, Needs
from rpq.operators.patterns.joins.plan import Component, Look, Reach, Step, Term, Test
from rpq.operators.patterns.joins.seeds import link_seeds, unlink_seeds
from rpq.operators.patterns.joins.supports import SupportTables, Tree, can_have_supports
from rpq.operators.patterns.relations.relation import RelationStore
from rpq.operators.patterns.tables import IN, NONE, OUT, Plans
from rpq.stream.edges.outcomes import DELETED, INSERTED
from rpq.stream.gc_pause import gc_paused
from rpq.stream.names.edge_vertices import EdgeVertices, NumberName

_RECORDS: dict[str, type[Record]] = {
    "seed": tables.SeedRecord,
    "step": tables.StepRecord,
    "reach": tables.ReachRecord,
    "test": tables.TestRecord,
    "look": tables.LookRecord,
    "comparison": tables.ComparisonRecord,
    "term": tables.TermRecord,
    "constant": tables.ConstantSlot,
}
_MAX_STEPS = 33
_bound_kernels: dict[Any, Any] = {}
"""Bound kernels, shared by all tables, since their arguments have the same types."""
MANY = 1000
"""The number of parts from which seeds are found by the conditions that they need.

Below half of this number, seeds are found by their relation alone, because maintaining conditions takes longer than
examining the seeds that they would exclude.
"""


class Work(NamedTuple):
    """The work that a query caused."""

    looks: int
    """Values that the join examined and that gave no row by themselves."""
    rows: int
    """Rows that the join wrote."""
    entries: int
    """Changes of the support lists of the query."""


class _Shape(NamedTuple):
    """The records of a part that do not depend on the query. Steps are counted from the first one of the part."""

    part: Component  # stored to keep the object alive whose identity is the key
    seeds: np.ndarray  # tables.SeedRecord
    steps: np.ndarray  # tables.StepRecord
    constant_slots: list[tuple[int, int]]  # (slot, constant)
    constants: list[tuple[int, str, int]]  # (seed, field, rank): a field with the vertex of the constant of a rank


class PlanTables:
    """The plans that read the relations of a store. `add` and `remove` may replace the arrays `plans`."""

    def __init__(
        self,
        store: RelationStore,
        *,
        sharing: Literal["auto", "always", "never"] = "auto",
        deadline: np.ndarray | None = None,
    ) -> None:
        self.store = store
        self.sharing = sharing
        self.vertex_of_constant: dict[int, int] = {}
        """The vertices of constants, by their numbers."""
        self.edges: EdgeVertices | None = None
        """The edges whose values are compared, None before there are any."""
        self._number_columns: dict[NumberName, int] = {}
        self.graph = ConditionGraph(store, self.vertex_of_constant)
        self.plans = Plans(
            **{name: record.zeros(0) for name, record in _RECORDS.items()},
            numbers=np.zeros(0),
            conditions=self.graph.conditions,
            binding=np.zeros(tables.SLOTS, np.int32),
            frame=tables.SearchFrame.zeros(_MAX_STEPS),
            latency=np.zeros(LATENCY_BUCKETS, np.int64),
            state=tables.PlanState(seed=NONE, step=NONE),
            deadline=new_deadline() if deadline is None else deadline,
        )
        self._used_records = dict.fromkeys(_RECORDS, 0)
        self._bytes: dict[str, memoryview] = {}  # the bytes of the tables: NumPy would write records field by field
        self._supports = SupportTables(store)
        self._trees: dict[int, Tree] = {}
        self._parts: dict[int, tuple[Component, bool, tuple[int, ...] | None]] = {}
        self._linked_queries: dict[int, None] = {}  # queries whose changes are enumerated
        self._seed_atoms: dict[int, dict[int, int]] = {}  # query to its seeds, each with its atom
        self._work: dict[int, dict[int, tuple[int, int]]] = {}  # query and atom to looks and rows taken from the tables
        self._needs: dict[int, Needs] = {}  # for each query, while conditions are shared
        self._shapes: dict[int, _Shape] = {}  # by the identity of a part
        self._shape_of: dict[int, _Shape] = {}  # query to its shape
        self._garbage = 0
        self._views: tuple[Any, Any, Any, Any] = (None, None, None, None)

    def update_conditions(self) -> None:
        """Give kernels the current conditions, with room for all vertices, relations and seeds. O(1) if nothing changed."""
        self.graph.ensure_room(self._used_records["seed"])
        if self.plans.conditions is not self.graph.conditions:
            self.plans = self.plans._replace(conditions=self.graph.conditions)

    def update_numbers(self) -> None:
        """Give kernels the current numbers of edges that are compared. O(1) if they have not moved."""
        if self._number_columns and self.edges is not None:
            numbers = self.edges.numbers_with(tuple(self._number_columns))
            if numbers is not self.plans.numbers:
                self.plans = self.plans._replace(numbers=numbers)
                self.plans.state.number_columns = len(self._number_columns)

    @property
    def changes(self) -> int:
        """The number of changes of edges so far."""
        state = self.plans.state
        return state.outcomes[INSERTED] + state.outcomes[DELETED] + state.expired_edges

    def is_linked(self, query: int) -> bool:
        """Return whether changes of a query's relations are enumerated."""
        return query in self._linked_queries

    def queries(self) -> list[int]:
        """Return the queries that have a part whose changes are enumerated."""
        return list(self._linked_queries)

    def queries_at_work(self) -> set[int]:
        """Return the linked queries that have caused work since their work was last taken. O(seeds), in one pass."""
        seeds = self.plans.seed[: self._used_records["seed"]]
        is_busy = (seeds["visited_values"] != 0) | (seeds["written_rows"] != 0)
        return {query for query in np.unique(seeds["query"][is_busy]).tolist() if query in self._linked_queries}

    def pop_work(self, query: int) -> Work:
        """Return the work of a query since the last call. O(its atoms, and seeds of the relations that it reads)."""
        looks, rows = self._pop_counts(query)
        return Work(looks, rows, self._supports.pop_work(self._trees[query]) if query in self._trees else 0)

    def work_of(self, query: int) -> dict[int, tuple[int, int]]:
        """Return the numbers of values examined and of rows written by the seed of each atom since the query was added."""
        self._pop_counts(query)
        return self._work[query]

    def _pop_counts(self, query: int) -> tuple[int, int]:
        """Add the counts of the seeds of a query to its work. Return looks and rows since the last call. O(its atoms)."""
        work, looks, rows = self._work[query], 0, 0
        visited_values, written_rows = self.plans.seed["visited_values"], self.plans.seed["written_rows"]
        for seed, atom in self._seed_atoms[query].items():
            seed_looks, seed_rows = visited_values.item(seed), written_rows.item(seed)
            if seed_looks or seed_rows:
                looks, rows = looks + seed_looks, rows + seed_rows
                atom_looks, atom_rows = work[atom]
                work[atom] = atom_looks + seed_looks, atom_rows + seed_rows
                visited_values[seed] = written_rows[seed] = 0
        return looks, rows

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(table.nbytes for table in self.plans if not isinstance(table, tables.Conditions)) + self.graph.nbytes

    def cheapest_seed(self, query: int) -> tuple[int, int]:
        """Return the seed of a query with the fewest edges in its relation, and that relation."""
        edge_counts = self.store.relations.relation["edges"]
        part = self._parts[query][0]
        relation = min((part.atoms[seed.atom].relation for seed in part.seeds), key=edge_counts.__getitem__)
        seeds = self._seed_atoms[query].items()
        return next(seed for seed, atom in seeds if part.atoms[atom].relation == relation), relation

    def narrowest_seed(self, query: int) -> tuple[int, int, int, int] | None:
        """Return a seed of a query, its relation, a side, and the first record of the node that the seed needs at that side.

        None if no seed needs a node at a side whose lists are stored.
        """
        if query not in self._needs or self.graph.is_stale:
            return None
        atoms, ends = self._parts[query][0].atoms, self._needs[query].ends
        found = None
        for (seed, atom), nodes in zip(self._seed_atoms[query].items(), ends, strict=True):
            relation = atoms[atom].relation
            for side, node in enumerate(nodes):
                if node and self.store.header(relation, side)[0] != NONE:
                    found = seed, relation, side, self.graph.first_record(node)
                    if self.graph.is_constant(node):
                        return found
        return found

    def columns(self, query: int) -> tuple[str, ...]:
        """Return the columns of a query's rows."""
        return self._parts[query][0].columns

    def bind(self, constant: int, vertex: int | None) -> None:
        """Bind a constant, by its number, to a vertex or to none. The parts that contain it must then be linked again."""
        if vertex is None:
            self.vertex_of_constant.pop(constant, None)
        else:
            self.vertex_of_constant[constant] = vertex
            self.store.make_room_for_vertices(vertex + 1)
        self.graph.bind(constant)

    def add(
        self,
        query: int,
        part: Component,
        *,
        explicit: bool,
        constants: tuple[int, ...] | None = None,
        is_linked: bool = True,
    ) -> None:
        """Add the plan of a part, whose rows are those of a query. With `explicit`, rows that expire are reported as well.

        If the constants of the part are ranks, `constants` has their vertices, or their numbers (below -1). Changes are
        enumerated once the query is linked. O(the plan, and the edges of relations of which a side was not stored before).
        """
        if query in self._parts:
            raise ValueError(f"query {query} has a part already")
        # A constant need not be a vertex of any edge so far.
        ranks = (term for term in part.slots if not isinstance(term, str))
        self.store.make_room_for_vertices(max((self._vertex(term, constants) + 1 for term in ranks), default=0))
        for relation, forward in sorted(part.sides()):
            self.store.add_side(relation, OUT if forward else IN)
        self._parts[query] = part, explicit, constants
        self._work[query] = {seed.atom: (0, 0) for seed in part.seeds}
        if self.graph.is_on:
            self._needs[query] = self.graph.add(part, constants)
        if is_linked:
            self._linked_queries[query] = None
        self._write(query)
        self._choose_sharing()

    def remove(self, query: int) -> None:
        """Remove a query. O(seeds of the relations that it reads)."""
        if query in self._trees:
            self._supports.remove(self._trees.pop(query))
        self._discard_seeds(query, self._parts.pop(query)[0])
        self._linked_queries.pop(query, None)
        del self._work[query], self._seed_atoms[query], self._shape_of[query]
        if self.graph.is_on:
            self.graph.release(self._needs.pop(query))
        self._choose_sharing()

    def link(self, query: int) -> None:
        """Enumerate changes of a query's relations from now on. All its constants must be vertices. O(its seeds)."""
        constants = self._parts[query][2]
        if constants:
            shape = self._shape_of[query]
            vertices = [self._vertex(rank, constants) for rank in range(len(constants))]
            first = next(iter(self._seed_atoms[query]))
            for seed, field, rank in shape.constants:
                self.plans.seed[field][first + seed] = vertices[rank]
            for place, (_, rank) in enumerate(shape.constant_slots, self.plans.seed["constants"].item(first)):
                self.plans.constant["vertex"][place] = vertices[rank]
        self._linked_queries[query] = None
        self._call(link_seeds, query)

    def unlink(self, query: int) -> None:
        """Stop enumerating changes of a query's relations. O(its seeds)."""
        del self._linked_queries[query]
        self._call(unlink_seeds, query)

    def _check(self) -> None:
        """Assert that linked seeds require the vertices that their constants are bound to."""
        for query in self._linked_queries:
            constants, shape = self._parts[query][2], self._shape_of[query]
            first = next(iter(self._seed_atoms[query]))
            vertices = [self.plans.seed[field].item(first + seed) for seed, field, _ in shape.constants]
            expected = [self._vertex(rank, constants) for _, _, rank in shape.constants]
            assert vertices == expected, f"part {query} requires the vertices {vertices}, and its constants are {expected}"

    def _call(self, kernel: Callable[..., None], query: int) -> None:
        """Call a kernel with the range of seeds of a query, which are adjacent."""
        seeds = self._seed_atoms[query]
        self.graph.make_room_for_seeds(len(seeds))
        if self.plans.conditions is not self.graph.conditions:
            self.plans = self.plans._replace(conditions=self.graph.conditions)
        arrays = self.store.relations, self.plans
        if arrays[0] is not self._views[0] or arrays[1] is not self._views[1]:
            self._views = (*arrays, view(arrays[0]), view(arrays[1]))
        first = next(iter(seeds))
        bound_kernel = _bound_kernels.get(kernel)
        if bound_kernel is None:
            bound_kernel = _bound_kernels[kernel] = bound(kernel, *self._views[2:], first, first)
        bound_kernel(*self._views[2:], first, first + len(seeds))

    def _vertex(self, term: int, constants: tuple[int, ...] | None) -> int:
        """Return the vertex of a constant, or NONE while the constant has none."""
        vertex = term if constants is None else constants[term]
        return vertex if vertex >= 0 else self.vertex_of_constant.get(vertex, NONE)

    def _choose_sharing(self) -> None:
        """Share conditions if there are many parts, and stop sharing if there are few."""
        least_parts = MANY // 2 if self.graph.is_on else MANY
        should_share = self.sharing == "always" or (self.sharing == "auto" and len(self._parts) >= least_parts)
        if should_share == self.graph.is_on:
            return
        if self.graph.is_on:
            self.graph.clear_seeds()
            while self._needs:
                self.graph.release(self._needs.popitem()[1])
        self.graph.switch(should_share)
        if should_share:
            self._needs = {query: self.graph.add(part, ids) for query, (part, _, ids) in self._parts.items()}
        self._write_all()

    @gc_paused()
    def choose_branches(self, *, common: Collection[BranchShape], rare: Collection[BranchShape]) -> None:
        """Exclude `common` branches from conditions and include `rare` ones again, between chunks.

        O(parts), plus the cost of writing the plans and the records of the parts that have these branches, or of all parts.
        """
        self.graph.choose(common=common, rare=rare)
        children = {branch.child for branch in (*common, *rare)}
        # These parts have the same nodes for the children, and one of them alone might release such a node.
        for query in [query for query, needs in self._needs.items() if not children.isdisjoint(needs.nodes)]:
            part, _, constants = self._parts[query]
            old, new = self._needs[query], self.graph.add(part, constants)
            if new != old:
                self._needs[query] = new
                self._rewrite(query)
            self.graph.release(old)
        self.update_conditions()

    def shared_conditions(self, query: int) -> tuple[int, int]:
        """Return how many conditions a query needs, and how many of these other queries need or build on. O(its atoms²)."""
        nodes = self._needs[query].nodes if query in self._needs else []
        needs = {node: nodes.count(node) for node in nodes}
        own_uses = {node: count + self.graph.parents_of(node, needs) for node, count in needs.items()}
        return len(needs), sum(self.graph.users(node) > count for node, count in own_uses.items())

    def has_no_solution(self, query: int) -> bool:
        """Return whether the conditions imply that a query has no solution now. O(its atoms)."""
        return query in self._needs and self.graph.holds_at_no_vertex(self._needs[query])

    def has_supports(self, query: int) -> bool:
        """Return whether support lists are kept for a query."""
        return query in self._trees

    def support(self, query: int, keep: bool) -> bool:
        """Maintain support lists for a query from now on (`keep`), or drop them, between chunks.

        Return False if the query can have none: it has one atom, or is too large. O(its atoms × (edges + vertices)) if
        anything changes.
        """
        part = self._parts[query][0]
        if keep == (query in self._trees):
            return True
        if not can_have_supports(part):
            return False
        if keep:
            self._trees[query] = self._supports.add(part)
        else:
            self._supports.remove(self._trees.pop(query))
        self._rewrite(query)
        return True

    def _rewrite(self, query: int) -> None:
        """Replace the records of a query in the tables."""
        entry = self._parts.pop(query)
        self._discard_seeds(query, entry[0])
        self._parts[query] = entry
        self._write(query)

    def _discard_seeds(self, query: int, part: Component) -> None:
        """Unlink the seeds of a query, which stay in the tables until they are rebuilt."""
        if query in self._linked_queries:
            self._call(unlink_seeds, query)
        self._garbage += len(part.seeds)
        self._pop_counts(query)
        self._seed_atoms[query] = {}
        if self._garbage * 2 > self._used_records["seed"]:
            self._write_all()

    def _write_all(self) -> None:
        """Rebuild the tables."""
        for query in self._parts:
            self._pop_counts(query)
        self._used_records = dict.fromkeys(_RECORDS, 0)
        self._shapes.clear()
        self._garbage = 0
        self.store.relations.relation["first_seed"] = NONE
        if self.graph.is_on:
            self.graph.clear_seeds()
        for query in self._parts:
            self._write(query)

    # --- writing -------------------------------------------------------------------------------------------------

    def _append(self, name: str, records: Sequence[Record] | np.ndarray) -> tuple[int, int]:
        """Add records to a table. Return the number of the first record, and one past the last."""
        record, used = _RECORDS[name], self._used_records[name]
        array: np.ndarray = getattr(self.plans, name)
        end = used + len(records)
        if end > len(array):
            array = lengthen(array, max(2 * len(array), end))
            self.plans = self.plans._replace(**{name: array})  # type: ignore[arg-type]
            self._bytes[name] = array.view(np.uint8).data
        if len(records):
            size = sizeof(record)
            content = records.tobytes() if isinstance(records, np.ndarray) else b"".join(map(bytes, records))
            self._bytes[name][used * size : end * size] = content
        self._used_records[name] = end
        return used, end

    def _write(self, query: int) -> None:
        part, explicit, constants = self._parts[query]
        shape = self._shape_of[query] = self._shape(query, part)
        needs = self._needs.get(query)
        steps = _copy(shape.steps)
        if needs is not None and len(steps):
            steps["condition"] = [node for nodes in needs.steps for node in nodes]
            steps["is_plain"] &= steps["condition"] == 0
        seeds = _copy(shape.seeds)
        first_step, _ = self._append("step", steps)
        constant_slots = [tables.ConstantSlot(slot, self._vertex(term, constants)) for slot, term in shape.constant_slots]
        seeds["query"] = query
        seeds["is_explicit"] = explicit
        seeds["steps"] += first_step
        seeds["steps_end"] += first_step
        seeds["constants"], seeds["constants_end"] = self._append("constant", constant_slots)
        for seed, field, rank in shape.constants:
            seeds[field][seed] = self._vertex(rank, constants)
        if needs is not None:
            seeds["needs_source"], seeds["needs_target"] = zip(*needs.ends, strict=True)
        first, _ = self._append("seed", seeds)
        self._seed_atoms[query] = {first + number: seed.atom for number, seed in enumerate(part.seeds)}
        if query in self._linked_queries:
            self._call(link_seeds, query)

    def _shape(self, query: int, part: Component) -> _Shape:
        """Return the records that all parts share which are the same object, and write them if they are missing.

        A part with support lists has records of its own.
        """
        if query not in self._trees and (shape := self._shapes.get(id(part))) is not None:
            return shape
        slot = {term: number for number, term in enumerate(part.slots)}
        tree = self._trees.get(query)
        seeds: list[tables.SeedRecord] = []
        all_steps: list[tables.StepRecord] = []
        for seed in part.seeds:
            source, relation, target = part.atoms[seed.atom]
            ends = [term for term in dict.fromkeys((source, target)) if isinstance(term, str)]
            steps = [self._step(part, slot, step, tree) for step in seed.steps]
            record = tables.SeedRecord(
                relation=relation,
                source_slot=slot[source],
                target_slot=slot[target],
                label_slot=NONE if part.label is None else slot[part.label],
                source=NONE,
                target=NONE,
                is_loop=source == target,
                steps=len(all_steps),
                steps_end=len(all_steps) + len(steps),
                columns=len(part.columns),
                previous=NONE,
                next_alike=NONE,
                previous_alike=NONE,
            )
            record.tests, record.tests_end = self._append("test", _tests(part, slot, seed.tests, seed.differ))
            looks = self._looks(slot, seed.looks, tree, ends, except_atom=seed.atom)
            record.looks, record.looks_end = self._append("look", looks)
            record.compares, record.compares_end = self._compares(slot, seed.comparisons)
            seeds.append(record)
            all_steps += steps
        constant_slots = [(slot[term], term) for term in part.slots if not isinstance(term, str)]
        constants = _constants_of_seeds(part)
        shape = _Shape(part, tables.SeedRecord.array(seeds), tables.StepRecord.array(all_steps), constant_slots, constants)
        if tree is None:
            self._shapes[id(part)] = shape
        return shape

    def _step(self, part: Component, slot: dict[Term, int], step: Step, tree: Tree | None) -> tables.StepRecord:
        # A value that a support list proposes is supported; one that another list proposes must be checked.
        is_supported = tree is not None and all(reach.atom in tree.atoms for reach in step.reaches)
        looks = self._looks(slot, step.looks, tree, [] if is_supported else [step.variable])
        record = tables.StepRecord(binds=slot[step.variable])
        reaches = [self._reach(part, slot, reach, tree) for reach in step.reaches]
        record.reach, record.reach_end = self._append("reach", reaches)
        if looks:
            record.needs_word, record.needs = looks[0].word, looks[0].bits
        record.more, record.more_end = self._append("look", looks[1:])
        tests = _tests(part, slot, step.tests, [(term, step.variable) for term in step.differs_from])
        record.probes, record.probes_end = self._append("test", tests)
        record.compares, record.compares_end = self._compares(slot, step.comparisons)
        has_one_list = len(step.reaches) == 1 and not step.reaches[0].excludes_change
        record.is_plain = has_one_list and not tests and len(looks) <= 1 and not step.comparisons
        return record

    def _compares(self, slot: dict[Term, int], comparisons: Sequence[LinearComparison]) -> tuple[int, int]:
        """Write comparisons, and give the numbers that they read columns. Return their places in the table."""
        records = []
        for one in comparisons:
            terms = [
                tables.TermRecord(
                    slot[term.variable],
                    self._number_columns.setdefault(term.number, len(self._number_columns)),
                    (term.factor,),
                )
                for term in one.terms
            ]
            constants = [tables.TermRecord(NONE, 0, (constant,)) for constant in one.constants]
            records.append(tables.ComparisonRecord(*self._append("term", [*terms, *constants])))
        return self._append("comparison", records)

    def _reach(self, part: Component, slot: dict[Term, int], reach: Reach, tree: Tree | None) -> tables.ReachRecord:
        relation = part.atoms[reach.atom].relation
        side = OUT if reach.forward else IN
        support = None if tree is None else tree.header(reach.atom, side)
        return tables.ReachRecord(
            relation=relation,
            slot=slot[reach.bound_term],
            side=side,
            cell=self.store.header(relation, side)[0] if support is None else support.cell,
            before_change=reach.excludes_change,
        )

    def _looks(
        self,
        slot: dict[Term, int],
        looks: Iterable[Look],
        tree: Tree | None,
        supported: Iterable[str],
        except_atom: int | None = None,
    ) -> list[tables.LookRecord]:
        """Return the bits that are required in each word.

        With a tree, its atoms require their support lists: all lists at the `supported` variables, except those of the atom
        `except_atom`.
        """
        bits: dict[tuple[int, int], int] = {}

        def require(term: Term, word: int, mask: int) -> None:
            bits[slot[term], word] = bits.get((slot[term], word), 0) | mask

        for look in looks:
            if tree is None or look.atom not in tree.atoms:
                _, word, bit = self.store.header(look.relation, OUT if look.forward else IN)
                require(look.term, word, bit)
        if tree is not None:
            for variable in supported:
                for word, mask in tree.bits(variable, except_atom=except_atom).items():
                    require(variable, word, mask)
        return [tables.LookRecord(slot, word, mask) for (slot, word), mask in bits.items()]


def _copy(records: np.ndarray) -> np.ndarray:
    """Return a copy of a contiguous array of records, made as bytes: NumPy copies records field by field, which is slow."""
    return records.view(np.uint8).copy().view(records.dtype)


def _constants_of_seeds(part: Component) -> list[tuple[int, str, int]]:
    """Return (seed, field, rank) for each field of a part's seeds that has the vertex of the constant of that rank."""
    return [
        (number, field, term)
        for number, seed in enumerate(part.seeds)
        for field, term in zip(("source", "target"), part.atoms[seed.atom][::2], strict=True)
        if not isinstance(term, str)
    ]


def _tests(
    part: Component, slot: dict[Term, int], tests: Iterable[Test], differ: Iterable[tuple[Term, Term]]
) -> list[tables.TestRecord]:
    """Return the pairs of slots that must differ, and the atoms to be probed. The pairs are first, since they cost less."""
    records = [tables.TestRecord(NONE, slot[one], slot[other], 0) for one, other in differ]
    for test in tests:
        source, relation, target = part.atoms[test.atom]
        records.append(tables.TestRecord(relation, slot[source], slot[target], test.excludes_change))
    return records
