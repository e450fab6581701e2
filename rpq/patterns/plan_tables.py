"""The plans of all patterns in one set of flat tables, which kernels interpret (`tables.py`).

A pattern is appended, and taken out by unchaining its seeds; where more than half of the seeds are of
patterns that were taken out, the tables are made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rpq.patterns import tables
from rpq.patterns.plan import Look, Part, Reach, Step, Term, Test
from rpq.patterns.relation import RelationStore
from rpq.patterns.support_tables import SupportTables, Tree, can_have_supports
from rpq.patterns.tables import IN, NONE, OUT, Plans

_WIDTHS = {
    "seed": tables.SEED_FIELDS,
    "step": tables.STEP_FIELDS,
    "reach": tables.REACH_FIELDS,
    "test": tables.TEST_FIELDS,
    "look": tables.LOOK_FIELDS,
    "fixed": 2,
}
_MOST_STEPS = 33


class Work(NamedTuple):
    """What a query cost."""

    looks: int
    """Values that the join looked at and that were no rows by themselves."""
    rows: int
    entries: int
    """Changes of its support lists."""


class PlanTables:
    """The plans that read the relations of a store; `plans` are the arrays, which `add` and `remove` may replace."""

    def __init__(self, store: RelationStore) -> None:
        self.store = store
        self.plans = Plans(
            **{name: np.zeros(0, np.int64) for name in _WIDTHS},
            binding=np.zeros(tables.SLOTS, np.int32),
            frame=np.zeros(_MOST_STEPS * tables.FRAME, np.int64),
            state=np.zeros(tables.PLAN_STATE, np.int64),
        )
        self.plans.state[[tables.AT_SEED, tables.AT_STEP]] = NONE
        self._used = dict.fromkeys(_WIDTHS, 0)
        self._supports = SupportTables(store)
        self._trees: dict[int, Tree] = {}
        self._parts: dict[int, tuple[Part, bool]] = {}
        self._seed_atoms: dict[int, dict[int, int]] = {}  # of a query: its seeds, each with its atom
        self._work: dict[int, dict[int, tuple[int, int]]] = {}  # of a query and an atom: looks and rows that were taken
        self._garbage = 0

    def queries(self) -> list[int]:
        """The queries that have a part."""
        return list(self._parts)

    def take_work(self, query: int) -> Work:
        """What a query cost since it was asked last. O(its atoms, and seeds of the relations that it reads)."""
        before = self._taken(query)
        taken = self._take_counts(query)
        looks, rows = (now - then for now, then in zip(taken, before, strict=True))
        return Work(looks, rows, self._supports.take_work(self._trees[query]) if query in self._trees else 0)

    def work_of(self, query: int) -> dict[int, tuple[int, int]]:
        """For each atom of a query what its seed has looked at and the rows that it wrote, since the query came."""
        self._take_counts(query)
        return self._work[query]

    def _take_counts(self, query: int) -> tuple[int, int]:
        """Take what the seeds of a query counted into account; looks and rows of all so far. O(its atoms)."""
        work = self._work[query]
        for seed, atom in self._seed_atoms[query].items():
            fields = self.plans.seed[seed * tables.SEED_FIELDS :][: tables.SEED_FIELDS]
            looks, rows = work[atom]
            work[atom] = looks + int(fields[tables.LOOKED]), rows + int(fields[tables.WRITTEN])
            fields[[tables.LOOKED, tables.WRITTEN]] = 0
        return self._taken(query)

    def _taken(self, query: int) -> tuple[int, int]:
        work = self._work[query].values()
        return sum(looks for looks, _ in work), sum(rows for _, rows in work)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.plans)

    def cheapest_seed(self, query: int) -> tuple[int, int]:
        """The seed of a query with the fewest edges in its relation, and that relation."""
        held = self.store.relations.relation.reshape(-1, tables.RELATION_FIELDS)[:, tables.EDGES_HELD]
        part, _ = self._parts[query]
        relation = min((part.atoms[seed.atom].relation for seed in part.seeds), key=held.__getitem__)
        seed = int(self.store.relations.relation[relation * tables.RELATION_FIELDS + tables.SEED])
        while self.plans.seed[seed * tables.SEED_FIELDS + tables.QUERY] != query:
            seed = int(self.plans.seed[seed * tables.SEED_FIELDS + tables.NEXT_SEED])
        return seed, relation

    def columns(self, query: int) -> tuple[str, ...]:
        """The columns of a query's rows."""
        return self._parts[query][0].columns

    def add(self, query: int, part: Part, *, explicit: bool) -> None:
        """Let changes of a part's relations be enumerated, as rows of a query; `explicit`: what leaves by expiry as well.

        O(its plan), and the edges of a relation one of whose sides was not kept so far.
        """
        if query in self._parts:
            raise ValueError(f"query {query} has a part already")
        # A constant need not be a vertex of any edge so far.
        self.store.have_vertices(max((term + 1 for term in part.slots if not isinstance(term, str)), default=0))
        for relation, forward in sorted(part.sides()):
            self.store.keep_side(relation, OUT if forward else IN)
        self._parts[query] = part, explicit
        self._work[query] = {seed.atom: (0, 0) for seed in part.seeds}
        self._write(query, part, explicit)

    def remove(self, query: int) -> None:
        """Forget a query. O(seeds of the relations that it reads)."""
        if query in self._trees:
            self._supports.remove(self._trees.pop(query))
        part, _ = self._parts.pop(query)
        self._take_out(query, part)
        del self._work[query], self._seed_atoms[query]

    def has_supports(self, query: int) -> bool:
        """Whether support lists are kept for a query."""
        return query in self._trees

    def support(self, query: int, keep: bool) -> bool:
        """Keep support lists for a query from now on, or no more; between chunks. Whether that is so now.

        O(its atoms × (edges + vertices)) where it changes. A pattern of one atom, or too large a one, has none.
        """
        part, explicit = self._parts[query]
        if keep == (query in self._trees):
            return True
        if not can_have_supports(part):
            return False
        if keep:
            self._trees[query] = self._supports.add(part)
        else:
            self._supports.remove(self._trees.pop(query))
        del self._parts[query]
        self._take_out(query, part)
        self._parts[query] = part, explicit
        self._write(query, part, explicit)
        return True

    def _take_out(self, query: int, part: Part) -> None:
        for relation in {atom.relation for atom in part.atoms}:
            self._unchain(relation, query)
        self._garbage += len(part.seeds)
        self._take_counts(query)
        self._seed_atoms[query] = {}
        if self._garbage * 2 > self._used["seed"]:
            self._used = dict.fromkeys(_WIDTHS, 0)
            self._garbage = 0
            self.store.relations.relation[tables.SEED :: tables.RELATION_FIELDS] = NONE
            for held in self._parts:
                self._take_counts(held)
            for held, (kept, explicit) in self._parts.items():
                self._write(held, kept, explicit)

    def _unchain(self, relation: int, query: int) -> None:
        """Take the seeds of a query out of the chain of a relation."""
        seeds = self.plans.seed
        array, place = self.store.relations.relation, relation * tables.RELATION_FIELDS + tables.SEED
        while (seed := int(array[place])) != NONE:
            base = seed * tables.SEED_FIELDS
            if seeds[base + tables.QUERY] == query:
                array[place] = seeds[base + tables.NEXT_SEED]
            else:
                array, place = seeds, base + tables.NEXT_SEED

    # --- written -------------------------------------------------------------------------------------------------

    def _append(self, name: str, rows: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Add rows to a table; the first, and the one behind the last."""
        width, used = _WIDTHS[name], self._used[name]
        array: np.ndarray = getattr(self.plans, name)
        end = used + len(rows)
        if end * width > len(array):
            longer = np.zeros(max(2 * len(array), end * width), np.int64)
            longer[: used * width] = array[: used * width]
            array = longer
            self.plans = self.plans._replace(**{name: array})
        if rows:
            array[used * width : end * width] = np.array(rows, np.int64).reshape(-1)
        self._used[name] = end
        return used, end

    def _write(self, query: int, part: Part, explicit: bool) -> None:
        slot = {term: number for number, term in enumerate(part.slots)}
        atoms: dict[int, int] = {}
        self._seed_atoms[query] = atoms
        fixed = self._append("fixed", [(slot[t], t) for t in part.slots if not isinstance(t, str)])
        relation_fields = self.store.relations.relation
        # The last seed first: chains are extended at their heads.
        for seed in reversed(part.seeds):
            atom = part.atoms[seed.atom]
            chain = atom.relation * tables.RELATION_FIELDS + tables.SEED
            source, target = atom.source, atom.target
            tests = self._append("test", _tests(part, slot, seed.tests, seed.differ))
            tree = self._trees.get(query)
            ends = [term for term in dict.fromkeys((source, target)) if isinstance(term, str)]
            looks = self._append("look", self._looks(slot, seed.looks, tree, ends, but=seed.atom))
            steps = self._append("step", [self._step(part, slot, step, tree) for step in seed.steps])
            row = [0] * tables.SEED_FIELDS
            row[tables.NEXT_SEED] = int(relation_fields[chain])
            row[tables.QUERY] = query
            row[tables.FROM], row[tables.TO] = slot[source], slot[target]
            row[tables.IS_FROM] = NONE if isinstance(source, str) else source
            row[tables.IS_TO] = NONE if isinstance(target, str) else target
            row[tables.SAME] = int(source == target)
            row[tables.TESTS], row[tables.TESTS_END] = tests
            row[tables.STEPS], row[tables.STEPS_END] = steps
            row[tables.LOOKS], row[tables.LOOKS_END] = looks
            row[tables.FIXED], row[tables.FIXED_END] = fixed
            row[tables.COLUMNS] = len(part.columns)
            row[tables.EXPLICIT] = int(explicit)
            relation_fields[chain], _ = self._append("seed", [row])
            atoms[int(relation_fields[chain])] = seed.atom

    def _step(self, part: Part, slot: dict[Term, int], step: Step, tree: Tree | None) -> list[int]:
        # What a support list proposes is supported; what another list does is to be looked at.
        supported = tree is not None and all(reach.atom in tree.atoms for reach in step.reaches)
        looks = self._looks(slot, step.looks, tree, [] if supported else [step.variable])
        reaches = self._append("reach", [self._reach(part, slot, reach, tree) for reach in step.reaches])
        differ = [(term, step.variable) for term in step.differs_from]
        tests = self._append("test", _tests(part, slot, step.tests, differ))
        row = [0] * tables.STEP_FIELDS
        row[tables.BINDS] = slot[step.variable]
        row[tables.REACH], row[tables.REACH_END] = reaches
        if looks:
            row[tables.NEEDS_WORD], row[tables.NEEDS] = looks[0][tables.LOOK_WORD], looks[0][tables.LOOK_BITS]
        row[tables.MORE], row[tables.MORE_END] = self._append("look", looks[1:])
        row[tables.PROBES], row[tables.PROBES_END] = tests
        alone = len(step.reaches) == 1 and not step.reaches[0].before
        bare = tests[0] == tests[1] and len(looks) <= 1
        row[tables.PLAIN] = int(alone and bare)
        return row

    def _reach(self, part: Part, slot: dict[Term, int], reach: Reach, tree: Tree | None) -> list[int]:
        relation = part.atoms[reach.atom].relation
        side = OUT if reach.forward else IN
        row = [0] * tables.REACH_FIELDS
        row[tables.REACH_RELATION] = relation
        row[tables.REACH_SLOT] = slot[reach.bound]
        row[tables.REACH_SIDE] = side
        support = None if tree is None else tree.header(reach.atom, side)
        row[tables.REACH_CELL] = self.store.header(relation, side)[0] if support is None else support.cell
        row[tables.BEFORE_CHANGE] = int(reach.before)
        return row

    def _looks(
        self,
        slot: dict[Term, int],
        looks: Iterable[Look],
        tree: Tree | None,
        supported: Iterable[str],
        but: int | None = None,
    ) -> list[tuple[int, int, int]]:
        """(slot, word, bits): what is asked of one word at a time.

        With a tree, its atoms ask through their support lists: all those at the `supported` variables, `but` one atom's.
        """
        bits: dict[tuple[int, int], int] = {}

        def ask(term: Term, word: int, asked: int) -> None:
            bits[slot[term], word] = bits.get((slot[term], word), 0) | asked

        for look in looks:
            if tree is None or look.atom not in tree.atoms:
                _, word, bit = self.store.header(look.relation, OUT if look.forward else IN)
                ask(look.term, word, bit)
        if tree is not None:
            for variable in supported:
                for word, asked in tree.bits(variable, but=but).items():
                    ask(variable, word, asked)
        return [(*place, asked) for place, asked in bits.items()]


def _tests(
    part: Part, slot: dict[Term, int], tests: Iterable[Test], differ: Iterable[tuple[Term, Term]]
) -> list[tuple[int, int, int, int]]:
    """Atoms to be probed, and pairs of slots that must differ (those first: they cost less)."""
    rows = [(NONE, slot[one], slot[other], 0) for one, other in differ]
    for test in tests:
        source, relation, target = part.atoms[test.atom]
        rows.append((relation, slot[source], slot[target], int(test.before)))
    return rows
