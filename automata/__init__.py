"""Path expressions and their automata: from `(knows/^likes)+` to a minimal DFA.

- `parse` converts an expression to a tree of the nodes `Label`, `NegatedSet`, `VertexTest`, `Inverse`, `Concatenation`,
  `Alternation` and `Repetition`, all subclasses of `Expression`; an invalid expression raises an `ExpressionError`
- `reversal` returns an expression of the same paths from their other end, `nonempty` one of the paths that are not empty
- `compile` converts an expression to a `DFA`, whose alphabet consists of `Symbol`s

`expressions` has the trees, `parser` and `transforms` the functions on them, `symbols` the alphabet, `compiler` and `dfa`
the automata, and `errors` the exceptions. Nothing here depends on graphs, streams or numba; this package imports no other
module of `rpq`.

>>> from rpq import automata
>>> print(automata.parse("knows/(^likes | hasTag){2}"))
knows/(^likes|hasTag){2}
>>> automata.compile("a/a*") == automata.compile("a+")
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rpq.automata.errors import ConditionError, ExpressionError
from rpq.automata.expressions import (
    Alternation,
    Concatenation,
    Expression,
    Inverse,
    Label,
    NegatedSet,
    Repetition,
    VertexTest,
)
from rpq.automata.parser import parse
from rpq.automata.symbols import ConditionLabel, Symbol
from rpq.automata.transforms import nonempty, reversal

if TYPE_CHECKING:
    from rpq.automata.compiler import compile
    from rpq.automata.dfa import DFA

__all__ = [
    "DFA",
    "Alternation",
    "Concatenation",
    "ConditionError",
    "ConditionLabel",
    "Expression",
    "ExpressionError",
    "Inverse",
    "Label",
    "NegatedSet",
    "Repetition",
    "Symbol",
    "VertexTest",
    "compile",
    "nonempty",
    "parse",
    "reversal",
]

_LAZY = {"compile": "rpq.automata.compiler", "DFA": "rpq.automata.dfa"}  # these import numpy, which takes a while


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
