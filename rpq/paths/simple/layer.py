"""Simple path semantics for pairs that conflicts put in doubt: what this does, why it is exact, where it differs from
the paper.

The table of the index holds the walks that do not come back to their root, and marks the cells in doubt: those to which
a walk may come through the later state of a conflict (`rpq/paths/index/conflicts.py`, where it is proved that every other
answer has a simple path). A pair none of whose accepting cells is in doubt is answered by the table, at the table's
cost, whatever conflicts its root meets elsewhere. A pair with one in doubt is a candidate, since every simple path is
a walk of the table; it is *certified* by a simple path, or *blocked*: a complete search found that there is none now
(`search.py`). What was found is kept (`certificates.py`), so a pair is looked at again only when

* an edge of its path expires or is deleted: another path is searched, and the pair leaves if there is none;
* it is blocked, and an edge is inserted whose source its root reaches. A new simple path must use the new edge, and
  what comes before that edge is a walk of the table. Where the last search found that the root reaches only a few
  vertices without coming through the target, the edge must go out from one of them (`search.origins`).
  Refreshing an edge makes no path;
* its walk goes: every simple path is a walk of the table, so the pair leaves with it;
* it is in doubt no more: then the table answers it, and what was known of it is dropped.

A pair that an insert puts in doubt has answered what the table said, so it is certified without a row; only pairs of
this tuple can turn out to be blocked. An insert that brings no doubt, adds no pair in doubt and leads on from no root
with blocked pairs is not judged at all. When the slide changes, doubt is found anew from the conflicts that are left;
so what is searched does not depend on when a sweep happens to come. Roots do not look at each other, so they may be
divided over threads.

**Where this differs from Pacaci et al. (2020, section 4).** They build a tree of paths for each root, with markings:
a node is marked while none of its descendants is in a conflict, and a path that meets a marked node is pruned; a
conflict found later unmarks the ancestors and takes up what was pruned there. An expired subtree is hung on again under
another prefix, and each of its nodes may then be in conflict with that prefix. Here nothing depends on what was
pruned, when, or on the order of the edges: candidates come from the table, which has no memory of paths, and a
path is believed only as a whole. And a walk through the root itself is no conflict here, because the table has none:
`a/b*`, `a/b*/c*`, `(a|b)/c*` never need a search. Like a marking, doubt keeps what no conflict reaches at the cost of
the table, but it is a bit a cell that is pushed with the cell, 64 roots at a time, not the memory of a traversal. What
is in doubt costs one search a pair, whose first attempt nearly always succeeds, where the published algorithm grows
trees node by node. Of a pair with several accepting states each cell must be free of doubt: such a pair could be left
to the table while one of them is, but would have to be found again when that one dies first.

**Budget.** Nodes expanded for one root in one tuple or at one boundary. A root beyond it is *set aside*: its answers,
in doubt or not, leave with `-` rows (under implicit window semantics too, but for those that the table lets expire at
that boundary), and it answers nothing until it meets no conflict any more or is
restored. It returns, with `+` rows, at the delete or the boundary that took its last conflict. The state file
names the roots that are set aside. It does not hold the paths: they are searched again, without a budget, and may be
others, so near the budget a restored engine may set a root aside that the saved one would not have, or the reverse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rpq.compiled.views import view
from rpq.paths.index import conflicts, kernels, layout
from rpq.paths.index.check import doubted_cells
from rpq.paths.index.delta_index import DeltaIndex
from rpq.paths.program import ACCEPTING, CLASSES, STATES, Program
from rpq.paths.simple import certificates as store
from rpq.paths.simple import judge
from rpq.paths.simple.certificates import BLOCKED, GONE, Certificates, new_certificates, rebuilt
from rpq.paths.simple.search import new_scratch
from rpq.queries.protocol import Overrun
from rpq.stream.chunk import Chunk
from rpq.stream.snapshot import Edges
from rpq.stream.window import Window

_UNLIMITED = np.iinfo(np.int64).max


class SimpleIndex(DeltaIndex):
    """The Δ index of a query under simple path semantics, for the roots that `is_root` admits.

    `budget` is the number of nodes that may be expanded for one root and one tuple or boundary; `overruns` are the roots
    that exceeded it since the list was last emptied.
    """

    def __init__(self, program: Program, window: Window, *, budget: int, capacity: int = 256, **options: Any) -> None:
        super().__init__(program, window, simple=True, capacity=capacity, **options)
        self.budget = budget
        self.overruns: list[Overrun] = []
        self.judged = bool(self.index.settings[layout.JUDGED])
        self._aside: dict[int, int] = {}  # root: nodes expanded
        self._to_set_aside: dict[int, int] = {}
        self._small = capacity
        self._cleaned = 0
        self.certificates = new_certificates(16, 16, 0, 0)
        self._scratch = new_scratch(0, 1)
        self._scratch_view = view(self._scratch)

    # --- what it is ------------------------------------------------------------------------------------------

    @property
    def certificates(self) -> Certificates:
        """What is known of the pairs of roots with conflicts."""
        return self._certificates

    @certificates.setter
    def certificates(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._certificates_view = view(certificates)

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(a.nbytes for a in (*self._certificates, *self._scratch))

    def live(self) -> tuple[int, int, int]:
        cells, answers, edges = super().live()
        return cells, len(self.answers()) if self.state[layout.CONFLICTED] else answers, edges

    def answers(self) -> np.ndarray:
        walks = super().answers()
        if not self.state[layout.CONFLICTED]:
            return walks
        return walks[judge.answered(self._view, self._certificates_view, walks)]

    def figures(self) -> dict[str, int]:
        """Conflicts met, roots in conflict now, pairs in doubt now, searches, roots set aside now, and what became of
        paths and blocked pairs. A pair that a delete frees from doubt counts until the slide changes."""
        fields = self._certificates.fields
        return {
            "conflicts": int(self.state[layout.CONFLICTS]),
            "conflicted_roots": int(self.state[layout.CONFLICTED]),
            "pairs_in_doubt": int((self._certificates.key >= 0).sum()),
            "searches": int(fields[store.SEARCHES]),
            "roots_set_aside": len(self._aside),
            "unblocked": int(fields[store.UNBLOCKED]),
            "broken": int(fields[store.BROKEN]),
            "replaced": int(fields[store.REPLACED]),
            "cleaned": self._cleaned,
        }

    def set_figures(self, *, conflicts: int, searches: int) -> None:
        """Go on counting from here."""
        self.state[layout.CONFLICTS] = conflicts
        self._certificates.fields[store.SEARCHES] = searches

    @property
    def aside(self) -> dict[int, int]:
        """The roots that are set aside, and the size at which each was."""
        return dict(self._aside)

    # --- what it does ----------------------------------------------------------------------------------------

    def make_room(self, vertices: int, edges: int, is_root: np.ndarray, is_target: np.ndarray) -> None:
        super().make_room(vertices, edges, is_root, is_target)
        if not self.judged:
            return
        held = self._certificates
        if vertices > len(held.root_chain) or edges > len(held.edge_chain):
            self.certificates = rebuilt(held, vertices, edges, self._small)
        if vertices >= len(self._scratch.used):
            self._scratch = new_scratch(vertices, int(self.index.program.sizes[STATES]))
            self._scratch_view = view(self._scratch)

    def witness(self, source: int, target: int, edges: Edges) -> np.ndarray | None:
        if not judge.answered(self._view, self._certificates_view, np.array([source << 32 | target]))[0]:
            return None
        held = self._certificates
        entry = int(store.entry_of(self._certificates_view, source << 32 | target))
        if entry < 0:
            return super().witness(source, target, edges)
        return held.step[held.first[entry] : held.first[entry] + held.length[entry]].copy()

    def set_aside(self, roots: dict[int, int]) -> None:
        """Let those of these roots that meet a conflict be set aside by the next load, with the sizes at which they were."""
        self._to_set_aside = roots

    def restore_root(self, root: int) -> bool:
        """Search the pairs of a root that is set aside; its answers are `part`. Whether it was; it may go over again."""
        self._begin_output()
        if root not in self._aside:
            return False
        del self._aside[root]
        bits = self._bits([root])
        self.index.table.suspended[:] &= ~bits
        self._begin_judging()
        pairs = _pairs(self, bits)
        self._append(pairs)
        self._run(judge.judge_new, self.budget)
        self._drop_overrun_rows()
        self._note_overruns(-1, None)
        self._end_event(1, 1)
        return True

    def _check(self) -> None:
        super()._check()
        if not self.judged:
            return
        held, table = self._certificates, self.index.table
        assert self._aside.keys() == {int(table.slot_vertex[slot]) for slot in _slots(table.suspended)}
        walks = set(super().answers().tolist())
        accepting = self.index.program.accepting
        ends = {int(table.slot_vertex[slot]) << 32 | v for v, s, slot in doubted_cells(self.index) if accepting[s]}
        in_doubt = {pair for pair in ends & walks if pair >> 32 not in self._aside}
        entries = {p: slide for p, slide in zip(held.key.tolist(), held.slide.tolist(), strict=True) if p >= 0}
        assert in_doubt <= entries.keys(), "a pair in doubt has no entry"
        assert entries.keys() <= walks, "a pair without a walk has an entry"
        assert not [p for p in entries.keys() - in_doubt if entries[p] == BLOCKED], "a certain pair is blocked"
        assert all(slide == BLOCKED or slide > self._slide for slide in entries.values()), "a path has expired"

    # --- judging ---------------------------------------------------------------------------------------------

    def _judge(self, chunk: Chunk, i: int) -> None:
        self._begin_judging()
        program, order = self.index.program, 2 * i + 1
        if chunk.delete[i]:
            judge.judge_lost(self._view, self._certificates_view)
            self._run(judge.replace_through, int(chunk.edge[i]), self.budget)
            self._append(self._left_aside(inserted=False))
            self._note_overruns(i, self._time)
            self._end_event(-1, order)
            self._return_clean(order)
            self._release_empty(int(chunk.source[i]), int(chunk.target[i]))
        else:
            u, v, label = int(chunk.source[i]), int(chunk.target[i]), int(chunk.label[i])
            forward, inverse = int(program.forward[label]), int(program.inverse[label])
            self._run(judge.judge_insert, u, v, forward, inverse, self.budget)
            if self._certificates.fields[store.OVERDRAWN]:
                leaving = self._left_aside(inserted=True)
                self._drop_overrun_rows()
                self._note_overruns(i, self._time)
                self._end_event(1, order)
                self._append(leaving)
                self._end_event(-1, order)
            else:
                self._end_event(1, order)
        # The rows have their paths and their events: nothing is left of the tuple but to go on to the next.
        self.state[layout.PHASE] = layout.WITNESSING
        self.state[layout.NEXT_PATH] = self.state[layout.OUT]

    def _loaded(self, *, quiet: bool) -> None:
        if not self.judged:
            return
        conflicted = self.index.table.conflicted
        roots = {root: size for root, size in self._to_set_aside.items() if self._has(conflicted, root)}
        self.index.table.suspended[:] |= self._bits(roots)
        self._aside.update(roots)
        self._to_set_aside = {}
        self._begin_judging()
        # What was searched one tuple after the other and is now restored at once is no reason to set a root aside.
        budget = _UNLIMITED if quiet else self.budget
        self._run(judge.judge_new, budget)
        self._run(judge.search_doubted, budget)
        self._drop_overrun_rows()
        self._note_overruns(-1, None)

    def _cross(self, slide: int, order: int) -> None:
        state = self.state
        while state[layout.CONFLICTED] and self._slide < slide:
            if self.index.program.sizes[ACCEPTING] > 1:
                # A pair leaves doubt with the accepting cell that was in doubt: from then on the table reports its end.
                judge.forget_certain(self._view, self._certificates_view, len(self._certificates.key))
            stop = min(slide, int(judge.next_expiry(self._certificates_view, len(self._certificates.key))))
            if self._aside:
                stop = min(stop, self._next_edge_expiry())
            super()._cross(stop, order)
            self._begin_judging()
            self._run(judge.replace_expired, len(self._certificates.key), self.budget)
            if not self.index.settings[layout.EXPLICIT]:
                # Silent, but for roots that are set aside here: their answers before the boundary leave with a row, all
                # of them, whichever was looked at first.
                self._keep_rows(np.isin(self._event() >> 32, self._overdrawn()))
            time = stop * self.window.slide
            self._append(self._left_aside(inserted=False))
            self._note_overruns(order // 2, time)
            self._end_event(-1, order, time)
            self._return_clean(order, time)
        if self._slide < slide:
            super()._cross(slide, order)
        self._clean()

    def _next_edge_expiry(self) -> int:
        """The next slide at which an edge leaves the window: no conflict ends before. O(edges)."""
        expiry = self.index.graph.expiry
        later = expiry[expiry > self.state[layout.NOW]]
        return int(self.state[layout.BASE]) + int(later.min()) if len(later) else np.iinfo(np.int64).max

    def _write_paths(self, first: int) -> None:
        if not self.judged:
            super()._write_paths(first)
            return
        self.state[layout.NEXT_PATH] = first
        while (code := int(judge.write_paths(self._view, self._certificates_view))) != layout.DONE:
            self._provide(code)

    # --- steps of judging ------------------------------------------------------------------------------------

    @property
    def _slide(self) -> int:
        return int(self.state[layout.BASE] + self.state[layout.NOW])

    @property
    def _time(self) -> int:
        return int(self.state[layout.TIME])

    def _begin_judging(self) -> None:
        fields = self._certificates.fields
        fields[store.STAMP] += 1
        fields[[store.NEXT, store.KEPT, store.STEP_OF]] = 0
        fields[store.STAGE] = store.ITS_ROWS

    def _run(self, kernel: Any, *arguments: Any) -> None:
        """Call a kernel until it is done."""
        while True:
            code = int(kernel(self._view, self._certificates_view, self._scratch_view, *arguments))
            if code == layout.DONE:
                return
            if code == judge.NEED_ROOM:
                held = self._certificates
                self.guard(self.nbytes + self.nbytes // 4, int(self.state[layout.TUPLE]))
                room = max(self._small, int((held.key >= 0).sum()) // 2)
                self.certificates = rebuilt(held, len(held.root_chain), len(held.edge_chain), room)
                if kernel is judge.replace_expired:
                    arguments = (len(self._certificates.key), *arguments[1:])
            else:
                self._provide(code)

    def _overdrawn(self) -> list[int]:
        held = self._certificates
        return held.over[: held.fields[store.OVERDRAWN]].tolist()

    def _left_aside(self, *, inserted: bool) -> np.ndarray:
        """The answers, before this tuple or boundary, of the roots that went over the budget, but for those that the
        current event takes away and those that the table has let expire."""
        roots = self._overdrawn()
        if not roots:
            return np.zeros(0, np.int64)
        held = self._certificates
        mine = (held.key >= 0) & np.isin(held.key >> 32, roots)
        answers = mine & (held.slide != BLOCKED)
        if inserted:
            answers &= held.born < held.fields[store.STAMP]
        pairs = _pairs(self, self._bits(roots))
        certain = pairs[~np.isin(pairs, held.key[mine])]
        if inserted:
            certain = certain[~np.isin(certain, self._event())]
        return np.concatenate([held.key[answers], certain])

    def _drop_overrun_rows(self) -> None:
        """Take the rows of roots that went over the budget from the current event."""
        roots = self._overdrawn()
        if roots:
            self._keep_rows(~np.isin(self._event() >> 32, roots))

    def _event(self) -> np.ndarray:
        """The rows of the current event, as a part of the output."""
        return self.index.output.pairs[self.state[layout.EVENT_OUT] : self.state[layout.OUT]]

    def _keep_rows(self, kept: np.ndarray) -> None:
        event = self._event()
        rows = event[kept]
        event[: len(rows)] = rows
        self.state[layout.OUT] = self.state[layout.EVENT_OUT] + len(rows)

    def _note_overruns(self, place: int, time: int | None) -> None:
        """Set the roots aside that went over the budget."""
        held = self._certificates
        roots = self._overdrawn()
        if not roots:
            return
        sizes = held.over_work[: len(roots)].tolist()
        self._aside.update(zip(roots, sizes, strict=True))
        when = self._time if time is None else time
        self.overruns += [Overrun(place, root, when, size) for root, size in zip(roots, sizes, strict=True)]
        self._forget(np.isin(held.key >> 32, roots) & (held.key >= 0))
        self.index.table.blocked[:] &= ~self._bits(roots)
        held.fields[store.OVERDRAWN] = 0

    def _forget(self, entries: np.ndarray) -> None:
        held = self._certificates
        held.key[entries] = GONE
        held.slide[entries] = BLOCKED
        held.length[entries] = 0

    def _return_clean(self, order: int, time: int | None = None) -> None:
        """Let roots that are set aside and meet no conflict any more answer again."""
        if not self._aside:
            return
        found = np.zeros_like(self.index.table.suspended)
        conflicts.live_conflicts(self._view, found)
        # Among them the bits of roots that a sweep has just taken the slots from.
        clean = self.index.table.suspended & ~found
        for root in [r for r in self._aside if self._slot(r) < 0 or self._has(clean, r)]:
            del self._aside[root]
        if clean.any():
            self._release(clean)
            conflicts.drop_doubt(self._view, clean)
            self._append(_pairs(self, clean))
            self._end_event(1, order, time)

    def _release_empty(self, *roots: int) -> None:
        """Free roots from their conflicts that have lost their last first edge: the next sweep may take their slots."""
        program, graph = self.index.program, self.index.graph
        classes = int(program.sizes[CLASSES])
        for root in roots:
            if not self._has(self.index.table.conflicted, root):
                continue
            links = [
                graph.out.entries[graph.out.start[i] : graph.out.start[i] + graph.out.length[i]]
                for i in range(root * classes, (root + 1) * classes)
                if program.start_target[i % classes] >= 0
            ]
            edges = np.concatenate(links) >> 1 & layout.POINTER
            if not (graph.expiry[edges] > self.state[layout.NOW]).any():
                held = self._certificates
                self._forget((held.key >= 0) & (held.key >> 32 == root))
                self._release(self._bits([root]))

    def _release(self, clean: np.ndarray) -> None:
        """Let roots be free of conflicts."""
        table = self.index.table
        for words in (table.conflicted, table.suspended, table.blocked):
            words &= ~clean
        self.state[layout.CONFLICTED] = _count(table.conflicted)

    def _clean(self) -> None:
        """Find anew what is in doubt, now that the window has moved past some conflicts; the table answers the rest.

        Done whenever the slide changes, not when a sweep happens to come: what is searched for must depend on the stream
        alone, because of the budget.
        """
        table = self.index.table
        found = np.zeros_like(table.conflicted)
        conflicts.mark_conflicts(self._view, found)
        while (code := int(kernels.settle(self._view))) != layout.DONE:
            self._provide(code)
        conflicts.forget_new_doubt(self._view)  # none of it is new
        clean = table.conflicted & ~found & ~table.suspended
        self._cleaned += _count(clean)
        self._release(clean)
        judge.forget_certain(self._view, self._certificates_view, len(self._certificates.key))

    def _append(self, pairs: np.ndarray) -> None:
        """Add rows to the current event."""
        state = self.state
        while int(state[layout.OUT]) + len(pairs) > len(self.index.output.pairs):
            self._provide(layout.NEED_OUTPUT)
        start = int(state[layout.OUT])
        self.index.output.pairs[start : start + len(pairs)] = pairs
        state[layout.OUT] = start + len(pairs)

    def _end_event(self, kind: int, order: int, time: int | None = None) -> None:
        state = self.state
        if state[layout.EVENTS] + 2 > len(self.index.output.event_time):
            self._provide(layout.NEED_OUTPUT)
        if self.index.settings[layout.WITNESS] and kind > 0:
            self._write_paths(int(state[layout.EVENT_OUT]))
        kernels.end_event(self._view, self._time if time is None else time, kind, order)

    # --- masks of roots --------------------------------------------------------------------------------------

    def _slot(self, root: int) -> int:
        return int(self.index.table.slot_of[root])

    def _has(self, words: np.ndarray, root: int) -> bool:
        slot = self._slot(root)
        return slot >= 0 and bool(int(words[slot >> 6]) >> (slot & 63) & 1)

    def _bits(self, roots: Any) -> np.ndarray:
        """The roots, where they have a slot, as uint64 a block number."""
        words = np.zeros_like(self.index.table.conflicted)
        for root in roots:
            slot = self._slot(root)
            if slot >= 0:
                words[slot >> 6] |= np.uint64(1 << (slot & 63))
        return words



def _slots(words: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


def _count(words: np.ndarray) -> int:
    return int(np.unpackbits(words.view(np.uint8)).sum())


def _pairs(index: SimpleIndex, roots: np.ndarray) -> np.ndarray:
    """The walk answers of some roots."""
    return judge.pairs_of(index._view, roots)
