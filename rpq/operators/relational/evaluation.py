"""A network while it runs: changes of its leaves go in, those of its answer come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rpq.operators.relational.groups import GroupNode
from rpq.operators.relational.nodes import ExtendNode, FilterNode, Node, ProjectNode
from rpq.operators.relational.planning import NetworkPlan
from rpq.rows.weighted_rows import WeightedRows, merge


class Network:
    """The operators of a question, each after those that it reads."""

    def __init__(self, planned: NetworkPlan) -> None:
        self.top = planned.top
        self.nodes = [*_in_order(planned.top)]
        place_of = {id(node): place for place, node in enumerate(self.nodes)}
        self._steps = [
            (node, [place_of[id(one)] for one in node.inputs], WeightedRows.empty(node.width)) for node in self.nodes
        ]
        """Each node with the places of its inputs among the nodes, and its output when these do not change."""

    @property
    def is_plain(self) -> bool:
        """True if the net rows of the kernels are its rows: it consists of columns of one leaf."""
        return all(not node.inputs or (len(node.inputs) == 1 and not node.describe_state()) for node in self.nodes) and (
            sum(not node.inputs for node in self.nodes) == 1
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
        shows = {name: name for name in node.columns}  # of columns: which one of the group they are
        for one in reversed(way):
            names = one.sources() if isinstance(one, ProjectNode | ExtendNode) else {name: name for name in one.columns}
            shows = {name: shows[source] for name, source in names.items() if source in shows}
        return {*shows.values()} == {*node.columns}

    def isolate_groups(self) -> None:
        """Mark a group operator as isolated if no join or union lies between it and the answer."""
        node = self.top
        while len(node.inputs) == 1 and isinstance(node, ProjectNode | ExtendNode | FilterNode):
            (node,) = node.inputs
        if isinstance(node, GroupNode):
            node.is_isolated = True

    def begin(self, leaves: Mapping[int, WeightedRows]) -> WeightedRows:
        """Initialize all operators from the bags of leaves, by the id of the leaf, as one event; return the answer."""
        return self._run(leaves, is_first=True)

    def change(self, leaves: Mapping[int, WeightedRows]) -> WeightedRows:
        """Return the change of the answer that changes of leaves cause."""
        return self._run(leaves, is_first=False)

    def _run(self, leaves: Mapping[int, WeightedRows], *, is_first: bool) -> WeightedRows:
        outputs: list[WeightedRows] = []
        for node, places, nothing in self._steps:
            first = node.begin() if is_first else None
            inputs = [outputs[place] for place in places] if places else [leaves.get(id(node), nothing)]
            # Most operators of a query have no part in a single tuple.
            output = node.change(*inputs) if any(map(len, inputs)) else nothing
            outputs.append(output if first is None else merge([first, output]))
        return outputs[-1]

    def forget(self, fresh: np.ndarray) -> None:
        """Discard cached values of these ids, which now denote other terms."""
        if len(fresh):
            for node in self.nodes:
                node.forget(fresh)

    def ids(self) -> np.ndarray:
        """Return the ids in the stored rows of all operators, with duplicates. O(entries)."""
        stored = (node.ids() for node in self.nodes)
        return np.concatenate([ids if isinstance(ids, np.ndarray) else np.fromiter(ids, np.int32) for ids in stored])

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
        return [(node.describe(), node.entries, node.nbytes) for node in self.nodes if node.entries]

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
            state = node.describe_state()
            lines.append((indent + node.describe(), f"keeps {state}: {node.entries:,} now" if state else ""))
            for one in node.inputs:
                add_lines(one, depth + 1)

        add_lines(self.top, 0)
        width = max((len(text) for text, state in lines if state), default=0) + 2
        return "\n".join(f"{text:{width}}{state}" if state else text for text, state in lines)

    def _check(self) -> None:
        """Assert the invariants of every operator."""
        for node in self.nodes:
            node._check()


def _in_order(top: Node) -> Iterator[Node]:
    seen: set[int] = set()

    def visit(node: Node) -> Iterator[Node]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for one in node.inputs:
            yield from visit(one)
        yield node

    return visit(top)
