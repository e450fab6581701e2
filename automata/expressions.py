"""Path expressions as values: a tree of frozen nodes whose `str` is canonical text.

==================  ==========================  ==================================================
node                written                     the paths it describes
==================  ==========================  ==================================================
`Label`             `a`, `<a>`, `"a"`           one edge with this label
`Label`             `a[n > 1]`                  one edge with this label that satisfies a condition
`NegatedSet`        `!a`, `!(a|^b)`, `!()`      one edge whose label is not in the set
`NegatedSet`        `!(a)[n > 1]`               one such edge that satisfies a condition
`VertexTest`        `@[risk > 3]`               no edge: the path is at a vertex that satisfies a test
`Inverse`           `^R`                        the paths of R backwards
`Concatenation`     `R/S`                       a path of R, then one of S
`Alternation`       `R|S`                       a path of R or one of S
`Repetition`        `R* R+ R? R{n,m}`           n to m paths of R, one after the other
==================  ==========================  ==================================================

Equal trees have equal text, and `parse(str(tree)) == tree`. Trees are limited in depth and in the number of steps when
their repetitions are expanded (`SizeError`), so that functions can traverse a tree recursively, and compilation is fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from rpq.automata.symbols import ConditionLabel, LabelSymbol, Symbol, write_name

MAXIMUM_DEPTH = 100
"""The largest number of nested operators; redundant parentheses do not count."""

MAXIMUM_STEPS = 1000
"""The largest number of steps of an expanded repetition: `(a/b){300}` has 600."""


class SizeError(ValueError):
    """An expression is nested too deep, or too large when its repetitions are expanded."""


class Expression:
    """A path expression: one of the nodes of this module.

    >>> from rpq.automata import parse
    >>> tree = parse("(a/b){2}")
    >>> str(tree), tree.depth, tree.steps
    ('(a/b){2}', 3, 4)
    """

    depth: int
    """The number of levels of operators, including this one."""
    steps: int
    """The number of labels, negated sets and tests when repetitions are expanded (at least 1)."""
    _binding: ClassVar[int]
    """The precedence of the operator: | 0, / 1, ^ 2, quantifier 3, names and negated sets 4."""

    def _measure(self, inner: Iterable[Expression], steps: int) -> None:
        depth = 1 + max(part.depth for part in inner)
        if depth > MAXIMUM_DEPTH:
            raise SizeError(f"the expression is nested more than {MAXIMUM_DEPTH} levels deep")
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "steps", steps)

    def _parenthesized(self, binding: int) -> str:
        """Write the expression as an operand, in parentheses if its precedence is below `binding`."""
        return str(self) if self._binding >= binding else f"({self})"


@dataclass(frozen=True)
class Label(Expression):
    """One step along an edge with this label, which may have a condition.

    >>> print(Label("knows"), Label("http://example.org/knows"), Label(ConditionLabel("transfer", "amount > 1000")))
    knows <http://example.org/knows> transfer[amount > 1000]
    """

    name: LabelSymbol
    depth = 1
    steps = 1
    _binding = 4

    def __str__(self) -> str:
        return write_name(self.name)


@dataclass(frozen=True)
class NegatedSet(Expression):
    """One step whose label is not in the set, in the directions of the members.

    Forward members exclude labels of a forward step, inverse members labels of an inverse step. There is no step in a
    direction without members (SPARQL 1.1, section 18.4), but the empty set accepts any forward step. Members are sorted,
    without repetitions. With a `condition` the edge has to satisfy it as well.

    >>> print(NegatedSet((Symbol("b", inverse=True), Symbol("a"))), NegatedSet((Symbol("a"),)), NegatedSet(()))
    !(a|^b) !a !()
    >>> print(NegatedSet((Symbol("a"),), condition="n > 1"))
    !a[n > 1]
    """

    members: tuple[Symbol, ...]
    condition: str | None = field(default=None, repr=False)
    depth = 1
    steps = 1
    _binding = 4

    def __post_init__(self) -> None:
        if not all(isinstance(member.label, str) for member in self.members):
            raise ValueError("a negated set contains only named labels, without conditions")
        object.__setattr__(self, "members", tuple(sorted(set(self.members), key=Symbol.sort_key)))

    def symbol_of(self, member: Symbol) -> Symbol:
        """Return the symbol of a member, or of all other labels, with the condition of the set.

        >>> print(NegatedSet((), condition="n > 1").symbol_of(Symbol("a")))
        a[n > 1]
        """
        if self.condition is None:
            return member
        assert not isinstance(member.label, ConditionLabel)
        return Symbol(ConditionLabel(member.label, self.condition), member.inverse)

    @property
    def directions(self) -> tuple[bool, ...]:
        """The values of `inverse` that a step may have: forward, inverse, or both.

        >>> from rpq.automata import parse
        >>> parse("!a").directions, parse("!(a|^b)").directions
        ((False,), (False, True))
        """
        return tuple(sorted({member.inverse for member in self.members})) or (False,)

    def __str__(self) -> str:
        members = "|".join(map(str, self.members))
        text = "!" + members if len(self.members) == 1 else f"!({members})"
        return text if self.condition is None else f"{text}[{self.condition}]"


@dataclass(frozen=True)
class VertexTest(Expression):
    """No step: the vertex that a path has reached satisfies a test.

    >>> print(Concatenation((Label("a"), VertexTest("risk > 3"), Label("b"))))
    a/@[risk > 3]/b
    """

    test: str
    depth = 1
    steps = 1
    _binding = 4

    def __str__(self) -> str:
        return f"@[{self.test}]"


@dataclass(frozen=True)
class Inverse(Expression):
    """The paths of `inner` in the opposite direction: `^(a/b)` is `^b/^a`.

    >>> print(Inverse(Concatenation((Label("a"), Label("b")))), Inverse(Repetition(Label("a"), 0, None)))
    ^(a/b) ^a*
    """

    inner: Expression
    depth: int = field(init=False, repr=False, compare=False)
    steps: int = field(init=False, repr=False, compare=False)
    _binding = 2

    def __post_init__(self) -> None:
        self._measure([self.inner], self.inner.steps)

    def __str__(self) -> str:
        return "^" + self.inner._parenthesized(3)


@dataclass(frozen=True)
class Concatenation(Expression):
    """A path of the first part, then a path of the second, and so on; nested concatenations are flattened.

    >>> print(Concatenation((Concatenation((Label("a"), Label("b"))), Label("c"))))
    a/b/c
    """

    parts: tuple[Expression, ...]
    depth: int = field(init=False, repr=False, compare=False)
    steps: int = field(init=False, repr=False, compare=False)
    _binding = 1

    def __post_init__(self) -> None:
        parts: list[Expression] = []
        for part in self.parts:
            parts.extend(part.parts if isinstance(part, Concatenation) else [part])
        if len(parts) < 2:
            raise ValueError("a concatenation has at least two parts")
        object.__setattr__(self, "parts", tuple(parts))
        self._measure(parts, sum(part.steps for part in parts))

    def __str__(self) -> str:
        return "/".join([part._parenthesized(2) for part in self.parts])


@dataclass(frozen=True)
class Alternation(Expression):
    """A path of any of the parts; nested alternations are flattened.

    >>> print(Alternation((Label("a"), Concatenation((Label("b"), Label("c"))))))
    a|b/c
    """

    parts: tuple[Expression, ...]
    depth: int = field(init=False, repr=False, compare=False)
    steps: int = field(init=False, repr=False, compare=False)
    _binding = 0

    def __post_init__(self) -> None:
        parts: list[Expression] = []
        for part in self.parts:
            parts.extend(part.parts if isinstance(part, Alternation) else [part])
        if len(parts) < 2:
            raise ValueError("an alternation has at least two parts")
        object.__setattr__(self, "parts", tuple(parts))
        self._measure(parts, sum(part.steps for part in parts))

    def __str__(self) -> str:
        return "|".join([part._parenthesized(1) for part in self.parts])


@dataclass(frozen=True)
class Repetition(Expression):
    """`minimum` to `maximum` paths of `inner`, one after the other; with `maximum` None, any number.

    >>> a = Label("a")
    >>> print(Repetition(a, 0, None), Repetition(a, 1, None), Repetition(a, 0, 1), Repetition(a, 2, 2))
    a* a+ a? a{2}
    >>> print(Repetition(a, 2, 4), Repetition(a, 3, None), Repetition(Inverse(a), 0, 4))
    a{2,4} a{3,} (^a){,4}
    """

    inner: Expression
    minimum: int
    maximum: int | None
    depth: int = field(init=False, repr=False, compare=False)
    steps: int = field(init=False, repr=False, compare=False)
    _binding = 3

    def __post_init__(self) -> None:
        if self.minimum < 0:
            raise ValueError(f"a repetition cannot have {self.minimum} as its minimum")
        if self.maximum is not None and self.maximum < self.minimum:
            raise ValueError(f"the maximum {self.maximum} of a repetition is below its minimum {self.minimum}")
        copies = max(self.minimum, self.maximum or 0, 1)
        steps = copies * self.inner.steps
        if copies > 1 and steps > MAXIMUM_STEPS:
            raise SizeError(f"the repetition has {steps:,} steps when written out, more than {MAXIMUM_STEPS:,}")
        self._measure([self.inner], steps)

    def __str__(self) -> str:
        return self.inner._parenthesized(4) + self._quantifier()

    def _quantifier(self) -> str:
        match (self.minimum, self.maximum):
            case (0, None):
                return "*"
            case (1, None):
                return "+"
            case (0, 1):
                return "?"
            case (minimum, None):
                return f"{{{minimum},}}"
            case (minimum, maximum) if minimum == maximum:
                return f"{{{minimum}}}"
            case (0, maximum):
                return f"{{,{maximum}}}"
            case (minimum, maximum):
                return f"{{{minimum},{maximum}}}"
