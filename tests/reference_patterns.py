"""The oracle of graph patterns: their solutions on given graphs, by brute force, as the contract words them.

A pattern is atoms joined by shared variables. The pairs of an atom come from the oracle of paths (`tests.reference`),
an edge being a path of one step; the bindings are what nested loops over those pairs find. Streams and windows are in
`tests.reference_pattern_stream`. Numbers in brackets, [2.2], name the rule of the contract that a line obeys:

[2.1] path atoms are sets of pairs, [2.2] multiplicity, [2.3] the graphs that atoms read, [2.12] matching,
[2.13] literals, [2.14] connected or not, [2.16] witness.

What the rules leave open is decided here, and so for every engine:

- A **literal constant** (it begins with `"`) means two vertices, wherever it stands: that with its text and that whose
  whole text is its lexical form, without language or type. Both match "as a union": where both edges are there, the
  solution comes twice, and two occurrences of one literal choose each for themselves.
- **Isomorphism** compares what terms stand for: different terms, of which a literal may stand for two vertices, never
  share a vertex. So `30` and `"30"` in one pattern are two constants, and the literal does not mean the vertex `30`.
- A pattern whose only unknowns are **blank nodes** has no columns, and is refused as one without variables is.
- **Columns** that `select` leaves out count for the multiplicity, as blank nodes do.
"""

import itertools
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from rpq import automata
from rpq.automata.expressions import Alternation, Concatenation, Expression, Inverse, Label, NegatedSet, Repetition
from tests.reference import Edge, Rejected, Vertex, evaluate, is_relevant

Graphs = Mapping[str | None, Iterable[Edge]]  # a named window -> its edges; None -> the default graph [2.3]


@dataclass(frozen=True)
class Variable:
    """`?name`: a vertex that can be selected."""

    name: str


@dataclass(frozen=True)
class Blank:
    """`_:name`: a variable that cannot be selected."""

    label: str


@dataclass(frozen=True)
class Constant:
    """A vertex by its name; a text that begins with `"` is a literal in N-Triples form."""

    value: Hashable

    @property
    def meanings(self) -> set[Vertex]:
        """The vertices that it matches: itself, and for a literal its lexical form too [2.13].

        >>> sorted(Constant('"30"^^<xsd:integer>').meanings)
        ['"30"^^<xsd:integer>', '30']
        """
        return {self.value} | ({lexical_form(self.value)} if str(self.value).startswith('"') else set())


Term = Variable | Blank | Constant
Binding = frozenset[tuple[Term, Vertex]]  # what every term stands for; a literal constant may stand for two vertices


class Atom(NamedTuple):
    """A path from subject to object that spells a word of the expression, in a named window or the default graph."""

    subject: Term
    expression: str
    object: Term
    window: str | None = None


class Ends(NamedTuple):
    """Edges of a label: those with a source, a target, both, neither given, or those from a vertex to itself."""

    source: Vertex | None
    target: Vertex | None
    is_loop: bool = False

    def includes(self, edges: "Ends") -> bool:
        """Return whether all edges that another one has are among its own; an edge has both ends.

        >>> [ALL.includes(Ends("x", None)), Ends("x", None).includes(ALL), Ends(None, None, True).includes(Ends("x", "x"))]
        [True, False, True]
        """
        if self.is_loop:
            return edges.is_loop or (edges.source is not None and edges.source == edges.target)
        return self.source in (None, edges.source) and self.target in (None, edges.target)


ALL = Ends(None, None)


class Labels(NamedTuple):
    """A set of labels: those `named`, or with `others` all but those. Equal sets compare equal."""

    named: frozenset[str]
    others: bool

    def __contains__(self, label: object) -> bool:
        return (label in self.named) != self.others


