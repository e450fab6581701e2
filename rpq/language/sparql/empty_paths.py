"""Paths of length zero: an atom whose path accepts the empty path, in terms of atoms that join nonempty paths.

By the standard (section 18.4) the pairs of such an atom are those that a nonempty path joins, every node of the active
graph with itself, and a constant at an end of the atom with itself, whether or not the graph has it. Kernels join nonempty
paths. So the solutions are those with a nonempty path between different ends, and those in which the ends are one:

    ?x <type> ?c . ?c <sub>* <Animal>    =    ?x <type> ?c . ?c <sub>+ <Animal> FILTER(?c is not Animal)
                                         ∪    ?x <type> <Animal>, with ?c = Animal

The second branch needs no nodes where an end is a constant, or stands in another atom over the same window. Otherwise the
nodes are those of all edges of the window, which are read for that alone. A constant that takes the place of a variable has
to be a node if the variable stands in another atom whose path may be empty and which does not name a constant:

    ?x <a>? ?y . ?y <b>? <z>    has no solution ?x = ?y = <z> where <z> is no node
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rpq.automata.transforms import accepts_empty
from rpq.language.pattern import Blank, Constant, Term, Variable, merge_overlapping, vertices_of
from rpq.language.sparql.algebra import (
    Conjunction,
    Distinct,
    Extend,
    Filter,
    Formula,
    FunctionCall,
    Join,
    Operator,
    Project,
    Union,
    Values,
    WindowAtom,
    make_join,
    make_union,
    name_of,
)

MAX_BRANCHED = 4
"""The maximum number of paths by which a whole conjunction is divided into branches; other paths become parts of a join."""


def with_empty_paths(operator: Operator, new_blank: Callable[[], Blank]) -> Operator:
    """Return the equivalent of a basic graph pattern in which all atoms join nonempty paths.

    The pattern is a conjunction, or a join or union of some. `new_blank` returns blank nodes that occur nowhere else.

    >>> from rpq.automata import parse
    >>> from rpq.language.pattern import Atom
    >>> from rpq.language.sparql.algebra_text import algebra_text
    >>> atoms = Atom(Variable("x"), parse("type"), Variable("c")), Atom(Variable("c"), parse("sub*"), Constant("animal"))
    >>> print(algebra_text(with_empty_paths(Conjunction(tuple(map(WindowAtom, atoms))), lambda: Blank("1"))))
    union                             binds c, x
      filter !SAMETERM(?c, <animal>)  binds c, x
        conjunction                   binds c, x
          ?c sub* animal
          ?x type ?c
      bind ?c = <animal>              binds c, x
        conjunction                   binds x
          ?x type animal
    """
    match operator:
        case Conjunction(atoms) if any(map(_may_be_empty, atoms)):
            return make_join(*(_divide(part, new_blank) for part in _connected(atoms)))
        case Join(parts):
            return make_join(*(with_empty_paths(part, new_blank) for part in parts))
        case Union(branches):
            return make_union(*(with_empty_paths(branch, new_blank) for branch in branches))
    return operator  # without such paths, or a triple with a variable as predicate under a filter


def _may_be_empty(one: WindowAtom) -> bool:
    return accepts_empty(one.atom.expression)


def _connected(atoms: Sequence[WindowAtom]) -> Iterator[list[WindowAtom]]:
    """Yield the atoms of a conjunction by its parts, which have no term in common: branches would be products of these."""
    terms = [{one.atom.subject, one.atom.object, one.predicate} - {None} for one in atoms]
    return ([atoms[place] for place in places] for _, places in merge_overlapping(terms))


def _divide(atoms: Sequence[WindowAtom], new_blank: Callable[[], Blank]) -> Operator:
    """Return the solutions of atoms, some of which may join empty paths."""
    division = _Division(new_blank)
    predicates = {one.predicate for one in atoms}
    together: list[WindowAtom] = []
    apart: list[Operator] = []
    branched = 0
    for one in atoms:
        ends = one.atom.subject, one.atom.object
        if not _may_be_empty(one):
            together.append(one)
        elif any(isinstance(term, Constant) and len(vertices_of(term)) > 1 for term in ends):
            apart.append(division.with_literals(one))
        elif branched == MAX_BRANCHED or predicates & {*ends}:
            apart.append(division.divide([one], (), 0))
        else:
            together.append(one)
            branched += 1
    return make_join(division.divide(together, (), 0), *apart)


Nodes = tuple[tuple[Term, str | None], ...]
"""Terms that have to be nodes, each with the window whose graph is meant."""


class _Division:
    """The division of a conjunction by whether the paths of its atoms are empty."""

    def __init__(self, new_blank: Callable[[], Blank]) -> None:
        self._new_blank = new_blank

    def divide(self, atoms: Sequence[WindowAtom], nodes: Nodes, done: int) -> Operator:
        """Return the solutions of atoms in which some terms are nodes; the first `done` atoms join nonempty paths only."""
        places = [number for number, one in enumerate(atoms) if number >= done and _may_be_empty(one)]
        bound = {
            (term, other.window)
            for number, other in enumerate(atoms)
            if number < done or not _may_be_empty(other)
            for term in (other.atom.subject, other.atom.object)
        }
        if not places:
            return make_join(Conjunction(tuple(atoms)), *(self.nodes(*node) for node in nodes if node not in bound))
        bound |= {*nodes}
        # An atom with a bound end comes first, because it binds its other end.
        place = min(places, key=lambda number: (not _is_bound(atoms[number], bound), number))
        one, others = atoms[place], [*atoms[:place], *atoms[place + 1 :]]
        subject, object_ = one.atom.subject, one.atom.object
        if subject == object_:
            is_node = isinstance(subject, Constant) or (subject, one.window) in bound
            return self.divide(others, nodes if is_node else (*nodes, (subject, one.window)), done)
        branches = [one, *others]  # the nonempty one is among those that bind
        if isinstance(subject, Constant) and isinstance(object_, Constant):
            return self.divide(branches, nodes, done + 1)
        nonempty = _differ(self.divide(branches, nodes, done + 1), _formula(subject), _formula(object_))
        return make_union(nonempty, self._with_one_end(one, others, bound, nodes, done))

    def _with_one_end(
        self, one: WindowAtom, others: Sequence[WindowAtom], bound: set[tuple[Term, str | None]], nodes: Nodes, done: int
    ) -> Operator:
        """Return the solutions in which the path of an atom is empty, so that its two ends are one."""
        kept, replaced = one.atom.subject, one.atom.object
        is_better = not isinstance(kept, Constant) and (kept, one.window) not in bound and (replaced, one.window) in bound
        if isinstance(replaced, Constant) or is_better:
            kept, replaced = replaced, kept
        windows = [] if _is_bound(one, bound) else [one.window]
        if isinstance(kept, Constant):
            windows = [other.window for other in others if replaced in _variable_ends(other) and _may_be_empty(other)]
        added = [(kept, window) for window in windows if not bound & {(kept, window), (replaced, window)}]
        renamed = [(kept if term == replaced else term, window) for term, window in nodes]
        rest = [_with_term(other, replaced, kept) for other in others]
        inner = self.divide(rest, tuple(dict.fromkeys([*renamed, *added])), done)
        name = name_of(replaced)
        assert name is not None
        return Extend(inner, name, _formula(kept), is_joined=True)

    def with_literals(self, one: WindowAtom) -> Operator:
        """Return the solutions of an atom with a literal at an end, where it means two vertices.

        Each meaning is a row of a table. The literal itself is joined with itself, its other meaning only if it is a node.
        """
        ends: list[Term] = []
        tables: list[Operator] = []
        constants: list[str] = []
        for term in (one.atom.subject, one.atom.object):
            if not isinstance(term, Constant):
                ends.append(term)
                continue
            end = self._new_blank()
            ends.append(end)
            tables.append(Values((_name(end),), tuple((name,) for name in vertices_of(term))))
            constants.append(term.name)
        free = WindowAtom(replace(one.atom, subject=ends[0], object=ends[1]), one.window)
        names = tuple(map(_name, ends))
        first, second = map(Variable, names)
        nonempty = _differ(make_join(Conjunction((free,)), *tables), first, second)
        itself = make_join(Values(names, tuple((name, name) for name in dict.fromkeys(constants))), *tables)
        node = self.nodes(ends[0], one.window)
        of_nodes: Operator = make_join(Extend(node, names[1], first, is_joined=True), *tables)
        for name in dict.fromkeys(constants):
            of_nodes = _differ(of_nodes, first, Constant(name))
        return make_union(nonempty, itself, of_nodes)

    def nodes(self, term: Term, window: str | None) -> Operator:
        """Return the nodes of the graph of a window, each once, as the values of a variable.

        Where the term is a constant, return one solution if it is a node, otherwise none.
        """
        columns = () if isinstance(term, Constant) else (_name(term),)
        predicate = Variable(_name(self._new_blank()))
        ends = [(term, self._new_blank()), (self._new_blank(), term)]
        found = [Conjunction((WindowAtom.of_every_label(subject, predicate, object_, window),)) for subject, object_ in ends]
        return Distinct(make_union(*(Project(one, columns) for one in found)))


def _name(term: Term) -> str:
    name = name_of(term)
    assert name is not None
    return name


def _formula(term: Term) -> Formula:
    return term if isinstance(term, Constant) else Variable(_name(term))


def _is_bound(one: WindowAtom, bound: set[tuple[Term, str | None]]) -> bool:
    """Return whether an end of an atom is a constant or is bound to a node."""
    return any(isinstance(term, Constant) or (term, one.window) in bound for term in (one.atom.subject, one.atom.object))


def _variable_ends(one: WindowAtom) -> set[Term]:
    """Return the ends of an atom if both are variables, otherwise none."""
    ends: set[Term] = {one.atom.subject, one.atom.object}
    return set() if any(isinstance(term, Constant) for term in ends) else ends


def _differ(operator: Operator, one: Formula, other: Formula) -> Operator:
    """Return the solutions in which two terms are not the same."""
    return Filter(operator, FunctionCall("!", (FunctionCall("SAMETERM", (one, other)),)))


def _with_term(one: WindowAtom, replaced: Term, replacement: Term) -> WindowAtom:
    """Return an atom with a term in place of a variable at its ends; a predicate stays, for it is a variable of its own."""
    of: Mapping[Term, Term] = {replaced: replacement}
    subject, object_ = (of.get(term, term) for term in (one.atom.subject, one.atom.object))
    return replace(one, atom=replace(one.atom, subject=subject, object=object_))
