"""A path query or a pattern in the notations of the rivals. Labels are numbers, as in the file of changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LABELS = ("a2q", "c2a", "c2q")
"""The labels of the questions; their places are their numbers."""

MAX_HOPS = 100_000
"""The bound on the length of a path that ladybug requires: more than the number of vertices in a window."""


@dataclass(frozen=True, kw_only=True)
class PathStep:
    """One edge with one of the labels or, with a repetition, any number of such edges ("*"), or at least one ("+")."""

    labels: tuple[int, ...]
    repetition: Literal["", "*", "+"] = ""


@dataclass(frozen=True, kw_only=True)
class PathQuestion:
    """A path query as a chain of steps, of which the first is no "*" and no other a "+".

    >>> steps = (PathStep(labels=(0,)), PathStep(labels=(1,), repetition="*"))
    >>> question = PathQuestion(name="Q2", text="a2q/c2a*", steps=steps)
    >>> question.sparql
    'SELECT DISTINCT ?v0 ?v1 WHERE { ?v0 <urn:l:0>/<urn:l:1>* ?v1 }'
    >>> question.cypher  # doctest: +NORMALIZE_WHITESPACE
    'MATCH (v0)-[:L0]->(v1) WITH DISTINCT v0, v1 MATCH (v1)-[:L1*0..]->(v2) WITH DISTINCT v0, v2
     RETURN id(v0) AS v0, id(v2) AS v1'
    >>> question.arguments
    ['path', '0', '1*']
    """

    name: str
    text: str
    steps: tuple[PathStep, ...]

    @property
    def sparql(self) -> str:
        """The query in SPARQL 1.1."""
        parts = []
        for step in self.steps:
            labels = "|".join(f"<urn:l:{label}>" for label in step.labels)
            parts.append(f"({labels}){step.repetition}" if len(step.labels) > 1 else labels + step.repetition)
        return f"SELECT DISTINCT ?v0 ?v1 WHERE {{ ?v0 {'/'.join(parts)} ?v1 }}"

    @property
    def sql(self) -> str:
        """The query in SQL, a common table for each step, recursive for a repetition."""
        tables: list[str] = []
        for number, step in enumerate(self.steps):
            labels = f"label IN ({', '.join(map(str, step.labels))})"
            following = f"r.x, e.target FROM {{}} r JOIN edges e ON e.source = r.y WHERE e.{labels}"
            if number == 0:
                base = f"SELECT source, target FROM edges WHERE {labels}"
            elif step.repetition:
                base = f"SELECT x, y FROM r{number - 1}"
            else:
                base = f"SELECT DISTINCT {following.format(f'r{number - 1}')}"
            again = f" UNION SELECT {following.format(f'r{number}')}" if step.repetition else ""
            tables.append(f"r{number}(x, y) AS ({base}{again})")
        return f"WITH RECURSIVE {', '.join(tables)} SELECT DISTINCT x, y FROM r{len(self.steps) - 1}"

    @property
    def cypher(self) -> str:
        """The query in Cypher, a clause for each step, between which equal pairs are one."""
        clauses = []
        for number, step in enumerate(self.steps):
            types = "|".join(f"L{label}" for label in step.labels)
            hops = {"": "", "*": "*0..", "+": "*1.."}[step.repetition]
            clauses.append(f"MATCH (v{number})-[:{types}{hops}]->(v{number + 1}) WITH DISTINCT v0, v{number + 1}")
        return f"{' '.join(clauses)} RETURN id(v0) AS v0, id(v{len(self.steps)}) AS v1"

    @property
    def ladybug(self) -> str:
        """The query in the Cypher of ladybug, whose shortest paths have an edge and no cycle. A repetition must be last."""
        *before, last = self.steps
        chain = [*before, last] if last.repetition != "*" else before
        if any(step.repetition for step in before):
            raise ValueError(f"{self.name} has a repetition before its last step, which is not written for ladybug")
        types = ["|".join(f"L{label}" for label in step.labels) for step in [*chain, last]]
        clauses = [
            f"MATCH (v{number}:V)-[:{types[number]}]->(v{number + 1}:V) WITH DISTINCT v0, v{number + 1}"
            for number in range(len(chain))
        ]
        near, far = len(chain), len(chain) + 1
        text = f"{' '.join(clauses)} RETURN v0.id AS x, v{near}.id AS y"
        if last.repetition:
            closure = f"MATCH (v{near})-[:{types[-1]}* SHORTEST 1..{MAX_HOPS}]->(v{far}:V)"
            text += f" UNION {' '.join(clauses)} {closure} RETURN v0.id AS x, v{far}.id AS y"
        return text

    @property
    def arguments(self) -> list[str]:
        """The query as `path STEP...`, with steps such as `0`, `1*` and `0|1|2+`."""
        return ["path", *("|".join(map(str, step.labels)) + step.repetition for step in self.steps)]


@dataclass(frozen=True, kw_only=True)
class PatternQuestion:
    """A pattern of edges: atoms (variable, label, variable) with variables from 0; its rows are those of all variables.

    >>> question = PatternQuestion(name="P1", text="?x a2q ?y . ?y c2a ?z", atoms=((0, 0, 1), (1, 1, 2)))
    >>> question.sparql
    'SELECT ?v0 ?v1 ?v2 WHERE { ?v0 <urn:l:0> ?v1 . ?v1 <urn:l:1> ?v2 }'
    >>> question.sql  # doctest: +ELLIPSIS
    'SELECT e0.source AS v0, e0.target AS v1, e1.target AS v2 FROM edges e0, edges e1 WHERE e0.label = 0 AND ... = e0.target'
    """

    name: str
    text: str
    atoms: tuple[tuple[int, int, int], ...]

    @property
    def sparql(self) -> str:
        """The query in SPARQL 1.1."""
        atoms = " . ".join(f"?v{x} <urn:l:{label}> ?v{y}" for x, label, y in self.atoms)
        return f"SELECT {' '.join(f'?v{number}' for number in range(self.variables))} WHERE {{ {atoms} }}"

    @property
    def sql(self) -> str:
        """The query in SQL, a join of the table with itself."""
        columns: dict[int, str] = {}
        conditions = [f"e{number}.label = {label}" for number, (_, label, _) in enumerate(self.atoms)]
        for number, (x, _, y) in enumerate(self.atoms):
            for variable, column in ((x, f"e{number}.source"), (y, f"e{number}.target")):
                if columns.setdefault(variable, column) != column:
                    conditions.append(f"{column} = {columns[variable]}")
        tables = ", ".join(f"edges e{number}" for number in range(len(self.atoms)))
        selected = ", ".join(f"{columns[number]} AS v{number}" for number in range(self.variables))
        return f"SELECT {selected} FROM {tables} WHERE {' AND '.join(conditions)}"

    @property
    def cypher(self) -> str:
        """The query in Cypher, a clause for each atom, so that two atoms can be the same edge."""
        atoms = " ".join(f"MATCH (v{x})-[:L{label}]->(v{y})" for x, label, y in self.atoms)
        return f"{atoms} RETURN {', '.join(f'id(v{number}) AS v{number}' for number in range(self.variables))}"

    @property
    def ladybug(self) -> str:
        """The query in the Cypher of ladybug."""
        atoms = ", ".join(f"(v{x}:V)-[:L{label}]->(v{y}:V)" for x, label, y in self.atoms)
        return f"MATCH {atoms} RETURN {', '.join(f'v{number}.id' for number in range(self.variables))}"

    @property
    def arguments(self) -> list[str]:
        """The query as `pattern ATOM...`, with atoms such as `0,2,1`: variable, label, variable."""
        return ["pattern", *(",".join(map(str, atom)) for atom in self.atoms)]

    @property
    def variables(self) -> int:
        """The number of variables."""
        return 1 + max(max(x, y) for x, _, y in self.atoms)


@dataclass(frozen=True, kw_only=True)
class RdfQuestion:
    """A query in SPARQL over changes whose cells are numbers of the terms in a file (`rdf_changes`).

    `epl` is the same in the language of Esper, over a file of tuples, empty if Esper has no such query.
    """

    name: str
    text: str
    sparql: str
    terms: Path
    epl: str = ""


Question = PathQuestion | PatternQuestion | RdfQuestion

QUESTIONS: tuple[PathQuestion | PatternQuestion, ...] = (
    PathQuestion(name="Q1", text="a2q*", steps=(PathStep(labels=(0,), repetition="+"),)),
    PathQuestion(name="Q2", text="a2q/c2a*", steps=(PathStep(labels=(0,)), PathStep(labels=(1,), repetition="*"))),
    PathQuestion(name="Q4", text="(a2q|c2a|c2q)*", steps=(PathStep(labels=(0, 1, 2), repetition="+"),)),
    PathQuestion(
        name="Q11", text="a2q/c2a/c2q", steps=(PathStep(labels=(0,)), PathStep(labels=(1,)), PathStep(labels=(2,)))
    ),
    PatternQuestion(
        name="P2", text="?x a2q ?y . ?y c2a ?z . ?z c2q ?w", atoms=((0, 0, 1), (1, 1, 2), (2, 2, 3))
    ),
    PatternQuestion(
        name="P5", text="?x a2q ?y . ?y c2a ?z . ?z a2q ?w . ?w c2a ?x",
        atoms=((0, 0, 1), (1, 1, 2), (2, 0, 3), (3, 1, 0)),
    ),
    PatternQuestion(
        name="P6", text="?x a2q ?y . ?y c2a ?z . ?y c2q ?w . ?w a2q ?u",
        atoms=((0, 0, 1), (1, 1, 2), (1, 2, 3), (3, 0, 4)),
    ),
)  # fmt: skip
"""Path queries of Pacaci et al. (2020), table 2, and patterns of `rpq bench patterns`."""
