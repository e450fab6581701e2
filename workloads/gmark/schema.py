"""gMark schemas: types of vertices, and the relations between them with the distributions of their edges.

`read_schema` reads gMark's XML; `SOCIAL` is a built-in social network. Types without a proportion or a fixed size get equal
parts of the vertices, as in gMark's demo graphs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from xml.etree import ElementTree

ZIPF_MEAN = 0.85
"""The number of edges per vertex that gMark generates with exponent 2.5, measured in its demo graph of 229,754 edges."""

LONGEST_WALK = 64
"""The length from which walks through a schema are not distinguished."""

_BY_MULTIPLICITY = {"1": 1.0, "?": 0.5, "*": ZIPF_MEAN, "+": ZIPF_MEAN}


class SchemaError(ValueError):
    """An invalid schema or workload."""


@dataclass(frozen=True)
class Distribution:
    """The distribution of vertex degrees: `kind` "uniform" or "gaussian" with a mean, or "zipfian" with an exponent."""

    kind: str
    mean: float = 1.0
    exponent: float = 2.5


@dataclass(frozen=True, kw_only=True)
class LabelRelation:
    """A label from one type to another; `outgoing` and `incoming` are the distributions of degrees at both ends."""

    source: str
    label: str
    target: str
    outgoing: Distribution
    incoming: Distribution

    def count(self, sources: float, targets: float) -> float:
        """Return the expected number of edges, determined by a side that is not zipfian, or by the smaller of two such."""
        sides = [
            size * side.mean
            for size, side in ((sources, self.outgoing), (targets, self.incoming))
            if side.kind != "zipfian"
        ]
        return min(sides) if sides else sources * ZIPF_MEAN


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The types (name → part of the vertices), the relations, and names for the labels."""

    types: Mapping[str, float]
    relations: tuple[LabelRelation, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    def vertices_for(self, edges: int) -> int:
        """Return the number of vertices of a graph with `edges` edges."""
        per_vertex = sum(r.count(self.types[r.source], self.types[r.target]) for r in self.relations)
        return max(10 * len(self.types), round(edges / per_vertex))

    @cached_property
    def leaving(self) -> Mapping[str, list[LabelRelation]]:
        """The relations that leave each type."""
        return {name: [r for r in self.relations if r.source == name] for name in self.types}

    @cached_property
    def longest_walk(self) -> Mapping[str, int]:
        """The number of relations that can be followed one after the other from each type, at most `LONGEST_WALK`."""
        lengths = dict.fromkeys(self.types, 0)
        for _ in range(LONGEST_WALK):
            lengths = {
                name: max((1 + lengths[r.target] for r in leaving), default=0) for name, leaving in self.leaving.items()
            }
        return lengths


def read_schema(path: str | os.PathLike[str]) -> Schema:
    """Read gMark's XML; labels are its symbols, as in the graphs that gMark writes. Raises `SchemaError`."""
    try:
        root = ElementTree.parse(path).getroot()
        weights = {}
        for alias in root.iterfind("./types/alias"):
            weights[alias.attrib["type"]] = float(alias.get("proportion", "nan"))
        for share in root.iterfind("./types/*"):
            if share.tag in ("proportion", "fixed"):
                weights[share.attrib["type"]] = float(share.text or "nan")
        relations = tuple(
            _relation(source.attrib["type"], target)
            for source in root.iterfind("./schema/source")
            for target in source.iterfind("target")
        )
        names = {alias.attrib["symbol"]: (alias.text or "").strip() for alias in root.iterfind("./predicates/alias")}
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise SchemaError(f"{os.fspath(path)}: is not a gMark schema: {error}") from error
    if not relations:
        raise SchemaError(f"{os.fspath(path)}: is not a gMark schema: it has no sources with targets")
    for relation in relations:
        weights.setdefault(relation.source, float("nan"))
        weights.setdefault(relation.target, float("nan"))
    valid = [weight for weight in weights.values() if weight == weight]
    default = sum(valid) / len(valid) if valid else 1.0
    weights = {name: weight if weight == weight else default for name, weight in weights.items()}
    total = sum(weights.values())
    return Schema(types={name: w / total for name, w in weights.items()}, relations=relations, names=names)


def _relation(source: str, target: ElementTree.Element) -> LabelRelation:
    mean = _BY_MULTIPLICITY[target.get("multiplicity", "*")]
    default = Distribution("uniform", mean) if mean != ZIPF_MEAN else Distribution("zipfian")
    outgoing = _distribution(target.find("outdistribution"), default)
    incoming = _distribution(target.find("indistribution"), Distribution("zipfian"))
    return LabelRelation(
        source=source,
        label=target.attrib["symbol"],
        target=target.attrib["type"],
        outgoing=outgoing,
        incoming=incoming,
    )


def _distribution(element: ElementTree.Element | None, default: Distribution) -> Distribution:
    if element is None:
        return default
    kind = element.attrib["type"]
    values = {child.tag: float(child.text or "nan") for child in element}
    if kind == "zipfian":
        return Distribution("zipfian", exponent=values.get("alpha", 2.5))
    if kind == "uniform":
        return Distribution("uniform", (values["min"] + values["max"]) / 2)
    if kind in ("gaussian", "normal"):
        return Distribution("gaussian", values["mu"])
    raise ValueError(f"unknown distribution {kind!r}")


def _social() -> Schema:
    one, some, many = Distribution("uniform", 1.0), Distribution("uniform", 1.5), Distribution("zipfian")
    types = "person city country forum tag post comment company".split()
    table = (
        ("person", "0", "person", many, many),
        ("person", "1", "tag", many, many),
        ("forum", "2", "person", one, many),
        ("forum", "3", "person", many, many),
        ("person", "5", "company", some, many),
        ("person", "6", "city", one, many),
        ("post", "6", "country", one, many),
        ("comment", "6", "country", one, many),
        ("city", "7", "country", one, many),
        ("person", "8", "post", many, many),
        ("person", "8", "comment", many, many),
        ("post", "9", "person", one, many),
        ("comment", "9", "person", one, many),
        ("forum", "10", "post", many, one),
        ("post", "11", "tag", many, many),
        ("comment", "14", "post", one, many),
        ("comment", "14", "comment", one, many),
    )
    relations = tuple(
        LabelRelation(source=source, label=label, target=target, outgoing=outgoing, incoming=incoming)
        for source, label, target, outgoing, incoming in table
    )
    names = "knows hasInterest hasModerator hasMember studyAt worksAt isLocatedIn isPartOf likes hasCreator containerOf"
    numbered = {str(number): name for number, name in enumerate([*names.split(), "hasTag", "hasType", "isSubclassOf"])}
    return Schema(types=dict.fromkeys(types, 1 / len(types)), relations=relations, names=numbered | {"14": "replyOf"})


SOCIAL = _social()
"""A social network in the vocabulary of LDBC, with the numbers of gMark's social schema as labels; see also `names`."""
