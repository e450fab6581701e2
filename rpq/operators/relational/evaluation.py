"""Running networks, which turn changes of their leaves into changes of their answers.

Equal subgraphs of networks are shared: `SharedOperators` finds them, and one operator does the work of all equal ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rpq.operators.relational.groups import GroupNode
from rpq.operators.relational.nodes import ExtendNode, FilterNode, Node, ProjectNode
from rpq.operators.relational.planning import NetworkPlan
from rpq.operators.relational.slices import SliceNode
from rpq.operators.relational.values.term_ids import TermIds
from rpq.rows.delta import Delta
from rpq.rows.weighted_rows import WeightedRows, merge


class Steps:
    """Operators, each once and after those that it reads."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._steps: list[tuple[Node, list[int], WeightedRows]] = []
        """Each operator with the places of its inputs, and its output when these do not change."""

    def __iter__(self) -> Iterator[Node]:
        return (node for node, _, _ in self._steps)

    def add(self, node: Node, inputs: Iterable[Node]) -> None:
        """Add an operator whose inputs have been added, unless it has been added already."""
        if id(node) not in self._places:
            self._places[id(node)] = len(self._steps)
            self._steps.append((node, [self._places[id(one)] for one in inputs], WeightedRows.empty(node.width)))

    def place_of(self, node: Node) -> int:
        """Return the place of the output of an operator among those that `run` returns."""
        return self._places[id(node)]

    def run(self, leaves: Mapping[int, WeightedRows], *, is_first: bool) -> list[WeightedRows]:
        """Return the change of each operator that follows from changes of leaves, which are given by the id of the leaf.

        With `is_first` all operators begin anew, and the changes of leaves are all their rows, as one event.
        """
        outputs: list[WeightedRows] = []
        for node, places, nothing in self._steps:
            first = node.begin() if is_first else None
            inputs = [outputs[place] for place in places] if places else [leaves.get(id(node), nothing)]
            # Most operators of a query do not depend on the label of a single tuple.
            output = node.change(*inputs) if any(map(len, inputs)) else nothing
            outputs.append(output if first is None else merge([first, output]))
        return outputs


