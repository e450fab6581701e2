"""MATCH texts drawn from the grammar, and streams of edges and records of nodes for them.

A text is put together from parts that fit: patterns over the variables in scope, values of a kind, conditions over them. So
most texts are accepted; those that are refused (a quantified path that counts too much, say) are passed over by the tests.
Edges have the properties `amount` (integer), `rate` (float) and `note` (text), nodes `risk`, `score` and `land`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from hypothesis import assume
from hypothesis import strategies as st

import rpq
from tests.engine.nodes.node_queries import EdgeStep, NodeStep, Step
from tests.reference_match import MatchOracle, MatchStreamQuery, told

VERTICES = ("u", "v", "w")
LABELS = ("T", "S")
NODE_LABELS = ("A", "B")
NODE_LABEL = "type"
PARAMETERS = {"i": 2, "f": 1.5, "s": "x", "l": [1, 2, 2], "n": 2}
EDGE_KINDS = {"amount": "int", "rate": "float", "note": "text"}
NODE_KINDS = {"risk": "int", "score": "float", "land": "text"}

REPEATABLE = "REPEATABLE ELEMENTS "

Kind = Literal["node", "edge", "int", "float", "text", "bool", "ints", "texts", "nodes", "edges"]
Dialect = Literal["gql", "cypher"]


@dataclass
class Scope:
    """The variables that a part of a text may read, with their kinds; a path is no value."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    """Variables that an OPTIONAL MATCH binds."""

    def of(self, kind: Kind) -> list[str]:
        """Return the variables of a kind."""
        return [name for name, one in self.kinds.items() if one == kind]

    def copy(self) -> Scope:
        """Return a scope that may grow."""
        return Scope(dict(self.kinds), [*self.paths], {*self.missing})


@dataclass(frozen=True)
class Profile:
    """What drawn texts may have."""

    dialect: Dialect = "cypher"
    is_numbered: bool = False
    """True if edges can be returned."""
    is_plain: bool = False
    """True for texts of MATCH, WHERE and RETURN with variables and properties alone, whose rows have witnesses."""
    is_common: bool = False
    """True for what an embedded database that matches by homomorphism reads, too, and has the same rows for.

    It has no labels of nodes and no order of equal rows, and calls few functions by the same names.
    """
    has_node_label: bool = True
    """True if edges give labels."""


@dataclass(frozen=True)
class DrawnQuery:
    """A drawn text, with its parameters."""

    text: str
    profile: Profile

    @property
    def language(self) -> Dialect:
        """The language of the text."""
        return self.profile.dialect

    @property
    def node_label(self) -> str | None:
        """The label of the edges that give labels."""
        return NODE_LABEL if self.profile.has_node_label else None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters in the text."""
        return {name: value for name, value in PARAMETERS.items() if f"${name}" in self.text}

    @property
    def oracle(self) -> MatchOracle:
        """The meaning of the text."""
        return MatchOracle(text=self.text, dialect=self.language, node_label=self.node_label, parameters=self.parameters)


def drawn_query(random: Random, profile: Profile) -> DrawnQuery:
    """Draw a text."""
    return DrawnQuery(_Drawing(random, profile).text(), profile)


def match_queries(**profile: Any) -> st.SearchStrategy[DrawnQuery]:
    """Draw queries of a profile."""
    return st.integers(0, 2**32).map(lambda seed: drawn_query(Random(seed), Profile(**profile)))