class Step(NamedTuple):
    """An edge of a witness, with its time (None for a static edge), walked in its direction or `against` it."""

    source: Vertex
    label: str
    target: Vertex
    timestamp: int | None
    against: bool = False

    @property
    def ends(self) -> tuple[Vertex, Vertex]:
        return (self.target, self.source) if self.against else (self.source, self.target)


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Atoms, and which of their variables are shown: all in order of appearance, or those of `select`.

    Raises Rejected for a pattern without variables, and for a selection of what is no variable of it.

    >>> x, y, z = map(Variable, "xyz")
    >>> pattern = Pattern(atoms=(Atom(x, "a", y), Atom(y, "b+", z)), select=("x", "z"))
    >>> pattern.solutions({None: [(1, "a", 2), (1, "a", 3), (2, "b", 4), (3, "b", 4)]})
    Counter({(1, 4): 2})
    """

    atoms: tuple[Atom, ...]
    select: tuple[str, ...] | None = None
    distinct: bool = False
    matching: Literal["homomorphism", "isomorphism"] = "homomorphism"
    paths: Literal["walk", "simple", "simple_cycle"] = "walk"

    def __post_init__(self) -> None:
        if not self.variables:
            raise Rejected("a pattern without variables has no columns; ASK says whether it holds")
        if unknown := [name for name in self.select or () if name not in self.variables]:
            raise Rejected(f"select: {unknown} are no variables of the pattern, which has {self.variables}")
        if len(set(self.columns)) < len(self.columns) or {"query", "timestamp", "op"} & set(self.columns):
            raise Rejected(f"columns {self.columns}: each once, none called query, timestamp or op")

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables, in order of appearance."""
        terms = [term for atom in self.atoms for term in (atom.subject, atom.object)]
        return tuple(dict.fromkeys(term.name for term in terms if isinstance(term, Variable)))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.variables if self.select is None else self.select

    @property
    def windows(self) -> set[str | None]:
        """The windows that atoms read; None is the default graph."""
        return {atom.window for atom in self.atoms}

    def labels_read(self, window: str | None) -> Labels:
        """Return the labels that the atoms over this window have a use for, whatever their constants [2.15]."""
        expressions = [atom.expression for atom in self.atoms if atom.window == window]
        named = {label for expression in expressions for label in labels_in(automata.parse(expression))}
        never_named = max(named, default="") + "?"  # it stands for all labels that no expression speaks of
        used = {label for label in {*named, never_named} for text in expressions if is_relevant(text, label)}
        others = never_named in used
        return Labels(frozenset(label for label in named if (label in used) != others), others)

    def accepts(self, label: str) -> set[Ends]:
        """Return which edges of a label some atom has a use for [2.15]."""
        atoms = [(atom.subject, automata.parse(atom.expression), atom.object) for atom in self.atoms]
        return {ends for atom in atoms for ends in accepted(*atom, label)}

    def bindings(self, graphs: Graphs) -> list[Binding]:
        """Return every choice of one pair for each atom on which all atoms agree [2.2, 2.14]."""
        found: list[Binding] = [frozenset()]
        for atom in self.atoms:
            pairs = evaluate(atom.expression, graphs[atom.window], self.paths)  # [2.1] a set
            found = [more for binding in found for pair in pairs if (more := extended(binding, atom, pair)) is not None]
        return [binding for binding in found if self.matching == "homomorphism" or is_one_to_one(binding)]

    def solutions(self, graphs: Graphs) -> Counter[tuple[Vertex, ...]]:
        """Return the bag of solutions: the values of the columns, as often as there are bindings for them [2.2]."""
        bag = Counter(tuple(dict(binding)[Variable(name)] for name in self.columns) for binding in self.bindings(graphs))
        return Counter(set(bag)) if self.distinct else bag


def accepted(subject: Term, path: Expression, target: Term, label: str) -> set[Ends]:
    """Return which edges of a label an atom has a use for, whose ends are its own where nothing stands between [2.15].

    >>> x, a = Variable("x"), Label("a")
    >>> accepted(Constant("h"), Inverse(a), x, "a"), accepted(x, a, x, "a"), accepted(x, a, x, "b")
    ({Ends(source=None, target='h', is_loop=False)}, {Ends(source=None, target=None, is_loop=True)}, set())
    >>> accepted(Constant("h"), automata.parse("a/b?"), Constant("i"), "a")
    {Ends(source='h', target=None, is_loop=False)}
    """
    found = set()
    for inverse, (has_steps_before, has_steps_behind) in places(path, label).items():
        ends = [None if has_steps_before else subject, None if has_steps_behind else target]
        begin, end = reversed(ends) if inverse else ends
        if begin is not None and begin == end and not isinstance(begin, Constant):
            found.add(Ends(None, None, is_loop=True))
            continue
        meanings = ([*term.meanings] if isinstance(term, Constant) else [None] for term in (begin, end))
        found |= {Ends(*pair) for pair in itertools.product(*meanings)}
    return found


def places(node: Expression, label: str) -> dict[bool, tuple[bool, bool]]:
    """Return for each direction of a step with a label whether words can have steps before it, and behind it.

    >>> places(automata.parse("a/^b{1,2}/c?"), "a"), places(automata.parse("a/^b{1,2}/c?"), "b")
    ({False: (False, True)}, {True: (True, True)})
    """
    found: dict[bool, tuple[bool, bool]] = {}

    def add(part: Expression, before: bool, behind: bool) -> None:
        for inverse, own in places(part, label).items():
            known = found.get(inverse, (False, False))
            found[inverse] = (known[0] or own[0] or before, known[1] or own[1] or behind)

    match node:
        case Label(name):
            return {False: (False, False)} if name == label else {}
        case NegatedSet():
            return {inverse: (False, False) for inverse in node.directions if (label, inverse) not in node.members}
        case Inverse(inner):
            return {not inverse: (behind, before) for inverse, (before, behind) in places(inner, label).items()}
        case Alternation(parts):
            for part in parts:
                add(part, False, False)
        case Concatenation(parts):
            for i, part in enumerate(parts):
                add(part, any(map(has_steps, parts[:i])), any(map(has_steps, parts[i + 1 :])))
        case Repetition(inner, _, maximum):
            if maximum != 0:
                comes_again = maximum is None or maximum > 1
                add(inner, comes_again, comes_again)
        case _:
            raise TypeError(node)
    return found


