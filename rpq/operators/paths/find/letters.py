"""The automaton of an expression over the labels of a graph, as tables for searches.

The labels of the graph are those of tuples, and those with a condition that a query reads. Tests of vertices need no labels:
a search asks which tests the ends of an edge satisfy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rpq.automata import DFA
from rpq.automata.symbols import ConditionLabel, LabelSymbol, StepTests
from rpq.language.readings import LabelSet
from rpq.operators.paths.find.kernels import ExpressionSizes, Letters
from rpq.operators.paths.program import CompiledExpression
from rpq.stream.names.stream_labels import EdgeEnd, LabelName, NodeLabel, StreamLabel, text_of


def guards_of(labels: LabelSet) -> list[tuple[str, ...]]:
    """Return the sets of tests that the ends of edges have to satisfy. O(labels)."""
    return sorted({tests for step in labels.step_tests for tests in (step.source, step.target) if tests})


def letters_of(
    dfa: DFA, labels: LabelSet, names: Sequence[LabelName], conditions: Sequence[str] = ()
) -> Letters:
    """Return the tables of an automaton, which reads `labels`, over label ids with these names. O(labels).

    The edges of plain labels are asked for `conditions`, in the place of labels with a condition. Which tests vertices
    satisfy, by the sets of `guards_of`, and edges which conditions, remains to be set.
    """
    compiled = CompiledExpression(dfa)
    table, accepting = compiled.table.astype(np.int32), compiled.program.accepting
    states, classes = table.shape
    number = {tests: place for place, tests in enumerate(guards_of(labels))}
    steps = sorted({StepTests(), *labels.step_tests})
    first, rows = [0], []
    for name in names:
        for letter, step in _letters_of(name, steps, are_asked=bool(conditions)):
            forward, inverse = compiled.classes_of(letter)
            if forward >= 0 or inverse >= 0:
                condition = conditions.index(step.edge) if conditions and step.edge else -1
                rows.append((forward, inverse, number.get(step.source, -1), number.get(step.target, -1), condition))
        first.append(len(rows))
    columns = np.array(rows, np.int32).reshape(-1, 5).T
    forward, inverse = columns[:2].astype(np.int16)
    before = [np.flatnonzero(table[:, c] == state) for state in range(states) for c in range(classes)]
    follows = np.array([[table[state, [*{*some.tolist()} - {-1}]].max(initial=-1) >= 0 for some in (forward, inverse)]
                        for state in range(states)])  # fmt: skip
    precedes = np.array([[bool(np.isin(table[:, [*{*some.tolist()} - {-1}]], state).any()) for some in (inverse, forward)]
                         for state in range(states)])  # fmt: skip
    return Letters(
        letter_first=np.array(first, np.int32),
        forward=np.ascontiguousarray(forward),
        inverse=np.ascontiguousarray(inverse),
        source=np.ascontiguousarray(columns[2]),
        target=np.ascontiguousarray(columns[3]),
        condition=np.ascontiguousarray(columns[4]),
        step=np.ascontiguousarray(table).ravel(),
        step_back_first=np.cumsum([0, *map(len, before)]).astype(np.int32),
        step_back=np.concatenate([np.zeros(0, np.int64), *before]).astype(np.int32),
        accepting=accepting,
        accepting_states=np.flatnonzero(accepting).astype(np.int32),
        uses=np.concatenate([follows, precedes]).astype(np.uint8).ravel(),
        set_of=np.zeros(0, np.int32),
        holds=np.zeros(0, np.uint8),
        satisfied=np.zeros(0, np.uint8),
        sizes=ExpressionSizes(states, classes, len(names), len(number), int(accepting.sum()), len(conditions)),
    )


def _letters_of(
    name: LabelName, steps: Sequence[StepTests], *, are_asked: bool
) -> list[tuple[LabelSymbol, StepTests]]:
    """Return the letters of the edges of a label, each with its tests; a plain label has all if conditions `are_asked`."""
    if name == "" or isinstance(name, StreamLabel | EdgeEnd | NodeLabel):
        return []
    own = StepTests.of(name.condition) if isinstance(name, ConditionLabel) else StepTests()
    if own.are_of_ends or (are_asked and own.edge):
        return []  # an edge with tests that a query reads; the one from which it follows is there too
    text = text_of(name)
    return [
        (ConditionLabel(text, step.condition) if step.condition else text, step)
        for step in steps
        if are_asked or step.edge == own.edge
    ]
