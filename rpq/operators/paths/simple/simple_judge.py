"""Simple path semantics for pairs that conflicts put in doubt: the method, why it is exact, and how it differs from the
paper.

The table of the index represents the walks that do not return to their root, and marks the cells in doubt: those that a walk
may reach through the later state of a conflict (`rpq/operators/paths/index/conflicts.py`, where it is proved that every
other answer has a simple path). A pair none of whose accepting cells is in doubt is answered by the table, at the table's
cost, whatever conflicts its root meets elsewhere. A pair with such a cell in doubt is a candidate, since every simple path
is a walk of the table. It is *certified* by a simple path, or *blocked*: a complete search found that there is none now
(`search.py`). The results are stored (`certificates.py`), so a pair is examined again only when

* an edge of its path expires or is deleted: another path is searched, and the pair leaves if there is none;
* it is blocked, and an edge is inserted whose source its root reaches. A new simple path must use the new edge, and its part
  before that edge is a walk of the table. If the last search found that the root reaches only a few vertices without passing
  through the target, the edge must lead from one of them (`search.origins`). Refreshing an edge creates no path;
* its walk disappears: every simple path is a walk of the table, so the pair leaves too;
* it is no longer in doubt: the table answers it, and its entry is removed.

A pair that an insert puts in doubt was an answer of the table before, so it is certified without a row; only new pairs of
this tuple can turn out to be blocked. An insert that creates no doubt, adds no pair in doubt and is reached from no root
with blocked pairs is not judged at all. When the slide changes, doubt is recomputed from the remaining conflicts, so the
searches do not depend on the times of sweeps. Roots are independent of each other, so they may be divided over threads.

**Where this differs from Pacaci et al. (2020, section 4).** They build a tree of paths for each root, with markings:
a node is marked while none of its descendants is in a conflict, and a path that meets a marked node is pruned; a
conflict found later unmarks the ancestors and takes up what was pruned there. An expired subtree is attached again under
another prefix, and each of its nodes may then be in conflict with that prefix. Here nothing depends on what was pruned,
when, or on the order of the edges: candidates come from the table, which stores no paths, and a path is only checked as a
whole. A walk through the root itself is no conflict here, because the table contains none: `a/b*`, `a/b*/c*`, `(a|b)/c*`
never need a search. Like a marking, doubt leaves the pairs that no conflict reaches at the cost of the table, but it is a
bit per cell that is pushed with the cell, for 64 roots at a time, not a record of a traversal. A pair in doubt costs one
search, whose first attempt nearly always succeeds, where the published algorithm grows trees node by node. If a pair has
several accepting states, the cells of all of them must be free of doubt. One such cell would suffice for the table to answer
the pair, but the pair would have to be found again if that cell expired first.

`aside_roots.py` explains the treatment of roots whose searches take too long.
"""

from __future__ import annotations

import numpy as np

from rpq.language.protocol import Overrun
from rpq.language.query import Query
from rpq.operators.paths.index import conflicts, layout
from rpq.operators.paths.index.check import doubted_cells
from rpq.operators.paths.index.judging import DoubtFigures, Judge, JudgedIndex, NoDoubt
from rpq.operators.paths.program import Program
from rpq.operators.paths.simple import certificates as store
from rpq.operators.paths.simple import judge
from rpq.operators.paths.simple.aside_roots import AsideRoots, EventRows, count, holds_root, mask_of, release, roots_in
from rpq.operators.paths.simple.certificates import BLOCKED
from rpq.operators.paths.simple.known_paths import KnownPaths
from rpq.stream.chunk import Chunk

_UNLIMITED = np.iinfo(np.int64).max