def has_steps(node: Expression) -> bool:
    """Return whether some word of an expression has a step."""
    match node:
        case Label() | NegatedSet():
            return True
        case Inverse(inner):
            return has_steps(inner)
        case Concatenation(parts) | Alternation(parts):
            return any(map(has_steps, parts))
        case Repetition(inner, _, maximum):
            return maximum != 0 and has_steps(inner)
    raise TypeError(node)


def extended(binding: Binding, atom: Atom, pair: tuple[Vertex, Vertex]) -> Binding | None:
    """Return the binding with the ends of an atom at this pair, or None where it has other values for them."""
    for term, value in zip((atom.subject, atom.object), pair, strict=True):
        if isinstance(term, Constant):
            agrees = value in term.meanings
        else:
            agrees = all(value == known for other, known in binding if other == term)
        if not agrees:
            return None
        binding |= {(term, value)}
    return binding


def is_one_to_one(binding: Binding) -> bool:
    """Return whether different terms stand for different vertices [2.12]."""
    return len({value for _, value in binding}) == len(binding)


def lexical_form(literal: str) -> str:
    r"""Return what stands between the quotes of a literal in N-Triples form; a text that is none stays as it is.

    >>> lexical_form('"say \\"hello\\""@en')
    'say "hello"'
    """
    found = re.fullmatch(r'"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^<[^<>]*>)?', literal)
    if found is None:
        return literal
    names = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}

    def character(escape: re.Match[str]) -> str:
        code = escape[0][1:]
        return chr(int(code[1:], 16)) if code[0] in "uU" else names.get(code, code)

    return re.sub(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", character, found[1])


@cache
def labels_in(node: Expression) -> frozenset[str]:
    """Return the labels that an expression names."""
    match node:
        case Label(name):
            return frozenset([name])
        case NegatedSet():
            return frozenset(label for label, _ in node.members)
        case Inverse(inner) | Repetition(inner):
            return labels_in(inner)
        case Concatenation(parts) | Alternation(parts):
            return frozenset().union(*map(labels_in, parts))
    raise TypeError(node)


def witness_fault(
    pattern: Pattern,
    graphs: Mapping[str | None, Mapping[Edge, int | None]],
    binding: Mapping[str, Vertex],
    paths: Sequence[Sequence[Step]],
) -> str | None:
    """Say what is wrong with the witness of a binding, or None if it holds [2.16].

    `paths` has a path for each atom, of one step for an edge atom; `graphs` have the time of each edge, None for those
    that are static alone. `binding` has the values of variables; others, and blank nodes, may have any that fit.
    """
    if len(paths) != len(pattern.atoms):
        return f"{len(paths)} paths for {len(pattern.atoms)} atoms"
    values: Binding = frozenset((Variable(name), value) for name, value in binding.items())
    for atom, path in zip(pattern.atoms, paths, strict=True):
        if not path:
            return f"{atom}: an empty path"  # [2.1]
        graph = graphs[atom.window]
        for step in path:
            edge = (step.source, step.label, step.target)
            if edge not in graph or graph[edge] != step.timestamp:
                return f"{atom}: {step} is not in its graph"
        if any(first.ends[1] != second.ends[0] for first, second in itertools.pairwise(path)):
            return f"{atom}: the steps do not meet"
        visited = [path[0].ends[0], *(step.ends[1] for step in path)]
        is_cycle = pattern.paths == "simple_cycle" and visited[0] == visited[-1]
        if pattern.paths != "walk" and len(set(visited)) < len(visited) - is_cycle:
            return f"{atom}: a vertex comes twice"
        # The word of the path, as a line 0, 1, …: the one simple path between its ends spells it.
        line = [(i + 1, s.label, i) if s.against else (i, s.label, i + 1) for i, s in enumerate(path)]
        if (0, len(path)) not in evaluate(atom.expression, line, "simple"):
            return f"{atom}: the path spells no word of the expression"
        more = extended(values, atom, (visited[0], visited[-1]))
        if more is None:
            return f"{atom}: the path joins other vertices than the binding"
        values = more
    if pattern.matching == "isomorphism" and not is_one_to_one(values):
        return "two terms share a vertex"
    return None
