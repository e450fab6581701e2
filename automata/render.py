"""A DFA for people: a table in plain text, a drawing in Graphviz's language."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rpq.automata.errors import terminal_cells
from rpq.automata.symbols import Symbol

_WIDEST_TABLE = 100


def write_text(symbols: tuple[Symbol, ...], transitions: NDArray[np.int32], accepting: NDArray[np.bool_]) -> str:
    """Write the table; where the labels are too long for a table, columns have numbers that a legend explains."""
    names = [str(symbol) for symbol in symbols]
    headers = names
    if sum(terminal_cells(name) + 2 for name in names) > _WIDEST_TABLE:
        headers = [f"#{column}" for column in range(len(names))]
    rows = [["state ", *headers]]
    for state, (row, accepts) in enumerate(zip(transitions, accepting, strict=True)):
        mark = f"{'→' if state == 0 else ' '} {state} {'*' if accepts else ' '}"
        rows.append([mark, *("·" if target < 0 else str(target) for target in row)])
    widths = [max(map(terminal_cells, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first + " " * (widths[0] - terminal_cells(first))]
        cells += [" " * (width - terminal_cells(cell)) + cell for width, cell in zip(widths[1:], rest, strict=True)]
        lines.append("  ".join(cells).rstrip())
    if headers is not names:
        lines += ["", *(f"{header} = {name}" for header, name in zip(headers, names, strict=True))]
    return "\n".join(lines)


def write_dot(
    name: str, symbols: tuple[Symbol, ...], transitions: NDArray[np.int32], accepting: NDArray[np.bool_]
) -> str:
    """Write the drawing: an arrow into the start, double circles accept."""
    lines = [
        f"digraph {_quote(name)} {{",
        "  rankdir=LR;",
        "  node [shape=circle];",
        '  start [shape=none, label=""];',
    ]
    lines += [f"  {state} [shape=doublecircle];" for state, accepts in enumerate(accepting) if accepts]
    lines.append("  start -> 0;")
    for state, row in enumerate(transitions):
        labels: dict[int, list[str]] = {}
        for column, target in enumerate(row):
            if target >= 0:
                labels.setdefault(int(target), []).append(str(symbols[column]))
        lines += [f"  {state} -> {target} [label={_quote('|'.join(words))}];" for target, words in labels.items()]
    lines.append("}")
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    """A DOT string: backslashes begin escapes there, and & begins an HTML entity."""
    return '"' + text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') + '"'