class Network:
    """The operators of a question, each after those that it reads.

    `planned_nodes` are the operators as the question names their columns; `nodes` are those that do the work of these, which
    are the same unless the network is among `SharedOperators`.
    """

    def __init__(self, plan: NetworkPlan) -> None:
        self.top = plan.top
        self.planned_nodes = [*_topological_order(plan.top)]
        self._places = {id(node): place for place, node in enumerate(self.planned_nodes)}
        self._leaves = [self._places[id(leaf)] for leaf, _ in plan.leaves]
        self.use_nodes(self.planned_nodes)

    def use_nodes(self, nodes: Sequence[Node]) -> None:
        """Use these operators in place of the planned ones, each of which equals one of them."""
        self.nodes = [*nodes]
        self.steps = Steps()
        for planned, node in zip(self.planned_nodes, self.nodes, strict=True):
            self.steps.add(node, (self.nodes[place] for place in self.places_of_inputs(planned)))
        self._output = self.steps.place_of(self.output)
        self._caching_nodes = [node for node in self.steps if type(node).discard_ids is not Node.discard_ids]

    def places_of_inputs(self, planned: Node) -> list[int]:
        """Return the places of the inputs of a planned operator among the planned ones."""
        return [self._places[id(one)] for one in planned.inputs]

    @property
    def leaves(self) -> list[Node]:
        """The leaves in the order of the plan, or those that do their work."""
        return [self.nodes[place] for place in self._leaves]

    @property
    def output(self) -> Node:
        """The operator whose bag is the answer."""
        return self.nodes[-1]

    @property
    def is_plain(self) -> bool:
        """True if the net rows of the kernels are its rows: linear operators, one above the other, over one leaf."""
        is_chain = sum(not node.inputs for node in self.planned_nodes) == 1
        return is_chain and all(
            not node.inputs or (node.is_linear and len(node.inputs) == 1) for node in self.planned_nodes
        )

    @property
    def is_net(self) -> bool:
        """True if its changes are net within events: they are rows of groups, all of whose columns are returned."""
        way = []
        node = self.top
        while len(node.inputs) == 1 and isinstance(node, ProjectNode | ExtendNode | FilterNode):
            way.append(node)
            (node,) = node.inputs
        if not isinstance(node, GroupNode):
            return False
        shows = {name: name for name in node.columns}  # from columns to those of the group
        for one in reversed(way):
            names = one.sources() if isinstance(one, ProjectNode | ExtendNode) else {name: name for name in one.columns}
            shows = {name: shows[source] for name, source in names.items() if source in shows}
        return {*shows.values()} == {*node.columns}

    def isolate_groups(self) -> None:
        """Mark a group operator as isolated if no join or union lies between it and the answer."""
        node = self.top
        while len(node.inputs) == 1 and isinstance(node, ProjectNode | ExtendNode | FilterNode | SliceNode):
            (node,) = node.inputs
        if isinstance(node, GroupNode):
            node.is_isolated = True

    def begin(self, leaves: Mapping[int, WeightedRows]) -> WeightedRows:
        """Initialize all operators from the bags of leaves, by the id of the leaf, as one event. Return the answer.

        Operators that are shared then have the rows that they had before, if these are the present rows of the leaves.
        """
        return self.steps.run(leaves, is_first=True)[self._output]

    def change(self, leaves: Mapping[int, WeightedRows]) -> WeightedRows:
        """Return the change of the answer that changes of leaves cause."""
        return self.steps.run(leaves, is_first=False)[self._output]

    def discard_ids(self, new_ids: np.ndarray) -> None:
        """Discard cached values of these ids, which now denote other terms."""
        if len(new_ids):
            for node in self._caching_nodes:
                node.discard_ids(new_ids)

    def ids(self) -> np.ndarray:
        """Return the ids in the stored rows of all operators, with duplicates. O(entries)."""
        return ids_in(self.steps)

    @property
    def entries(self) -> int:
        """The number of stored entries of all operators: rows, and values of groups."""
        return sum(node.entries for node in self.nodes)

    @property
    def nbytes(self) -> int:
        """The number of bytes that operators hold."""
        return sum(node.nbytes for node in self.nodes)

    def operator_sizes(self) -> list[tuple[str, int, int]]:
        """Return (description, entries, bytes) of each operator that stores something."""
        pairs = zip(self.planned_nodes, self.nodes, strict=True)
        return [(planned.describe(), node.entries, node.nbytes) for planned, node in pairs if node.entries]

    def describe(self) -> str:
        """Return a text with a line for each operator, indented below its consumer, and what it stores."""
        lines: list[tuple[str, str]] = []
        seen: dict[int, int] = {}

        def add_lines(node: Node, depth: int) -> None:
            indent = "  " * depth
            if id(node) in seen:
                lines.append((f"{indent}the rows of {node.describe()}, as above", ""))
                return
            seen[id(node)] = len(lines)
            state, entries = node.describe_state(), self.nodes[self._places[id(node)]].entries
            lines.append((indent + node.describe(), f"keeps {state}: {entries:,} now" if state else ""))
            for one in node.inputs:
                add_lines(one, depth + 1)

        add_lines(self.top, 0)
        width = max((len(text) for text, state in lines if state), default=0) + 2
        return "\n".join(f"{text:{width}}{state}" if state else text for text, state in lines)

    def _check(self) -> None:
        """Assert the invariants of every operator."""
        for node in self.steps:
            node._check()


def ids_in(nodes: Iterable[Node]) -> np.ndarray:
    """Return the ids in the stored rows of operators, with duplicates. O(entries)."""
    stored = (node.ids() for node in nodes)
    return np.concatenate(
        [np.zeros(0, np.int32), *(ids if isinstance(ids, np.ndarray) else np.fromiter(ids, np.int32) for ids in stored)]
    )


def _topological_order(top: Node) -> Iterator[Node]:
    seen: set[int] = set()

    def visit(node: Node) -> Iterator[Node]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for one in node.inputs:
            yield from visit(one)
        yield node

    return visit(top)


class LeafChange(NamedTuple):
    """The changes of a leaf that the kernels found, and the places of its columns in them."""

    delta: Delta
    places: Sequence[int]
    has_label: bool
    """True if the last column has the numbers that labels have in the host."""


LeafChanges = dict[int, LeafChange]
"""By the id of the leaf."""


