"""The nodes and branches of all patterns, each stored once, and their users (`conditions.py` explains them).

Nodes are hash-consed. A constant is identified by its vertex, another node by its branches; a branch is identified by its
relation, its side and its child. Each branch has a node of its own, which has this branch alone; the branch exists as long
as this node, which nodes of several branches use. Each node counts its users, and is removed when there are none, the
parents before the children. A new node or branch is filled from the present edges. An excluded branch is in no node. It is
remembered as long as its child is needed, and every part with that branch needs the child.

Thousands of parts have one shape, so `NeedShape`, which depends on the shape alone, is computed once. It says which
variables are behind which atom, and which nodes hold everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rpq.compiled.arrays.tagged_hashing import bits_of_ids, tagged_table
from rpq.compiled.views import lengthen, view
from rpq.operators.patterns import tables
from rpq.operators.patterns.joins import conditions
from rpq.operators.patterns.joins.plan import Component, Term, spanning_tree
from rpq.operators.patterns.joins.seeds import refill
from rpq.operators.patterns.relations.relation import RelationStore
from rpq.operators.patterns.tables import Conditions

ALWAYS = 0
"""The place of the node that holds everywhere, and its number."""

_NOWHERE = -1
"""The atom from which a term is reached, if there is none."""


class BranchShape(NamedTuple):
    """A branch to create: the relation, the side at which its vertices stand, and the place of its child."""

    relation: int
    side: int
    child: int


class NeedShape(NamedTuple):
    """The recipe for the nodes that parts of one shape need. Each node has a place after `ALWAYS`.

    - `nodes`: for each place from 1 on, a constant as it is in the part, or the branches of a node
    - `ends`: for each seed's atom, the places of the nodes at its source and its target
    - `steps`: for each seed, the places of the nodes of its steps in order
    """

    nodes: tuple[int | tuple[BranchShape, ...], ...]
    ends: tuple[tuple[int, int], ...]
    steps: tuple[tuple[int, ...], ...]


def need_shape(part: Component) -> NeedShape:
    """Return the shape of the conditions that a part needs. O(its atoms²)."""
    tree = {*spanning_tree(part)}
    at: dict[str, list[int]] = {}
    for number, (source, _, target) in enumerate(part.atoms):
        if number in tree or isinstance(source, str) != isinstance(target, str):
            for term in (source, target):
                if isinstance(term, str):
                    at.setdefault(term, []).append(number)
    nodes: list[int | tuple[BranchShape, ...]] = []
    places: dict[int | tuple[BranchShape, ...], int] = {(): ALWAYS}
    place_behind: dict[tuple[str, int], int] = {}

    def place_of(node: int | tuple[BranchShape, ...]) -> int:
        if node not in places:
            nodes.append(node)
            places[node] = len(nodes)
        return places[node]

    def node_behind(term: Term, atom: int) -> int:
        """Return the place of the node for the part of the tree behind a term, as seen from an atom."""
        if not isinstance(term, str):
            return place_of(term)
        if (term, atom) not in place_behind:
            branches = set()
            for other in at.get(term, ()):
                if other != atom:
                    source, relation, target = part.atoms[other]
                    child = node_behind(target if source == term else source, other)
                    if child != ALWAYS:
                        branches.add(BranchShape(relation, 0 if source == term else 1, child))
            place_behind[term, atom] = place_of(tuple(sorted(branches)))
        return place_behind[term, atom]

    ends, steps = [], []
    for seed in part.seeds:
        source, _, target = part.atoms[seed.atom]
        is_cut = isinstance(source, str) and isinstance(target, str) and seed.atom not in tree
        origin = _NOWHERE if is_cut else seed.atom
        ends.append((node_behind(source, origin), node_behind(target, origin)))
        step_nodes = []
        for step in seed.steps:
            tree_atoms = [reach.atom for reach in step.reaches if reach.atom in tree]
            step_nodes.append(node_behind(step.variable, tree_atoms[0]) if tree_atoms else ALWAYS)
        steps.append(tuple(step_nodes))
    return NeedShape(tuple(nodes), tuple(ends), tuple(steps))


_SMALLEST = 1 << 10
_MAX_SHAPES = 1 << 14
_PIECE = 1 << 17


def _longer(length: int) -> int:
    """Return the length of an array that grows by a quarter. Doubled, the largest arrays would be half empty."""
    return length + length // 4 + 2


def _empty_records() -> dict[str, np.ndarray]:
    """Return arrays with room for the first records and blocks."""
    return {"record": tables.NodeRecord.zeros(_SMALLEST), "block": np.zeros(_SMALLEST * tables.BLOCK, np.int32)}


class Needs(NamedTuple):
    """The nodes that a part needs: for each seed's atom at its source and its target, and for each seed's steps in order."""

    ends: tuple[tuple[int, int], ...]
    steps: tuple[tuple[int, ...], ...]

    @property
    def nodes(self) -> list[int]:
        """All nodes that are needed, each as often as it is needed."""
        nodes = [node for pair in self.ends for node in pair] + [node for step_nodes in self.steps for node in step_nodes]
        return [node for node in nodes if node != ALWAYS]


class ConditionGraph:
    """The owner of all nodes, which it assigns to parts and releases. Any call may replace the arrays `conditions`."""

    def __init__(self, store: RelationStore, vertex_of_constant: Mapping[int, int]) -> None:
        self.store = store
        self._vertex_of_constant = vertex_of_constant  # by the number of a constant, below -1
        self.conditions = Conditions(
            node=tables.ConditionNode.zeros(16),
            branch=tables.Branch.zeros(16),
            part=tables.NodePart.zeros(16),
            record_table=tagged_table(0),
            **_empty_records(),
            vertex=tables.VertexNodes.zeros(0),
            stack=tables.ConditionFrame.zeros(_SMALLEST),
            pending=np.zeros(_SMALLEST, np.int64),
            group=tables.SeedGroup.zeros(16),
            entry=tables.Entry.zeros(16),
            entries=np.zeros(2 * 64, np.int64),
            open_group=np.zeros(0, np.int32),
            candidate=np.zeros(16, np.int32),
            state=tables.ConditionState(records=1, blocks=1, groups=1, entries=1),
        )
        self._empty_record_table(_SMALLEST)
        self._fills = 0  # `RelationStore.fills` when conditions were last up to date; -1: they must be rebuilt
        self._count = {"node": 1, "branch": 1, "part": 1}  # rows used so far (high water)
        self._free: dict[str, list[int]] = {"node": [], "branch": []}
        self._free_parts: dict[int, list[int]] = {}  # first parts of removed nodes, by their number of parts
        self._nodes: dict[int | tuple[int, ...], int] = {}  # by the vertex or number of a constant, or by branches
        self._keys: dict[int, int | tuple[int, ...]] = {}
        self._branches: dict[tuple[int, int, int], int] = {}
        self._key_of_branch: dict[int, tuple[int, int, int]] = {}
        self._users: dict[int, int] = {}  # node to the number of parts, branches and other nodes that need it
        self._shapes: dict[
            int, tuple[Component, NeedShape]
        ] = {}  # by the identity of a part, which is stored to keep it alive
        self._excluded: dict[int, set[tuple[int, int]]] = {}  # child to the relations and sides of excluded branches
        self._new_nodes: list[int] = []
        self._new_branches: list[int] = []
        self._views: tuple[Any, Any, Any, Any] = (None, None, None, None)

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """True if seeds are looked up by the nodes that they need."""
        return bool(self.conditions.state.is_enabled)

    @property
    def is_stale(self) -> bool:
        """True if relations have edges that the kernels for conditions have not processed."""
        return self._fills != self.store.fills

    def switch(self, on: bool) -> None:
        """Switch the lookup of seeds by nodes on or off. No part may have nodes, and no seed may be linked."""
        assert not self._users and not self.conditions.entries[1::2].any(), "there are parts that need nodes"
        self.conditions.state.is_enabled = int(on)
        self._fills = -1 if on else self.store.fills

    def branches(self, fewest: int) -> list[tuple[BranchShape, int, int]]:
        """Return the branches that hold at `fewest` vertices or more, each with its own node and the number of these
        vertices.

        O(records).
        """
        numbers = np.fromiter(self._key_of_branch, np.int64, len(self._key_of_branch))
        nodes = self.conditions.branch["node"][numbers]
        extents = self._extents()[nodes]
        return [
            (BranchShape._make(self._key_of_branch[int(numbers[place])]), int(nodes[place]), int(extents[place]))
            for place in np.flatnonzero(extents >= fewest)
        ]

    def _extents(self) -> np.ndarray:
        """Return the number of vertices at which each node holds. O(records)."""
        of_records = self.conditions.record["node"][1 : self.conditions.state.records]
        extents = np.zeros(len(self.conditions.node), np.int64)
        for first in range(0, len(of_records), _PIECE):
            extents += np.bincount(of_records[first : first + _PIECE], minlength=len(extents))
        return extents

    def excluded_branches(self) -> list[BranchShape]:
        """Return the branches that are excluded. O(their number)."""
        return [BranchShape(*end, child) for child, ends in self._excluded.items() for end in ends]

    def count_edges(self, branch: BranchShape, limit: int) -> int:
        """Return the number of edges along which a branch leads to its child, or some number above `limit`.

        The branch holds, or would hold, at no more vertices. O(vertices of the child).
        """
        return int(conditions.count_edges(*self._current_views(), branch.relation, branch.side, branch.child, limit))

    def choose(self, *, common: Collection[BranchShape], rare: Collection[BranchShape]) -> None:
        """Exclude `common` branches, and count `rare` ones again, for the parts that are added from now on.

        The parts that need the child of such a branch must be added again.
        """
        nodes = self.conditions.branch["node"][[self._branches[branch] for branch in common]]
        if 2 * self._extents()[nodes].sum() > self.conditions.state.records:
            self._fills = -1  # to recount the others takes less time, and needs smaller arrays
        for relation, side, child in common:
            self._excluded.setdefault(child, set()).add((relation, side))
        for relation, side, child in rare:
            self._excluded[child].remove((relation, side))

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return sum(array.nbytes for array in self.conditions)

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of nodes and branches."""
        return len(self._nodes), len(self._branches)

    def users(self, node: int) -> int:
        """Return the number of parts and branches that use a node."""
        key = self._keys.get(node, 0)
        own_branch = key[0] if isinstance(key, tuple) and len(key) == 1 else 0
        return self._users.get(node, 0) - int(self.conditions.branch["uses"][own_branch])

    def parents_of(self, node: int, nodes: Collection[int]) -> int:
        """Return the number of branches to a node that only these `nodes` use."""
        count = 0
        branch = int(self.conditions.node["first_parent"][node])
        while branch:
            fields = self.conditions.branch[branch]
            own_node = int(fields["node"])
            use, is_in_nodes = int(fields["first_use"]), own_node in nodes or not self.users(own_node)
            while use and is_in_nodes:
                part = self.conditions.part[use]
                is_in_nodes, use = int(part["node"]) in nodes, int(part["next_use"])
            count += is_in_nodes
            branch = int(fields["next_parent"])
        return count

    # --- adding and releasing parts --------------------------------------------------------------------------

    def add(self, part: Component, constants: Sequence[int] | None = None) -> Needs:
        """Return the nodes that a part needs, and create missing ones. O(its atoms²), plus the cost of filling new nodes.

        If the constants of the part are ranks, `constants` are their vertices or numbers.
        """
        self._new_nodes, self._new_branches = [], []
        needs = self._needs(part, constants)
        for node in needs.nodes:
            self._users[node] += 1
        if not self.is_stale:
            self._fill()
        return needs

    def bind(self, constant: int) -> None:
        """Make the node of a constant, if there is one, hold at the vertex to which the constant is bound now."""
        node = self._nodes.get(constant)
        if node is not None and not self.is_stale:
            conditions.clear_node(self._current_views()[1], node)
            self._begin_to_hold(node)

    def release(self, needs: Needs) -> None:
        """Release the nodes of a part that is removed."""
        for node in needs.nodes:
            self._remove_user(node)

    def holds_at_no_vertex(self, needs: Needs) -> bool:
        """Return whether a needed node holds nowhere, so that the part has no solution now. O(its atoms)."""
        if self.is_stale:
            return False
        first_records = self.conditions.node["first_record"]
        return any(node != ALWAYS and not first_records[node] for pair in needs.ends for node in pair)

    def first_record(self, node: int) -> int:
        """Return the first record of a node, or 0 if it holds nowhere."""
        return int(self.conditions.node["first_record"][node])

    def is_constant(self, node: int) -> bool:
        """Return whether a node stands for a constant."""
        return isinstance(self._keys.get(node), int)

    def _needs(self, part: Component, constants: Sequence[int] | None) -> Needs:
        shape = self._shape(part)
        nodes = [ALWAYS]
        for key in shape.nodes:
            if isinstance(key, int):
                nodes.append(self._node(key if constants is None else constants[key]))
            else:
                branch_keys = [(relation, side, nodes[child]) for relation, side, child in key]
                branches = {self._branch(*one) for one in branch_keys if self._is_counted(*one)}
                nodes.append(self._node(tuple(sorted(branches))) if branches else ALWAYS)
        return Needs(
            tuple([(nodes[source], nodes[target]) for source, target in shape.ends]),
            tuple([tuple([nodes[place] for place in places]) for places in shape.steps]),
        )

    def _is_counted(self, relation: int, side: int, child: int) -> bool:
        """Return whether a branch is counted: neither the branch nor everything behind it is excluded."""
        return child != ALWAYS and (relation, side) not in self._excluded.get(child, ())

    def _shape(self, part: Component) -> NeedShape:
        """Return the shape of a part's needs, cached for parts that are the same object."""
        cached = self._shapes.get(id(part))
        if cached is None:
            if len(self._shapes) >= _MAX_SHAPES:
                self._shapes.clear()
            cached = self._shapes[id(part)] = part, need_shape(part)
        return cached[1]

    def _node(self, key: int | tuple[int, ...]) -> int:
        """Return the node for a constant's vertex or for a tuple of branches."""
        return self._nodes[key] if key in self._nodes else self._make_node(key)

    def _make_node(self, key: int | tuple[int, ...]) -> int:
        node = self._new_row("node")
        self._nodes[key], self._keys[node], self._users[node] = node, key, 0
        branches = key if isinstance(key, tuple) and len(key) > 1 else ()
        first = self._new_parts(len(branches))
        self.conditions.node[node] = (0, first, first + len(branches), 0, 0, 0, 0, 0)
        fields = self.conditions.branch
        parts = self.conditions.part
        for number, branch in enumerate(branches, first):
            next_use = int(fields["first_use"][branch])
            parts[number] = branch, node, next_use, 0
            if next_use:
                parts["previous_use"][next_use] = number
            fields["first_use"][branch] = number
            fields["uses"][branch] += 1
            self._users[int(fields["node"][branch])] += 1
        self._new_nodes.append(node)
        return node

    def _branch(self, relation: int, side: int, child: int) -> int:
        """Return a branch. Create it, with a node of its own, if it is missing."""
        key = relation, side, child
        branch = self._branches.get(key)
        if branch is None:
            self.store.add_side(relation, 1 - side)
            branch = self._branches[key] = self._new_row("branch")
            self._key_of_branch[branch] = key
            self._users[child] += 1
            own_node = self._make_node((branch,))
            node = self.conditions.node[child]
            self.conditions.branch[branch] = relation, side, child, node["first_parent"], own_node, 0, 0
            node["first_parent"] = branch
            node["parents_read"] |= tables.parent_bit(relation, side)
            self._new_branches.append(branch)
        return branch

    def _fill(self) -> None:
        """Fill new nodes and branches from the present edges."""
        new_nodes, new_branches = {*self._new_nodes}, {*self._new_branches}
        state = self.conditions.state
        for node in self._new_nodes:
            self._begin_to_hold(node)
        for branch in self._new_branches:
            child = self._key_of_branch[branch][2]
            if child not in new_nodes:
                state.fill_record = int(self.conditions.node["first_record"][child])
                if state.fill_record:
                    self._call(conditions.fill_branch, branch)
        for node in self._new_nodes:
            key = self._keys[node]
            if isinstance(key, tuple) and not new_branches.intersection(key):
                first_node = self.conditions.branch["node"][key[0]]
                state.fill_record = int(self.conditions.node["first_record"][first_node])
                if state.fill_record:
                    self._call(conditions.fill_node, node)

    def _remove_user(self, node: int) -> None:
        """Remove one user of a node. Recursively remove nodes without users, and the branches of which they are the own
        nodes."""
        stack = [node]
        while stack:
            node = stack.pop()
            self._users[node] -= 1
            if self._users[node]:
                continue
            if not self.is_stale:
                conditions.clear_node(self._current_views()[1], node)
            key = self._keys.pop(node)
            del self._nodes[key], self._users[node]
            fields = self.conditions.node[node]
            first, end = int(fields["part"]), int(fields["part_end"])
            for part in range(first, end):
                self._unlink_part(part)
            if end > first:
                self._free_parts.setdefault(end - first, []).append(first)
            self._excluded.pop(node, None)
            self._free["node"].append(node)
            branches = key if isinstance(key, tuple) else ()
            if len(branches) == 1:
                stack.append(self._drop_branch(branches[0]))
            else:
                stack += [int(self.conditions.branch["node"][branch]) for branch in branches]

    def _unlink_part(self, part: int) -> None:
        parts = self.conditions.part
        branch, _, next_use, previous_use = parts[part].tolist()
        if previous_use:
            parts["next_use"][previous_use] = next_use
        else:
            self.conditions.branch["first_use"][branch] = next_use
        if next_use:
            parts["previous_use"][next_use] = previous_use
        self.conditions.branch["uses"][branch] -= 1

    def _drop_branch(self, branch: int) -> int:
        """Remove a branch and return its child."""
        key = self._key_of_branch.pop(branch)
        del self._branches[key]
        child = key[2]
        next_parent = self.conditions.branch["next_parent"]
        links, place = self.conditions.node["first_parent"], child
        while (other := int(links[place])) != branch:
            links, place = next_parent, other
        links[place] = next_parent[branch]
        self._free["branch"].append(branch)
        return child

    # --- seeds -----------------------------------------------------------------------------------------------

    def make_room_for_seeds(self, seeds: int) -> None:
        """Make room for linking `seeds` more seeds. Amortised O(1) for each seed."""
        self._make_room_for_relations()
        arrays, state = self.conditions, self.conditions.state
        if state.groups + seeds > len(arrays.group):
            self._replace(group=lengthen(arrays.group, 2 * len(arrays.group) + seeds))
        if state.entries + seeds > len(arrays.entry):
            self._replace(entry=lengthen(arrays.entry, 2 * len(arrays.entry) + seeds))
        if 4 * (state.entry_keys + seeds) > len(arrays.entries):
            size = 2 << max(6, (4 * (state.entries + seeds)).bit_length())
            wider = np.zeros(size, np.int64)
            state.entry_keys = refill(arrays.entries, wider)
            self._replace(entries=wider)

    def clear_seeds(self) -> None:
        """Unlink all seeds."""
        arrays, state = self.conditions, self.conditions.state
        arrays.node["first_group"] = 0
        arrays.open_group[:] = 0
        arrays.entries[:] = 0
        state.free_group = state.free_entry = state.entry_keys = 0
        state.groups = state.entries = 1

    # --- room ------------------------------------------------------------------------------------------------

    def ensure_room(self, seeds: int) -> None:
        """Make room for all vertices, relations and `seeds` seeds, and rebuild conditions that are stale."""
        if not self.is_on:
            return
        if seeds > len(self.conditions.candidate):
            self._replace(candidate=np.zeros(2 * seeds, np.int32))
        self._make_room_for_relations()
        self._make_room_for_vertices()
        if self.is_stale:
            self._rebuild()

    def _make_room_for_relations(self) -> None:
        relations = len(self.store.relations.relation)
        if relations > len(self.conditions.open_group):
            self._replace(open_group=lengthen(self.conditions.open_group, 2 * relations))

    def _make_room_for_vertices(self) -> None:
        vertices = self.store.relations.state.vertices
        if vertices > len(self.conditions.vertex):
            self._replace(vertex=lengthen(self.conditions.vertex, vertices + vertices // 4))

    def _rebuild(self) -> None:
        """Recompute where nodes hold, in new arrays. O(records)."""
        self._fills = self.store.fills
        arrays, state = self.conditions, self.conditions.state
        arrays.vertex[:] = 0
        arrays.node["first_record"] = 0
        state.free_record = state.depth = state.free_block = 0
        state.records = state.blocks = 1
        self._replace(**_empty_records())
        self._empty_record_table(_SMALLEST)
        for node in self._keys:
            self._begin_to_hold(node)

    def _begin_to_hold(self, node: int) -> None:
        """Make the node of a constant hold at its vertex, if it has one."""
        key = self._keys[node]
        if isinstance(key, int) and (vertex := self._vertex_of_constant.get(key, key)) >= 0:
            self._call(conditions.hold_constant, node, vertex)

    def grow(self) -> None:
        """Enlarge the tables in which a kernel may have found no room."""
        arrays, state = self.conditions, self.conditions.state
        spare = int(arrays.branch["uses"].max(initial=1)) + 2
        if state.records + spare + 1 >= state.record_room:
            self._replace(record=lengthen(arrays.record, _longer(len(arrays.record)) + spare))
        if state.table_used + spare > state.table_room or state.record_room >> state.table_bits:
            self.rebuild_table(spare=spare)
        arrays = self.conditions
        if state.blocks + spare + 1 >= state.block_room:
            self._replace(block=lengthen(arrays.block, (_longer(state.block_room) + spare) * tables.BLOCK))
        if 2 * (state.depth + spare) >= state.stack_room:
            self._replace(stack=lengthen(arrays.stack, 2 * len(arrays.stack) + 2 * spare))
        if 2 * state.pending >= state.pending_room:
            self._replace(pending=lengthen(arrays.pending, 2 * len(arrays.pending)))

    def rebuild_table(self, *, spare: int = 1) -> None:
        """Rebuild the table of records, with room for half as many more. O(records)."""
        arrays = self.conditions
        live_count = int(np.count_nonzero(arrays.record["node"][1 : arrays.state.records]))
        room = max(_SMALLEST, (live_count + spare) * 3 // 2)
        self._empty_record_table(room)
        conditions.fill_record_table(self._current_views()[1])

    def _empty_record_table(self, room: int) -> None:
        """Replace the table of records by an empty one."""
        table, state = tagged_table(room), self.conditions.state
        state.table_used, state.table_room, state.table_entries = 0, room, len(table)
        # The bits suffice for twice as many records as there is room for, so the table need not be rebuilt with each growth.
        state.table_bits = bits_of_ids(2 * len(self.conditions.record))
        self._replace(record_table=table)

    def _store_capacities(self) -> None:
        arrays, state = self.conditions, self.conditions.state
        state.record_room = len(arrays.record)
        state.block_room = len(arrays.block) // tables.BLOCK
        state.stack_room = len(arrays.stack)
        state.pending_room = len(arrays.pending)
        state.entry_mask = len(arrays.entries) // 2 - 1

    def _replace(self, **arrays: Any) -> None:
        self.conditions = self.conditions._replace(**arrays)
        self._store_capacities()

    def _new_row(self, name: str) -> int:
        """Return the number of a new row of a table."""
        if self._free[name]:
            return self._free[name].pop()
        number = self._count[name]
        self._count[name] += 1
        array: np.ndarray = getattr(self.conditions, name)
        if number + 1 > len(array):
            self._replace(**{name: lengthen(array, 2 * len(array))})
        return number

    def _new_parts(self, count: int) -> int:
        if not count:
            return 0
        if self._free_parts.get(count):
            return self._free_parts[count].pop()
        first = self._count["part"]
        self._count["part"] += count
        end = first + count
        if end > len(self.conditions.part):
            self._replace(part=lengthen(self.conditions.part, 2 * end))
        return first

    def _current_views(self) -> tuple[Any, Any]:
        """Return the views of relations and conditions with which kernels are called."""
        self._make_room_for_vertices()
        arrays = self.store.relations, self.conditions
        if arrays[0] is not self._views[0] or arrays[1] is not self._views[1]:
            self._views = (*arrays, view(arrays[0]), view(arrays[1]))
        return self._views[2:]

    def _call(self, kernel: Callable[..., int], *arguments: int) -> None:
        while kernel(*self._current_views(), *arguments) != tables.DONE:
            self.grow()

    def _check(self) -> None:
        """Assert that nodes hold where they should, and that counts are correct. O(edges · nodes)."""
        if not self.is_on or self.is_stale:
            return
        expected_nodes, expected_counts = self._recompute()
        arrays = self.conditions
        records = arrays.record[1 : arrays.state.records]
        live = records[records["node"] != 0]
        found = {*zip(live["node"].tolist(), live["vertex"].tolist(), strict=True)}
        assert found == expected_nodes, f"nodes hold elsewhere: {found ^ expected_nodes}"
        branch_of = {int(arrays.branch["node"][branch]): branch for branch in self._key_of_branch}
        counts = {
            (branch_of[node], vertex): count
            for node, vertex, count in live[["node", "vertex", "neighbours"]].tolist()
            if node in branch_of
        }
        assert counts == expected_counts, "counts differ"
        for vertex, (block, count) in enumerate(arrays.vertex.tolist()):
            nodes_here, size = [], (count - 1) % tables.NODES_A_BLOCK + 1 if count else 0
            while block:
                block, *nodes = arrays.block[block * tables.BLOCK :][: 1 + size].tolist()
                nodes_here += nodes
                size = tables.NODES_A_BLOCK
            assert len(nodes_here) == count, "miscounted"
            expected = sorted(node for node, at in found if at == vertex)
            assert sorted(nodes_here) == expected, f"vertex {vertex} lists other nodes"
        assert (arrays.block[live["place"]] == live["node"]).all(), "a record does not know its place"
        full = arrays.record_table[arrays.record_table != 0]
        assert len(full) == arrays.state.table_used <= arrays.state.table_room, "the table of records is miscounted"
        numbers = (full & ((1 << arrays.state.table_bits) - 1)) - 1
        assert sorted(numbers[numbers != 0]) == [*np.flatnonzero(records["node"]) + 1], "the table has other records"
        conditions_view = self._current_views()[1]
        for node, vertex in found:
            assert conditions.holds(conditions_view, node, vertex), f"the table misses node {node} at vertex {vertex}"
        assert {*self._excluded} <= {*self._keys}, "branches are excluded whose child was removed"
        for relation, side, child in self._branches:
            assert self._is_counted(relation, side, child), "an excluded branch is counted"
            parents_read = arrays.node["parents_read"][child]
            assert parents_read & tables.parent_bit(relation, side), "a parent is missed"

    def _recompute(self) -> tuple[set[tuple[int, int]], dict[tuple[int, int], int]]:
        """Return (node, vertex) where nodes hold, and the counts of branches, computed from the edges alone."""
        edges = self.store.relations.edge[1 : self.store.relations.state.edges]
        nodes: dict[int, set[int]] = {}
        counts: dict[tuple[int, int], int] = {}

        def extent(node: int) -> set[int]:
            if node not in nodes:
                key = self._keys[node]
                if isinstance(key, int):
                    nodes[node] = {vertex for vertex in [self._vertex_of_constant.get(key, key)] if vertex >= 0}
                else:
                    nodes[node] = set.intersection(*(parents(branch) for branch in key))
            return nodes[node]

        def parents(branch: int) -> set[int]:
            relation, side, child = self._key_of_branch[branch]
            near, far = ("source", "target") if side == 0 else ("target", "source")
            counts_of_branch: dict[int, int] = {}
            of_relation = edges[edges["relation"] == relation]
            for vertex, other in zip(of_relation[near].tolist(), of_relation[far].tolist(), strict=True):
                if other in extent(child):
                    counts_of_branch[vertex] = counts_of_branch.get(vertex, 0) + 1
            counts.update({(branch, vertex): count for vertex, count in counts_of_branch.items()})
            return {*counts_of_branch}

        for branch in self._key_of_branch:
            parents(branch)
        return {(node, vertex) for node in self._keys for vertex in extent(node)}, counts