class SimpleJudge:
    """The judge of an index under simple path semantics, whose automaton has states in conflict.

    `budget` is the number of nodes that may be expanded for one root and one tuple or boundary. After each growth there is
    room for at least `room` more pairs in doubt.
    """

    walks_return = False
    doubts = True

    def __init__(self, *, budget: int, room: int = 256) -> None:
        self.budget = budget
        self._room = room
        self._cleared_roots = 0

    def serve(self, index: JudgedIndex) -> None:
        """Attach the judge to an index. `Judge` describes this method and those below."""
        self._index = index
        self.known_paths = KnownPaths(index, room=self._room)
        self._rows = EventRows(index)
        self._aside_roots = AsideRoots(index, self.known_paths, self._rows)

    @property
    def nbytes(self) -> int:
        """The number of bytes of certificates and searches."""
        return self.known_paths.nbytes

    def make_room(self, vertices: int, edges: int) -> None:
        """Make room for ids up to these numbers in certificates and searches."""
        self.known_paths.make_room(vertices, edges)

    # --- where rows are judged -------------------------------------------------------------------------------

    def judge_tuple(self, chunk: Chunk, i: int) -> None:
        """Reduce the rows of a tuple to those of simple paths."""
        self.known_paths.begin()
        if chunk.delete[i]:
            self._judge_delete(chunk, i)
        else:
            self._judge_insert(chunk, i)
        # The rows have their paths and their events, so the tuple is done.
        state = self._index.state
        state.phase = layout.WITNESSING
        state.next_path = state.out

    def _judge_delete(self, chunk: Chunk, i: int) -> None:
        order, rows, aside = 2 * i + 1, self._rows, self._aside_roots
        judge.judge_lost_pairs(self._index.view, self.known_paths.view)
        self.known_paths.run(judge.replace_paths_over, int(chunk.edge[i]), self.budget)
        rows.append(aside.lost_answers(inserted=False))
        aside.note(i)
        rows.end(-1, order)
        aside.restore_clean(order)
        for vertex in (int(chunk.source[i]), int(chunk.target[i])):
            self._release_if_empty(vertex)

    def _judge_insert(self, chunk: Chunk, i: int) -> None:
        order, rows, aside = 2 * i + 1, self._rows, self._aside_roots
        program, label = self._index.index.program, int(chunk.label[i])
        classes = int(program.forward[label]), int(program.inverse[label])
        self.known_paths.run(judge.judge_insert, int(chunk.source[i]), int(chunk.target[i]), *classes, self.budget)
        if not aside.overdrawn_roots():
            rows.end(1, order)
            return
        leaving = aside.lost_answers(inserted=True)
        aside.drop_rows()
        aside.note(i)
        rows.end(1, order)
        rows.append(leaving)
        rows.end(-1, order)

    def judge_load(self, *, quiet: bool) -> None:
        """Reduce the rows of a load to those of simple paths."""
        self._aside_roots.set_waiting_aside()
        self.known_paths.begin()
        # A load repeats the searches of many tuples at once, which must not count against the budget.
        budget = _UNLIMITED if quiet else self.budget
        self.known_paths.run(judge.judge_new_pairs, budget)
        self.known_paths.run(judge.search_pairs_in_doubt, budget)
        self._aside_roots.drop_rows()
        self._aside_roots.note(-1)

    def cross(self, slide: int, order: int) -> None:
        """Advance to an absolute slide, stopping at each slide at which a path expires."""
        index, state = self._index, self._index.state
        while state.conflicted and self._slide < slide:
            if index.index.program.sizes.accepting > 1:
                # A pair is no longer in doubt when its accepting cell in doubt expires: the table then reports the end of
                # the pair.
                judge.forget_certain_pairs(index.view, self.known_paths.view, self.known_paths.capacity)
            stop = min(slide, int(judge.next_expiry(self.known_paths.view, self.known_paths.capacity)))
            if self._aside_roots.sizes:
                stop = min(stop, self._next_edge_expiry())
            index.cross_table(stop, order)
            self._judge_boundary(order, state.time if index.index.settings.moved_by else stop * index.window.slide)
        if self._slide < slide:
            index.cross_table(slide, order)
        self._find_doubt_anew()

    def _judge_boundary(self, order: int, time: int) -> None:
        """Replace the paths that expire at the boundary of that time, which the table has crossed."""
        rows, aside = self._rows, self._aside_roots
        self.known_paths.begin()
        self.known_paths.run_over_entries(judge.replace_expired_paths, self.budget)
        if not self._index.index.settings.explicit:
            # No rows are reported except for roots that are set aside here: all of their answers before the boundary leave
            # with a row, whichever was examined first.
            rows.retain(np.isin(rows.pairs() >> 32, aside.overdrawn_roots()))
        rows.append(aside.lost_answers(inserted=False))
        aside.note(order // 2, time)
        rows.end(-1, order, time)
        aside.restore_clean(order, time)

    def write_paths(self) -> int:
        """Write a simple path for each row of the current event, from row RESUME on."""
        return int(judge.write_paths(self._index.view, self.known_paths.view))

    # --- present state ---------------------------------------------------------------------------------------

    def answers_among(self, walks: np.ndarray) -> np.ndarray:
        """Return those of some pairs of the table that have a simple path and a root that is not set aside."""
        if not self._index.state.conflicted:
            return walks
        return walks[judge.has_answers(self._index.view, self.known_paths.view, walks)]

    def path_of(self, source: int, target: int) -> np.ndarray | None:
        """Return the path by which a pair in doubt is certified."""
        entry = int(store.entry_of(self.known_paths.view, source << 32 | target))
        if entry < 0:
            return None
        certificates = self.known_paths.certificates
        start = certificates.path_start[entry]
        return certificates.step[start : start + certificates.length[entry]].copy()

    def figures(self) -> DoubtFigures:
        """Return the counts of the kernels. O(pairs in doubt)."""
        fields, state = self.known_paths.fields, self._index.state
        return DoubtFigures(
            conflicts=state.conflicts,
            conflicted_roots=state.conflicted,
            pairs_in_doubt=int((self.known_paths.certificates.key >= 0).sum()),
            searches=fields.searches,
            roots_set_aside=len(self._aside_roots.sizes),
            unblocked_pairs=fields.unblocked_pairs,
            broken_paths=fields.broken_paths,
            replaced_paths=fields.replaced_paths,
            cleared_roots=self._cleared_roots,
        )

    def set_figures(self, *, conflicts: int, searches: int) -> None:
        """Set the counts from which to continue."""
        self._index.state.conflicts = conflicts
        self.known_paths.fields.searches = searches

    # --- roots that are set aside ----------------------------------------------------------------------------

    @property
    def aside_roots(self) -> dict[int, int]:
        """The roots that are set aside now, and the number of nodes at which each was set aside."""
        return dict(self._aside_roots.sizes)

    def set_aside(self, roots: dict[int, int]) -> None:
        """Make the next load set aside those of these roots that meet a conflict."""
        self._aside_roots.waiting = roots

    def pop_overruns(self) -> list[Overrun]:
        """Return the roots that have exceeded their budget since the last call."""
        taken, self._aside_roots.overruns = self._aside_roots.overruns, []
        return taken

    def restore_root(self, root: int) -> bool:
        """Search the pairs of a root that is set aside."""
        walks = self._aside_roots.restore(root)
        if walks is None:
            return False
        self.known_paths.begin()
        self._rows.append(walks)
        self.known_paths.run(judge.judge_new_pairs, self.budget)
        self._aside_roots.drop_rows()
        self._aside_roots.note(-1)
        self._rows.end(1, 1)
        return True

    def forget_roots(self, roots: np.ndarray) -> None:
        """Forget the paths and conflicts of roots, and that they were set aside."""
        index, root_list = self._index.index, roots.tolist()
        self.known_paths.forget(self.known_paths.of_roots(root_list))
        release(index, mask_of(index.table, root_list))
        for root in root_list:
            self._aside_roots.sizes.pop(root, None)

    # --- conflicts that end ----------------------------------------------------------------------------------

    @property
    def _slide(self) -> int:
        state = self._index.state
        return state.base + state.now

    def _next_edge_expiry(self) -> int:
        """Return the next slide at which an edge leaves the window. No conflict ends earlier. O(edges)."""
        expiry, state = self._index.index.graph.expiry, self._index.state
        later = expiry[(expiry > state.now) & (expiry <= self._index.index.settings.ceiling)]
        return state.base + int(later.min()) if len(later) else np.iinfo(np.int64).max

    def _find_doubt_anew(self) -> None:
        """Recompute the pairs in doubt after some conflicts have left the window; the table answers all other pairs.

        Call this whenever the slide changes, not at sweeps: because of the budget, the searches must depend on the stream
        alone.
        """
        index = self._index
        found = np.zeros_like(index.index.table.conflicted_roots)
        conflicts.mark_conflicts(index.view, found)
        index.run("settle")
        conflicts.forget_new_doubt(index.view)  # no doubt is new
        table = index.index.table
        clean = table.conflicted_roots & ~found & ~table.suspended_roots
        self._cleared_roots += count(clean)
        release(index.index, clean)
        judge.forget_certain_pairs(index.view, self.known_paths.view, self.known_paths.capacity)

    def _release_if_empty(self, root: int) -> None:
        """Remove the conflicts of a root that has lost the last of its first edges: the next sweep may release its slot."""
        index = self._index.index
        program, graph, table = index.program, index.graph, index.table
        if not holds_root(table, table.conflicted_roots, root):
            return
        classes = program.sizes.classes
        links = [
            graph.out.entries[graph.out.start[i] : graph.out.start[i] + graph.out.length[i]]
            for i in range(root * classes, (root + 1) * classes)
            if program.start_target[i % classes] >= 0
        ]
        edges = np.concatenate(links) >> 1 & layout.POINTER
        if not (graph.expiry[edges] > index.state.now).any():
            self.known_paths.forget(self.known_paths.of_roots([root]))
            release(index, mask_of(table, [root]))

    def check(self) -> None:
        """Assert that the certificates, the doubt and the roots that are set aside are consistent."""
        index, certificates = self._index.index, self.known_paths.certificates
        table, accepting = index.table, index.program.accepting
        aside = self._aside_roots.sizes.keys()
        assert aside == roots_in(table, table.suspended_roots)
        walks = set(self._index.walks().tolist())
        ends = {int(table.slot_vertex[slot]) << 32 | v for v, s, slot in doubted_cells(index) if accepting[s]}
        in_doubt = {pair for pair in ends & walks if pair >> 32 not in aside}
        keys, slides = certificates.key.tolist(), certificates.slide.tolist()
        entries = {pair: slide for pair, slide in zip(keys, slides, strict=True) if pair >= 0}
        assert in_doubt <= entries.keys(), "a pair in doubt has no entry"
        assert entries.keys() <= walks, "a pair without a walk has an entry"
        assert not [p for p in entries.keys() - in_doubt if entries[p] == BLOCKED], "a certain pair is blocked"
        assert all(slide == BLOCKED or slide > self._slide for slide in entries.values()), "a path has expired"


def judge_for(query: Query, program: Program, *, room: int) -> Judge:
    """Return a new judge for one index. It searches only if the automaton has states in conflict.

    After each growth there is room for at least `room` more pairs in doubt.
    """
    if query.paths == "walk":
        return NoDoubt()
    if not len(program.later_state):
        return NoDoubt(walks_return=False)
    return SimpleJudge(budget=query.simple_budget, room=room)