class ConnectedNetworks:
    """Networks that share operators, directly or through others, and their operators, each once."""

    def __init__(self, networks: Mapping[Network, Callable[[Mapping[int, Delta]], LeafChanges]]) -> None:
        self._networks = networks
        self._steps = Steps()
        for network in networks:
            for planned, node in zip(network.planned_nodes, network.nodes, strict=True):
                self._steps.add(node, (network.nodes[place] for place in network.places_of_inputs(planned)))
        self._read_deltas: Mapping[int, Delta] | None = None
        self._waiting: set[Network] = set()  # networks that have not read their change
        self._outputs: list[WeightedRows] = []
        self._events = np.zeros((0, 2), np.int64)

    def __len__(self) -> int:
        return len(self._networks)

    def change(
        self,
        network: Network,
        changed: Mapping[int, Delta],
        convert: Callable[[LeafChanges], tuple[dict[int, WeightedRows], np.ndarray]],
    ) -> tuple[WeightedRows, np.ndarray]:
        """Return the change of the answer of a network that changes of parts cause, and the (order, time) of events.

        All networks change at the first call with these changes; each of them that has such a part calls once. `convert`
        converts changes of leaves to bags.
        """
        if self._read_deltas is not changed:
            leaves: LeafChanges = {}
            self._waiting = set()
            for other, read in self._networks.items():
                mine = read(changed)
                if mine:
                    self._waiting.add(other)
                    leaves |= mine
            bags, self._events = convert(leaves)
            self._outputs = self._steps.run(bags, is_first=False)
            self._read_deltas = changed
        output, events = self._outputs[self._steps.place_of(network.output)], self._events
        self._waiting.discard(network)
        if not self._waiting:
            self._read_deltas, self._outputs = None, []
        return output, events


class SharedOperators:
    """The operators of networks whose ids of terms are the same: equal subgraphs are one.

    Operators are equal if they have the same class and the same parameters, and their inputs are equal; leaves are equal if
    their keys are. The first of equal ones does the work of all, and stays while some network has it.
    """

    def __init__(self, terms: TermIds) -> None:
        self.terms = terms
        self._networks: dict[Network, Callable[[Mapping[int, Delta]], LeafChanges]] = {}
        self._nodes: dict[Hashable, Node] = {}
        self._keys: dict[Node, Hashable] = {}
        self._users: dict[Node, dict[Network, None]] = {}
        self._connected_networks: dict[Network, ConnectedNetworks] = {}

    def __len__(self) -> int:
        return len(self._networks)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._users)

    def join(
        self, network: Network, keys: Sequence[Hashable], read: Callable[[Mapping[int, Delta]], LeafChanges]
    ) -> None:
        """Replace operators of a network by equal ones that exist already, and add the others.

        `keys` are those of its leaves, and `read` selects and returns their changes from those of all parts.
        """
        key_of = {id(leaf): key for leaf, key in zip(network.leaves, keys, strict=True)}
        nodes: list[Node] = []
        for planned in network.planned_nodes:
            inputs = tuple(id(nodes[place]) for place in network.places_of_inputs(planned))
            key = type(planned), key_of.get(id(planned), planned.parameters), inputs
            node = self._nodes.setdefault(key, planned)
            self._keys[node] = key
            self._users.setdefault(node, {})[network] = None
            nodes.append(node)
        network.use_nodes(nodes)
        self._networks[network] = read
        self._connected_networks.clear()

    def leave(self, network: Network) -> None:
        """Remove a network, and the operators that no other network has."""
        del self._networks[network]
        for node in network.steps:
            users = self._users[node]
            del users[network]
            if not users:
                del self._users[node], self._nodes[self._keys.pop(node)]
        self._connected_networks.clear()

    def connected_networks(self, network: Network) -> ConnectedNetworks:
        """Return the networks that share operators with a network. O(1) after the first call for their set."""
        found = self._connected_networks.get(network)
        if found is None:
            members = {network: self._networks[network]}
            waiting = [network]
            while waiting:
                for node in waiting.pop().steps:
                    for other in self._users[node].keys() - members.keys():
                        members[other] = self._networks[other]
                        waiting.append(other)
            found = ConnectedNetworks(members)
            self._connected_networks |= dict.fromkeys(members, found)
        return found

    def users(self, node: Node) -> int:
        """Return the number of networks that have an operator."""
        return len(self._users[node])

    def describe_sharing(self, network: Network) -> str:
        """Return a text on the operators that a network shares with others, empty if there are none."""
        shared = [users for users in (self._users[node] for node in network.steps) if len(users) > 1]
        if not shared:
            return ""
        other_queries = len({other for users in shared for other in users}) - 1
        texts = f"{other_queries:,} other {'query' if other_queries == 1 else 'queries'}"
        return f"{len(shared)} of {len([*network.steps])} operators with {texts}"

    def _check(self) -> None:
        """Assert the invariants, other than those of each operator."""
        assert self._users.keys() == self._keys.keys() == {*self._nodes.values()}, "an operator without a key"
        users: dict[Node, dict[Network, None]] = {}
        for network in self._networks:
            for node in network.steps:
                users.setdefault(node, {})[network] = None
        assert users == self._users, "an operator without a network"