class _Drawing:
    """The drawing of one text."""

    def __init__(self, random: Random, profile: Profile) -> None:
        self._random = random
        self._profile = profile
        self._is_cypher = profile.dialect == "cypher"
        self._numbers = iter(range(1000))
        self._as_set = False
        """Whether it is never told how often a match occurs."""
        self._along: list[str] = []
        """Conditions on the steps of paths of the clause that is drawn."""
        self._last_node: str | None = None
        self._shortest: set[str] = set()
        """The names of shortest paths, of which any is told."""

    def _pick(self, among: Sequence[Any]) -> Any:
        return self._random.choice(among)

    def _chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def _fresh(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"

    # --- the whole

    def text(self) -> str:
        """Return a text."""
        if self._profile.is_plain or not (self._is_cypher and self._chance(12)):
            return self._single(None)
        has_node = self._chance(60) and not self._profile.is_common
        columns: list[tuple[str, Kind]] = [("x0", "node")] * has_node + [("x1", self._pick(["int", "text"]))]
        word = self._pick([" UNION ", " UNION ALL "])
        return word.join(self._single(columns) for _ in range(2))

    def _single(self, columns: list[tuple[str, Kind]] | None) -> str:
        parts = self._pick([1, 1, 1, 2, 2, 3]) if self._is_cypher and not self._profile.is_plain else 1
        scope, texts = Scope(), []
        for number in range(parts):
            is_last = number == parts - 1
            self._as_set = is_last and columns is None and self._chance(25)
            texts += self._clauses(scope, is_first=number == 0)
            if is_last:
                texts.append(self._return(scope, columns))
            else:
                text, scope = self._with(scope)
                texts.append(text)
        return " ".join(texts)

    def _clauses(self, scope: Scope, *, is_first: bool) -> list[str]:
        found = []
        for number in range(self._pick([1, 1, 1, 2, 2]) if is_first else self._pick([0, 1, 1])):
            if self._is_cypher and not self._profile.is_plain and self._chance(8 if number == 0 else 15):
                found.append(self._unwind(scope))
                continue
            is_optional = self._chance(8 if not scope.kinds else 25)
            found.append(("OPTIONAL " if is_optional else "") + "MATCH " + self._pattern(scope, is_optional=is_optional))
        return found

    def _unwind(self, scope: Scope) -> str:
        kind = self._pick(["ints", "ints", "texts", "nodes"])
        if kind == "nodes" and not scope.of("nodes"):
            kind = "ints"
        source = self._pick(scope.of(kind)) if scope.of(kind) and self._chance(60) else self._list(kind, scope, 1)
        name = self._fresh("x")
        scope.kinds[name] = {"ints": "int", "texts": "text", "nodes": "node"}[kind]
        if kind == "nodes":
            scope.missing.add(name)
        return f"UNWIND {source} AS {name}"

    # --- patterns

    def _pattern(self, scope: Scope, *, is_optional: bool = False, begin: str | None = None, is_inner: bool = False) -> str:
        """Return the paths and the condition of a clause, whose variables join the scope."""
        before = scope.copy()
        differ = not self._is_cypher and self._chance(15)
        paths = [
            self._path(scope, begin if place == 0 else None, is_inner=is_inner, differ=differ)
            for place in range(1 if is_inner else self._pick([1, 1, 1, 2]))
        ]
        new = [name for name in scope.kinds if name not in before.kinds]
        mode = REPEATABLE if self._profile.is_common else "DIFFERENT EDGES " if differ else ""
        text = mode + ", ".join(paths)
        conditions = [self._condition(scope, 2) for _ in range(self._pick([0, 0, 0, 1, 1, 2]))]
        if self._along:
            conditions.append(self._along.pop())
        self._along.clear()
        if conditions:
            text += f" WHERE {' AND '.join(conditions)}"
        if is_optional:
            scope.missing |= {*new}
        return text

    def _path(self, scope: Scope, begin: str | None, *, is_inner: bool, differ: bool) -> str:
        if not is_inner and begin is None and self._chance(8):
            return self._node(scope, begin, is_alone=True, is_first=True)
        is_common = self._profile.is_common
        is_shortest = self._is_cypher and not is_inner and not is_common and self._chance(8)
        is_any = not is_shortest and not self._is_cypher and not differ and self._chance(25)
        counts = self._is_cypher and not is_common
        may_repeat = counts or is_any or ((self._as_set or is_inner) and not differ)
        length = 1 if is_shortest else self._pick([1, 1, 1, 2, 2, 3] if not is_inner else [1, 1, 2])
        outer = scope.copy()
        mine = outer if is_any or is_shortest else scope
        self._last_node = None
        known = [one for one in scope.of("node") if one not in scope.missing or self._chance(15)]
        if begin is None and known and self._chance(75):
            begin = self._pick(known)
        texts = [self._node(mine, begin, is_first=True)]
        first, repeats = self._last_node, False
        for place in range(length):
            is_repeated = is_shortest or (may_repeat and self._chance(30 if not repeats else 10))
            repeats = repeats or is_repeated
            texts.append(self._edge(mine, is_repeated=is_repeated, is_shortest=is_shortest, is_hidden=is_any))
            is_inside = is_any and place < length - 1
            texts.append("()" if is_inside else self._node(mine, None))
        ends = [name for name in (first, self._last_node) if name is not None]
        for name in ends:
            scope.kinds.setdefault(name, "node")
        path = "".join(texts)
        if is_shortest:
            name = self._fresh("p")
            scope.paths.append(name)
            self._shortest.add(name)
            if self._chance(30):
                self._along.append(self._on_steps(name))
            return f"{name} = shortestPath({path})"
        if is_any:
            return self._pick(["ANY ", "ANY SHORTEST "]) + path
        if not is_inner and self._is_cypher and not (is_common and repeats) and self._chance(15):
            name = self._fresh("p")
            scope.paths.append(name)
            if repeats and self._chance(40):
                self._along.append(self._on_steps(name))
            return f"{name} = {path}"
        has_mode = not repeats and not is_common and self._chance(8)
        mode = self._pick(["TRAIL ", "ACYCLIC ", "SIMPLE ", "WALK "]) if has_mode else ""
        return mode + path

    def _on_steps(self, path: str) -> str:
        """Return a condition on the steps of a path."""
        word = self._pick(["all", "all", "none", "any"])
        if self._chance(60):
            compared = f"r.amount {self._pick(['>', '<='])} {self._random.randint(1, 4)}"
            return f"{word}(r IN relationships({path}) WHERE {compared})"
        condition = self._pick(["n.risk > 1", "n.risk IS NULL", "n:A", "n.land = 'x'", "n.id <> 'v'"])
        return f"{word}(n IN nodes({path}) WHERE {condition})"

    def _node(self, scope: Scope, name: str | None, *, is_alone: bool = False, is_first: bool = False) -> str:
        known = [one for one in scope.of("node") if one not in scope.missing and one != self._last_node]
        if name is None and known and self._chance(35 if is_alone else 10 if not is_first else 0):
            name = self._pick(known)
        elif name is None and (is_alone or self._chance(70)):
            name = self._fresh("a")
        is_known = name in scope.kinds
        self._last_node = name
        has_label = self._chance(25 if not is_known else 5) and not self._profile.is_common
        label = self._pick(["", "", ":A", ":B", ":A|B", ":A&B", ":!A"]) if has_label else ""
        inside = ""
        if self._chance(10 if not is_known else 3):
            kinds = ["id", "risk", "land"] if not is_known else ["risk"]
            inside = {
                "id": f" {{id: '{self._pick(VERTICES)}'}}",
                "risk": f" {{risk: {self._random.randint(0, 4)}}}",
                "land": f" {{land: {self._pick(['$s', repr('y')])}}}",
            }[self._pick(kinds)]
        elif name is not None and not self._profile.is_common and self._chance(8):
            inside = f" WHERE {name}.risk > {self._random.randint(0, 3)}"
        elif scope.of("int") and not self._profile.is_common and self._chance(15):
            inside = f" {{risk: {self._pick(scope.of('int'))}}}"
        if name is not None:
            scope.kinds.setdefault(name, "node")
        return f"({name or ''}{label}{inside})"

    def _edge(self, scope: Scope, *, is_repeated: bool, is_shortest: bool, is_hidden: bool) -> str:
        label = self._pick([":T", ":T", ":S", ":T|S", *([] if self._profile.is_common else [":!T", ":%", ""])])
        direction = self._pick(["right", "right", "right", "left", "either"])
        inside = self._pick([f" {{amount: {self._random.randint(1, 3)}}}", f" {{note: '{self._pick('xy')}'}}"])
        inside = inside if self._chance(12) else ""
        name = ""
        if is_repeated:
            least, most = self._pick([(1, 2), (1, 3), (2, 2), (0, 1), (0, 2), (2, 3)])
            if is_shortest:
                least, most = self._pick([(1, None), (1, 3), (0, 2)])
            elif (self._as_set or not self._is_cypher) and not self._profile.is_common and self._chance(50):
                least, most = self._pick([(1, None), (0, None)] if not self._is_cypher else [(1, None)])
            if self._is_cypher:
                star = f"*{least}..{'' if most is None else most}"
                quantifier = ""
            else:
                star = ""
                quantifier = f"{{{least},{'' if most is None else most}}}"
            if most is None:
                direction, label = self._pick(["right", "left"]), self._pick([":T", ":S", ":T|S"])
        else:
            star = quantifier = ""
            if self._chance(60):
                name = self._fresh("e")
                if not is_hidden:
                    scope.kinds[name] = "edge"
                if self._chance(10) and not self._profile.is_common:
                    inside = f" WHERE {name}.amount >= {self._random.randint(1, 3)}"
        filler = f"[{name}{label}{star}{inside}]"
        if is_repeated and not self._is_cypher and self._chance(25):
            inner = self._pick(["()", "(z {risk: 1})", "(z WHERE z.risk > 0)"])
            second = self._pick(["", f"<-[{self._pick([':T', ':S'])}]-()", "-[y:T WHERE y.amount > 1]->()"])
            return f"({inner}-{filler}->(){second}){quantifier}"
        left, right = {"right": ("-", "->"), "left": ("<-", "-"), "either": ("-", "-")}[direction]
        return f"{left}{filler}{right}{quantifier}"

    # --- conditions

    def _condition(self, scope: Scope, depth: int) -> str:
        kinds = ["compare"] * 4 + ["null", "in"]
        if scope.of("node"):
            kinds += ["id", "ids", "exists", "path"] + ["nodes"] * (len(scope.of("node")) > 1)
            kinds += ["label"] * (not self._profile.is_common)
        if len(scope.of("edge")) > 1:
            kinds += ["edges", "times"]
        if scope.of("edge") and not self._profile.is_common:
            kinds += ["time", "type"]
            kinds += ["end"] * (self._is_cypher and not self._profile.is_plain and bool(scope.of("node")))
        if depth > 0:
            kinds += ["and", "or", "not", "xor"]
            kinds += ["texts"] * (not self._profile.is_plain)
            kinds += ["list", "between", "chain"] * (not self._profile.is_plain and not self._profile.is_common)
        match self._pick(kinds):
            case "compare":
                kind = self._pick(["int", "int", "float", "text"])
                signs = ["<", ">", "=", "<>", ">=", "<="]
                left, right = self._value(kind, scope, depth - 1), self._value(kind, scope, 0)
                return f"{left} {self._pick(signs)} {right}"
            case "null":
                value = self._value(self._pick(["int", "text"]), scope, 0)
                return f"{value} IS {self._pick(['', 'NOT '])}NULL"
            case "in":
                kind = self._pick(["int", "text"])
                value, source = self._value(kind, scope, 0), self._list(f"{kind}s", scope, 0)
                negated = f"NOT ({value} IN {source})" if self._profile.is_common else f"{value} NOT IN {source}"
                return self._pick([f"{value} IN {source}", negated])
            case "between":
                return f"{self._value('int', scope, 0)} BETWEEN 1 AND {self._value('int', scope, 0)}"
            case "label":
                return f"{self._pick(scope.of('node'))}:{self._pick(NODE_LABELS)}"
            case "id":
                return f"{self._pick(scope.of('node'))}.id {self._pick(['=', '<>', '<'])} '{self._pick(VERTICES)}'"
            case "ids":
                return f"{self._pick(scope.of('node'))}.id IN ['u', '{self._pick(VERTICES)}']"
            case "nodes":
                one, other = self._random.sample(scope.of("node"), 2)
                return f"{one} {self._pick(['=', '<>', '<>'] + ['<'] * (not self._profile.is_common))} {other}"
            case "edges":
                one, other = self._random.sample(scope.of("edge"), 2)
                return f"{one} {self._pick(['=', '<>'])} {other}"
            case "times":
                one, other = self._random.sample(scope.of("edge"), 2)
                return f"{one}.timestamp {self._pick(['<', '<='])} {other}.timestamp"
            case "time":
                return f"{self._pick(scope.of('edge'))}.timestamp {self._pick(['<', '>='])} {self._random.randint(5, 15)}"
            case "type":
                edge = self._pick(scope.of("edge"))
                return self._pick([f"type({edge}) = 'T'", f"{edge}:T" if self._is_cypher else f"type({edge}) <> 'S'"])
            case "end":
                ends = self._pick(["startNode", "endNode"])
                return f"{ends}({self._pick(scope.of('edge'))}) {self._pick(['=', '<>'])} {self._pick(scope.of('node'))}"
            case "chain":
                return f"{self._value('int', scope, 0)} < {self._value('int', scope, 0)} <= {self._value('int', scope, 0)}"
            case "exists":
                begin = self._pick(scope.of("node"))
                inner = self._pattern(scope.copy(), begin=begin, is_inner=True)
                return f"{self._pick(['', 'NOT '])}EXISTS {{ {'MATCH ' * self._profile.is_common}{inner} }}"
            case "path":
                one = self._pick(scope.of("node"))
                label = self._pick([":T", ":S", ":T|S"])
                ends = ["()"] if self._profile.is_common else ["()", "(:A)"]
                end = self._pick([*ends, *(f"({name})" for name in scope.of("node"))])
                path = f"({one}){self._pick([f'-[{label}]->', f'<-[{label}]-'])}{end}"
                return self._pick([path, f"NOT {path}", path if self._profile.is_common else f"exists({path})"])
            case "texts":
                left, right = self._value("text", scope, 0), self._pick(["'x'", "'y'", "$s"])
                if self._is_cypher:
                    return f"{left} {self._pick(['STARTS WITH', 'ENDS WITH', 'CONTAINS'])} {right}"
                return f"{left} <> {right}"
            case "list":
                word, kind = self._pick(["all", "any", "none", "single"]), self._pick(["int", "text"])
                compared = f"z > {self._random.randint(0, 2)}" if kind == "int" else "z <> 'x'"
                return f"{word}(z IN {self._list(f'{kind}s', scope, depth - 1)} WHERE {compared})"
            case "not":
                return f"NOT ({self._condition(scope, depth - 1)})"
            case word:
                left, right = (self._condition(scope, depth - 1) for _ in range(2))
                return f"({left} {word.upper()} {right})"

    # --- values

    def _value(self, kind: Kind, scope: Scope, depth: int) -> str:
        """Return a value of a kind, which reads the variables in scope."""
        if kind in ("node", "edge"):
            return self._pick(scope.of(kind))
        if kind in ("ints", "texts", "nodes", "edges"):
            return self._list(kind, scope, depth)
        if kind == "bool":
            return f"({self._condition(scope, depth)})"
        simple = self._simple(kind, scope)
        if depth <= 0 or self._profile.is_plain or self._chance(50):
            return self._pick(simple)
        inner = lambda other: self._value(other, scope, depth - 1)  # noqa: E731
        match self._pick(["case", "coalesce", "operation", "operation"]):
            case "case":
                if self._chance(30):
                    return f"CASE {inner('int')} WHEN 1 THEN {inner(kind)} WHEN 2 THEN {inner(kind)} END"
                condition, otherwise = self._condition(scope, depth - 1), f" ELSE {inner(kind)}" * self._chance(60)
                return f"CASE WHEN {condition} THEN {inner(kind)}{otherwise} END"
            case "coalesce":
                return f"coalesce({inner(kind)}, {inner(kind)})"
        if self._profile.is_common:
            return self._pick(
                {
                    "int": [
                        f"({inner('int')} {self._pick(['+', '-', '*'])} {inner('int')})",
                        f"abs({inner('int')})",
                        f"size({inner('text')})",
                    ],
                    "float": [
                        f"({inner('float')} {self._pick(['+', '-', '*'])} {inner('float')})",
                        f"{self._pick(['floor', 'ceil', 'abs'])}({inner('float')})",
                    ],
                    "text": [f"({inner('text')} + {inner('text')})", f"{self._pick(['upper', 'lower'])}({inner('text')})"],
                }[kind]
            )
        match kind:
            case "int":
                made = [
                    f"({inner('int')} {self._pick(['+', '-', '*'])} {inner('int')})",
                    f"abs({inner('int')})",
                    f"sign({inner('int')})",
                    f"size({self._list('ints', scope, depth - 1)})",
                    f"size({inner('text')})",
                    f"toInteger({inner('float')})",
                    f"{self._list('ints', scope, depth - 1)}[{self._pick([0, 1, -1])}]",
                    f"head({self._list('ints', scope, depth - 1)})",
                    f"reduce(t = 0, z IN {self._list('ints', scope, depth - 1)} | t + z)",
                ]
                made += [f"({inner('int')} {self._pick(['/', '%'])} {inner('int')})"] * self._is_cypher
                if scope.of("node"):
                    pattern = self._pattern(scope.copy(), begin=self._pick(scope.of("node")), is_inner=True)
                    made.append(f"COUNT {{ {pattern} }}")
                return self._pick(made)
            case "float":
                return self._pick(
                    [
                        f"({inner('float')} {self._pick(['+', '-', '*', '/'])} {inner('float')})",
                        f"({inner('float')} + {inner('int')})",
                        f"{self._pick(['floor', 'ceil', 'round', 'abs'])}({inner('float')})",
                        f"toFloat({inner('int')})",
                    ]
                )
            case _:
                return self._pick(
                    [
                        f"({inner('text')} + {inner('text')})",
                        f"{self._pick(['toUpper', 'toLower', 'trim', 'reverse'])}({inner('text')})",
                        f"left({inner('text')}, 1)",
                        f"substring({inner('text')}, 1)",
                        f"replace({inner('text')}, 'x', 'zz')",
                        f"toString({inner('int')})",
                        f"{self._list('texts', scope, depth - 1)}[0]",
                    ]
                )

    def _simple(self, kind: Kind, scope: Scope) -> list[str]:
        """Return names and constants of a kind."""
        found = [f"{name}.{one}" for name in scope.of("node") for one, of in NODE_KINDS.items() if of == kind] * 2
        found += [f"{name}.{one}" for name in scope.of("edge") for one, of in EDGE_KINDS.items() if of == kind] * 2
        found += scope.of(kind) * 3
        match kind:
            case "int":
                named = [] if self._profile.is_common else ["$i"]
                return [*found, str(self._random.randint(0, 4)), *named, *self._of_paths(scope)]
            case "float":
                return [*found, f"{self._random.randint(0, 4)}.5", "$f"]
        types = [] if self._profile.is_common else [f"type({name})" for name in scope.of("edge")]
        return [*found, f"'{self._pick(['x', 'y', 'xy'])}'", "$s", *types]

    def _of_paths(self, scope: Scope) -> list[str]:
        """Return integers that paths have."""
        found = [f"length({path})" for path in scope.paths]
        if not self._profile.is_common:
            for path in scope.paths:
                if path not in self._shortest:
                    found.append(f"nodes({path})[{self._pick([0, -1])}].risk")
                    found.append(f"reduce(t = 0, z IN relationships({path}) | t + z.amount)")
                    found.append(f"size([z IN nodes({path}) WHERE z.risk > 1])")
        return found

    def _list(self, kind: str, scope: Scope, depth: int) -> str:
        if kind in ("nodes", "edges"):
            function = "nodes" if kind == "nodes" else "relationships"
            return self._pick([*scope.of(kind), *(f"{function}({path})" for path in scope.paths)])  # type: ignore[arg-type]
        one: Kind = "int" if kind == "ints" else "text"
        found = [f"[{', '.join(self._value(one, scope, 0) for _ in range(self._random.randint(0, 3)))}]"] * 2
        found += [*scope.of(kind)] * 3  # type: ignore[arg-type]
        if self._profile.is_common:
            values = [str(self._random.randint(0, 4)) if kind == "ints" else f"'{self._pick('xy')}'" for _ in range(3)]
            return self._pick([f"[{', '.join(values)}]", *scope.of(kind)])  # type: ignore[arg-type]
        if kind == "ints":
            found += ["$l", f"range({self._value('int', scope, 0)}, 3)"]
        else:
            found += [f"labels({name})" for name in scope.of("node")]
        if depth > 0:
            inner = self._list(kind, scope, depth - 1)
            made = f"z + {self._pick(['1', '$i'])}" if kind == "ints" else "z + 'x'"
            compared = "z > 1" if kind == "ints" else "z <> 'x'"
            found += [
                f"[z IN {inner} WHERE {compared} | {made}]",
                f"[z IN {inner} WHERE {compared}]",
                f"{inner}[{self._pick(['..2', '1..', '-2..'])}]",
                f"tail({inner})",
                f"({inner} + {self._list(kind, scope, 0)})",
            ]
        return self._pick(found)

    # --- projections

    def _with(self, scope: Scope) -> tuple[str, Scope]:
        """Return a WITH, and what is in scope behind it."""
        if self._chance(10):
            after = scope.copy()
            name = self._fresh("x")
            after.kinds[name] = "int"
            text = f"WITH *, {self._value('int', scope, 2)} AS {name}"
            return text + self._behind(scope, after), after
        after, items = Scope(), []
        is_grouped = self._chance(40)
        entities = [name for name, kind in scope.kinds.items() if kind in ("node", "edge")]
        for name in self._random.sample(entities, min(len(entities), self._pick([0, 1, 1, 2]))):
            after.kinds[name] = scope.kinds[name]
            after.missing |= {name} & scope.missing
            items.append(name)
        for name in scope.paths:
            if not is_grouped and self._chance(50):
                after.paths.append(name)
                items.append(name)
        for name, kind in scope.kinds.items():
            if kind not in ("node", "edge") and self._chance(40):
                after.kinds[name] = kind
                items.append(name)
        for _ in range(self._pick([0, 1, 1, 2]) if items else self._pick([1, 2])):
            kind, name = self._pick(["int", "int", "text", "float", "bool"]), self._fresh("x")
            after.kinds[name] = kind
            items.append(f"{self._value(kind, scope, 2)} AS {name}")
        if is_grouped:
            for _ in range(self._pick([1, 1, 2])):
                text, kind = self._aggregate(scope)
                name = self._fresh("x")
                after.kinds[name] = kind
                items.append(f"{text} AS {name}")
        is_distinct = not is_grouped and self._chance(25)
        is_plain = not is_grouped and not is_distinct and not self._profile.is_common
        text = f"WITH {'DISTINCT ' * is_distinct}{', '.join(items)}"
        seen = replace(after.copy(), kinds={**scope.kinds, **after.kinds}) if is_plain else after
        return text + self._behind(seen, after), after

    def _behind(self, seen: Scope, after: Scope) -> str:
        """Return ORDER BY, SKIP, LIMIT and WHERE behind a WITH."""
        text = ""
        has_order = not self._profile.is_common
        if has_order and self._chance(40):
            text += self._order(seen)
        if has_order and self._chance(20):
            text += f" SKIP {self._pick(['1', '$n'])}"
        if has_order and self._chance(30):
            text += f" LIMIT {self._pick(['1', '2', '$n', '3'])}"
        if self._chance(30):
            text += f" WHERE {self._condition(seen, 1)}"
        return text

    def _order(self, seen: Scope) -> str:
        kinds: list[Kind] = [*{*seen.kinds.values()} - {"edges"}] or ["int"]
        items = []
        for _ in range(self._pick([1, 1, 2])):
            kind = self._pick(sorted(kinds))
            if kind == "edge" and not self._profile.is_numbered:
                kind = "int"
            items.append(self._value(kind, seen, 1) + self._pick(["", " ASC", " DESC"]))
        return f" ORDER BY {', '.join(items)}"

    def _aggregate(self, scope: Scope) -> tuple[str, Kind]:
        """Return an aggregate and the kind of its result."""
        function = self._pick(["count", "count", "sum", "avg", "min", "max", "collect", "collect"])
        distinct = "DISTINCT " * self._chance(25)
        if function == "collect" and not self._is_cypher:
            function = "count"
        if function == "count":
            if self._chance(40):
                return self._pick(["count(*)", "count(*)", "count(*) + 1", "2 * count(*) - 1"]), "int"
            names = [*scope.of("node"), *scope.of("edge")]
            value = self._pick(names) if names and self._chance(50) else self._value("int", scope, 1)
            return f"count({distinct}{value})", "int"
        if function == "collect":
            if scope.of("node") and not self._profile.is_common and self._chance(50):
                return f"collect({distinct}{self._pick(scope.of('node'))})", "nodes"
            kind: Kind = self._pick(["int", "text"])
            return f"collect({distinct}{self._value(kind, scope, 1)})", f"{kind}s"  # type: ignore[return-value]
        kind = self._pick(["int", "int", "float"]) if function in ("sum", "avg") else self._pick(["int", "float", "text"])
        text = f"{function}({distinct}{self._value(kind, scope, 1)})"
        if function == "sum" and self._profile.is_common:
            text = f"coalesce({text}, 0)"  # the sum of nothing is 0 in Cypher, null there
        return text, "float" if function == "avg" else kind

    def _return(self, scope: Scope, columns: list[tuple[str, Kind]] | None) -> str:
        if columns is not None:
            items = []
            for name, kind in columns:
                value = "null" if kind == "node" and not scope.of("node") else self._value(kind, scope, 1)
                items.append(f"{value} AS {name}")
            return f"RETURN {', '.join(items)}" + self._limit(scope) * (not self._profile.is_common and self._chance(20))
        is_told = self._profile.is_numbered or not (scope.of("edge") or scope.of("edges"))
        has_parts = not self._profile.is_plain
        is_whole = self._chance(8) and not self._shortest & {*scope.paths} and not self._profile.is_common
        if is_told and scope.kinds and not self._as_set and is_whole:
            return "RETURN *" + self._limit(scope) * (has_parts and self._chance(20))
        items = [self._item(scope) for _ in range(self._pick([1, 2, 2, 3]))]
        is_grouped = has_parts and not self._as_set and self._chance(30)
        if is_grouped:
            items = items[: self._pick([0, 1, 1, 2])]
            for _ in range(self._pick([1, 1, 2])):
                items.append(f"{self._aggregate(scope)[0]} AS {self._fresh('y')}")
            self._random.shuffle(items)
        text = f"RETURN {'DISTINCT ' * self._as_set}{', '.join(dict.fromkeys(items))}"
        if has_parts and not is_grouped and not self._as_set and not self._profile.is_common and self._chance(25):
            text += self._limit(scope)
        return text

    def _limit(self, scope: Scope) -> str:
        first = self._order(scope) * self._chance(70) + " SKIP 1" * self._chance(20)
        return f"{first} LIMIT {self._pick(['1', '2', '$n'])}"

    def _item(self, scope: Scope) -> str:
        kinds: list[Kind] = ["int", "int", "text", "float", "bool"] + ["node"] * 6 * bool(scope.of("node"))
        if self._profile.is_plain:
            plain = [f"{name}.{one}" for name in scope.of("node") for one in NODE_KINDS]
            plain += [f"{name}.{one}" for name in scope.of("edge") for one in EDGE_KINDS]
            plain += scope.of("node") * 4 + scope.of("edge") * 2 * self._profile.is_numbered
            return self._pick(plain or ["'x' AS x"])
        if self._profile.is_common:
            kinds = [*kinds, "node"]
            kind = self._pick([one for one in kinds if one != "node" or scope.of("node")])
            value = f"{self._pick(scope.of('node'))}.id" if kind == "node" else self._value(kind, scope, 2)
            return f"{value} AS {self._fresh('y')}"
        if self._is_cypher:
            kinds += ["ints", "texts"]
            kinds += ["nodes"] * bool(scope.of("nodes"))
        kinds += ["edge"] * 2 * (self._profile.is_numbered and bool(scope.of("edge")))
        paths = [path for path in scope.paths if path not in self._shortest]
        if paths and self._chance(15):
            return f"{self._pick(paths)} AS {self._fresh('y')}"
        kind = self._pick(kinds)
        if kind == "node" and self._chance(50):
            return self._pick(scope.of("node"))
        return f"{self._value(kind, scope, 2)} AS {self._fresh('y')}"


# --- streams ---------------------------------------------------------------------------------------------------------


def drawn_steps(data: Any, identity: str, time: int) -> list[Step]:
    """Draw tuples, some of them late, or records."""
    random: Random = Random(data.draw(st.integers(0, 2**32)))
    if random.random() < 0.35:
        return [*_records(random, time)]
    return [*_tuples(random, identity, time)]


def _tuples(random: Random, identity: str, time: int) -> Iterator[EdgeStep]:
    for _ in range(random.randint(1, 6)):
        at = time + random.choice((0, 0, 0, 1, 1, 2, -1, -3, -8, 7))
        label = random.choice((*LABELS, "T", "T", NODE_LABEL))
        target = random.choice(NODE_LABELS if label == NODE_LABEL else VERTICES)
        properties = _properties(random, {"amount": (0, 1, 2, 3, 4), "rate": (0.5, 1.5, -2.0), "note": ("x", "y", "xy")})
        edge = random.choice("efgh") if identity == "id" else None
        yield EdgeStep(random.choice(VERTICES), label, target, at, properties, random.choice("++++++-"), edge)
        time = max(time, at)


def _records(random: Random, time: int) -> Iterator[NodeStep]:
    for _ in range(random.randint(1, 5)):
        at = random.choice((None, None, time, time + 1, time - 1))
        node, op = random.choice((*VERTICES, "s")), random.choice("+++++==-")
        labels = random.choice(((), ("A",), ("B",), ("A", "B")))
        properties = _properties(random, {"risk": (0, 1, 2, 3, 4), "score": (0.5, 1.5, -2.0), "land": ("x", "y", "xy")})
        yield NodeStep(node, at, op) if op == "-" else NodeStep(node, at, op, labels, properties)
        time = max(time, at or time)


def _properties(random: Random, values: dict[str, Sequence[Any]]) -> dict[str, Any]:
    """Draw properties, of which some are null and some are missing."""
    drawn = {name: random.choice((*among, *among, None)) for name, among in values.items()}
    return {name: value for name, value in drawn.items() if random.random() < 0.8}


# --- in an engine ----------------------------------------------------------------------------------------------------


class StreamQuery:
    """A drawn query with a window, for the engine and for the oracle. Raises `rpq.QueryError` if its text is refused."""

    def __init__(self, drawn: DrawnQuery, name: str, *, size: int = 9, slide: int = 1, report: str = "change") -> None:
        self.drawn = drawn
        self.query = rpq.Query(
            drawn.text,
            name=name,
            window=rpq.Window(size=size, slide=slide),
            language=drawn.language,
            node_label=drawn.node_label,
            **{} if report == "change" else {"report": report},
            **{"parameters": drawn.parameters} if drawn.parameters else {},
        )
        self.oracle = MatchStreamQuery(
            name=name,
            size=size,
            slide=slide,
            report=report,
            semantics=self.query.semantics,
            meaning=drawn.oracle,
        )

    def cells(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values of a row of the engine as the oracle tells them."""
        return tuple(map(_cell, values))


def _cell(value: Any) -> Any:
    return tuple(map(_cell, value)) if isinstance(value, (list, tuple)) else told(value)


@st.composite
def stream_queries(
    draw: st.DrawFn,
    name: str,
    identity: str,
    *,
    size: int | None = None,
    slide: int | None = None,
    report: str = "change",
    **profile: Any,
) -> StreamQuery:
    """Draw a query that is not refused, with a window."""
    profile = {"dialect": draw(st.sampled_from(("cypher", "cypher", "gql"))), "is_numbered": identity != "triple"} | profile
    profile |= {"has_node_label": draw(st.integers(0, 3)) > 0}
    extent = {"size": size or draw(st.integers(1, 9)), "slide": slide or draw(st.integers(1, 4))}
    for _ in range(20):
        try:
            query = StreamQuery(draw(match_queries(**profile)), name, report=report, **extent)
            rpq.Engine(query.query, edges=identity)
        except rpq.QueryError:
            continue
        return query
    assume(False)
    raise AssertionError
