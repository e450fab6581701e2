"""The generator `yago`: facts with the degrees and chains of real facts of YAGO 2s, in any number.

`SHAPES` are the shapes of ten labels, counted in 20,457 different facts of YAGO 2s: the numbers of subjects and objects by
their number of facts, and the part of the objects that are also subjects of facts. A generated label has one of these
shapes: its own or, for the other labels of YAGO, among them the three of the paper's queries, that of a similar label. For
example, an event happens in one place, as a person is born in one place, and few capitals have a capital, as few owned
things own something.

Each fact of a label is a *stub* at both ends: a subject with three facts has three stubs. The number of subjects with each
number of facts grows with the stream, so that the degrees are exactly those of the shape. Stubs of subjects and objects are
paired at random or, if the real facts have small components, in the opposite order of their degrees. Facts of all labels
come in random order; few are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.sampling import BLOCK, blocks, shuffle, uniform, vertex_names


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of a label: the numbers of subjects (`out`) and objects (`into`) by their number of facts.

    `continues` is the part of the objects that are subjects of any label. The pairs of a `symmetric` label come in both
    directions, and its objects have the degrees of its subjects. A label is `scattered` if its components are small.
    """

    out: Mapping[int, int]
    into: Mapping[int, int]
    continues: float
    symmetric: bool = False
    scattered: bool = False

    @property
    def facts(self) -> int:
        """The number of facts that were counted."""
        return sum(degree * count for degree, count in self.out.items())


def _counts(text: str) -> Mapping[int, int]:
    """Return {degree: count} of a text `degree:count …`."""
    return {int(degree): int(count) for degree, count in (part.split(":") for part in text.split())}


SHAPES: Mapping[str, Shape] = {
    "playsFor": Shape(
        out=_counts("2:5 3:16 4:29 5:22 6:38 7:40 8:43 9:49 10:73 11:83 12:92 13:30 14:3 15:1"),
        into=_counts(
            "2:5 3:164 4:99 5:59 6:40 7:29 8:24 9:25 10:23 11:17 12:15 13:15 14:10 15:9 16:9 17:8 18:6 19:3 20:3 21:5 22:8 "
            "23:4 24:4 25:2 26:1 28:1 29:1 31:2 32:1 34:1 35:1 36:1 37:2 38:1 40:2 50:1 51:1 52:1"
        ),
        continues=0.0050,
    ),
    "wasBornIn": Shape(
        out={1: 3341},
        into=_counts(
            "1:47 2:61 3:116 4:60 5:50 6:25 7:18 8:9 9:17 10:3 11:6 12:5 13:7 14:4 15:3 16:1 17:2 18:2 20:1 21:3 22:1 23:2 "
            "24:2 25:3 26:1 27:2 28:2 31:1 32:1 33:1 42:1 45:1 46:1 47:1 52:1 71:1 77:1 81:1 93:1 102:1 237:1"
        ),
        continues=0.0278,
    ),
    "hasWonPrize": Shape(
        out=_counts("1:178 2:120 3:364 4:176 5:79 6:54 7:21 8:16 9:6 10:2 11:1 14:1"),
        into=_counts(
            "3:76 4:47 5:44 6:28 7:30 8:13 9:11 10:11 11:8 12:9 13:2 14:9 15:8 16:8 17:3 18:5 19:3 20:2 21:4 22:2 23:1 24:1 "
            "25:2 26:1 28:2 29:1 30:1 31:1 32:2 43:1 54:1 62:1 81:1 92:1 146:1 207:1"
        ),
        continues=0.0,
    ),
    "isMarriedTo": Shape(
        out=_counts("1:2038 2:127 3:4 4:1"), into=_counts("1:2056 2:120 3:4"), continues=1.0, symmetric=True
    ),
    "created": Shape(
        out=_counts("1:1046 2:145 3:61 4:44 5:19 6:10 7:4 8:4 9:1 10:1 14:1"),
        into=_counts("1:1607 2:102 3:20 4:8 5:4 6:2 8:1"),
        continues=0.0052,
        scattered=True,
    ),
    "diedIn": Shape(
        out={1: 1643},
        into=_counts(
            "1:103 2:72 3:43 4:35 5:16 6:9 7:10 8:3 9:6 10:5 11:3 12:3 13:2 14:1 15:1 16:2 18:1 19:1 23:1 25:1 27:2 33:1 "
            "35:1 38:1 45:1 76:1 110:1 163:1"
        ),
        continues=0.0245,
    ),
    "isAffiliatedTo": Shape(
        out=_counts("1:67 2:316 3:152 4:49 5:5 6:1"),
        into=_counts(
            "3:38 4:22 5:7 6:8 7:5 8:9 9:8 10:2 11:6 12:1 13:2 15:1 16:4 17:1 18:1 19:2 22:1 24:1 25:1 26:1 34:1 37:1 43:1 "
            "74:1 84:1 136:1 137:1"
        ),
        continues=0.0,
    ),
    "owns": Shape(
        out=_counts("1:483 2:49 3:14 4:4 5:3 6:3 9:1 24:1 26:1"),
        into=_counts("1:434 2:94 3:22 4:5 5:2 6:1 7:1"),
        continues=0.0161,
        scattered=True,
    ),
    "graduatedFrom": Shape(
        out=_counts("1:187 2:180 3:25 4:2"),
        into=_counts(
            "1:8 2:16 3:21 4:15 5:4 6:10 7:1 8:2 9:2 10:1 12:2 14:1 15:1 17:2 19:1 20:2 23:2 27:1 29:1 32:1 56:1"
        ),
        continues=0.0105,
    ),
    "worksAt": Shape(
        out=_counts("1:117 2:59 3:31 4:7 5:5 6:2 8:1"),
        into=_counts("1:191 2:37 3:15 4:9 5:1 7:1 8:4 11:1"),
        continues=0.0309,
    ),
}
"""The ten labels of the real facts."""

TYPES = {"Person": 0.45, "Place": 0.15, "Organization": 0.10, "Event": 0.10, "Work": 0.12, "Concept": 0.08}
"""The part of the subjects of each type."""

_NAMED = """
Person wasBornIn Place wasBornIn; Person isAffiliatedTo Organization isAffiliatedTo; Event happenedIn Place wasBornIn;
Person participatedIn Event hasWonPrize; Place hasCapital Place owns; Place isLocatedIn Place wasBornIn;
Person diedIn Place diedIn; Person playsFor Organization playsFor; Person created Work created;
Person actedIn Work created; Person isMarriedTo Person isMarriedTo; Person hasChild Person created;
Person worksAt Organization worksAt; Organization participatedIn Event hasWonPrize; Place participatedIn Event hasWonPrize;
Person graduatedFrom Organization graduatedFrom; Person livesIn Place diedIn; Person isCitizenOf Place wasBornIn;
Person hasWonPrize Concept hasWonPrize; Person isKnownFor Concept hasWonPrize; Organization owns Organization owns;
Person influences Person created; Person directed Work created; Person wroteMusicFor Work created;
Person edited Work created; Person isLeaderOf Place owns; Place isConnectedTo Place playsFor; Place dealsWith Place playsFor;
Place hasNeighbor Place isMarriedTo; Person isPoliticianOf Place isAffiliatedTo;
Person hasAcademicAdvisor Person graduatedFrom; Person isInterestedIn Concept hasWonPrize;
Place hasOfficialLanguage Concept isAffiliatedTo; Place hasCurrency Concept isAffiliatedTo;
Place exports Concept hasWonPrize; Place imports Concept hasWonPrize; Event happenedAfter Event owns;
Concept isSubclassOf Concept wasBornIn
"""
_LABELS = 100
_KINDS = list(TYPES)
_FACTS_A_SUBJECT = 3


class _Signature(NamedTuple):
    subject: str
    label: str
    object: str
    shape: str


def _signatures() -> list[_Signature]:
    """Return the labels of YAGO between types, most frequent first, and others up to a hundred labels."""
    named = [_Signature(*part.split()) for part in _NAMED.replace("\n", " ").split(";")]
    shapes = [name for name, shape in SHAPES.items() if not shape.symmetric]
    unnamed_count = _LABELS - len({signature.label for signature in named})
    return named + [
        _Signature(_KINDS[n % 6], f"property{n:02d}", _KINDS[n * 5 % 6], shapes[n % len(shapes)])
        for n in range(unnamed_count)
    ]


SIGNATURES = tuple(_signatures())


class _Stubs(NamedTuple):
    """The stubs of all signatures, one after the other, in classes of vertices that have the same degree."""

    start: np.ndarray  # a class: its first stub
    degree: np.ndarray  # a class
    vertex: np.ndarray  # a class: its first vertex, of those of the signature
    vertices: np.ndarray  # a signature: how many vertices it has

    def owner(self, stub: np.ndarray) -> np.ndarray:
        """Return the vertices of stubs, numbered within their signature."""
        place = np.searchsorted(self.start, stub, side="right") - 1
        found: np.ndarray = self.vertex[place] + (stub - self.start[place]) // self.degree[place]
        return found


def _stubs(starts: np.ndarray, *, incoming: bool) -> _Stubs:
    """Lay out one end of the facts; `starts` is where those of each signature begin, and then how many there are."""
    start, degree, vertex, vertices = [], [], [], []
    for signature, first, last in zip(SIGNATURES, starts[:-1], starts[1:], strict=True):
        shape = SHAPES[signature.shape]
        # The vertices with most facts come first; those of a scattered label meet the objects that have one fact.
        counts = dict(shape.into if incoming and not shape.symmetric else shape.out)
        degrees = np.array(sorted(counts, reverse=not (incoming and shape.scattered)))
        counted = np.array([counts[each] for each in degrees.tolist()])
        whole = np.diff(np.round(np.cumsum(counted) * ((last - first) / shape.facts)), prepend=0).astype(np.int64)
        ends = first + np.cumsum(whole * degrees)
        # Whole vertices may need some stubs more or fewer than exist; the largest class makes up the difference.
        ends[np.argmax(degrees * counted) :] += last - ends[-1]
        ends = np.maximum.accumulate(np.clip(ends, first, last))
        begins = np.concatenate([[first], ends[:-1]])
        in_class = -(-(ends - begins) // degrees)
        start.append(begins)
        degree.append(degrees)
        vertex.append(np.cumsum(in_class) - in_class)
        vertices.append(int(in_class.sum()))
    return _Stubs(
        start=np.concatenate(start),
        degree=np.concatenate(degree),
        vertex=np.concatenate(vertex),
        vertices=np.array(vertices),
    )


_ORDER, _MEETING, _SUBJECT, _IS_SUBJECT, _WHICH_SUBJECT = (1000 * part for part in range(5))


def like_yago(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Generate `edges` facts; the name of a vertex is its type and a number."""
    weights = 1 / (np.arange(len(SIGNATURES)) + 3.0)
    starts = np.round(np.concatenate([[0], np.cumsum(weights / weights.sum())]) * edges).astype(np.int64)
    out, into = _stubs(starts, incoming=False), _stubs(starts, incoming=True)
    subjects, objects = (np.array([_KINDS.index(signature[end]) for signature in SIGNATURES]) for end in (0, 2))
    # How many vertices of each type are subjects, at the most.
    sizes = np.array([max(2, round(part * edges / _FACTS_A_SUBJECT)) for part in TYPES.values()])
    np.maximum.at(sizes, subjects, out.vertices)
    shapes = [SHAPES[signature.shape] for signature in SIGNATURES]
    symmetric, scattered = np.array([s.symmetric for s in shapes]), np.array([s.scattered for s in shapes])
    continues = np.array([s.continues for s in shapes])
    labels, kinds = pa.array([s.label for s in SIGNATURES]), pa.array([f"{kind}_" for kind in _KINDS])
    count = np.diff(starts)

    for number in blocks(edges, BLOCK):
        place = shuffle(number, edges, seed, _ORDER)
        signature = np.searchsorted(starts, place, side="right") - 1
        first, facts = starts[signature], count[signature]
        kth = place - first
        stub = shuffle(kth, facts, seed, _MEETING + signature)
        subject = out.owner(first + stub)
        # Scattered labels have both ends in order of their degrees; the others have the object in random order.
        object_ = into.owner(first + np.where(scattered[signature], stub, kth))
        both = symmetric[signature]
        # The fact after an even one, and before an odd one, is its reverse; the last one may be alone.
        reverse = np.minimum(kth[both] ^ 1, facts[both] - 1)
        object_[both] = out.owner(first[both] + shuffle(reverse, facts[both], seed, _MEETING + signature[both]))

        source = shuffle(subject, sizes[subjects[signature]], seed, _SUBJECT + signature)
        kind = objects[signature]
        subject_count = sizes[kind]
        target = subject_count + object_
        # Objects of all labels are the first ones of their type; some of them are subjects as well.
        is_subject = uniform(seed, _IS_SUBJECT, object_ * len(_KINDS) + kind) < continues[signature]
        is_subject &= ~both
        places = object_[is_subject] % subject_count[is_subject]
        target[is_subject] = shuffle(places, subject_count[is_subject], seed, _WHICH_SUBJECT + kind[is_subject])
        target[both] = shuffle(object_[both], subject_count[both], seed, _SUBJECT + signature[both])
        yield pa.RecordBatch.from_pydict(
            {
                "source": vertex_names(kinds.take(pa.array(subjects[signature])), source),
                "target": vertex_names(kinds.take(pa.array(kind)), target),
                "label": labels.take(pa.array(signature)),
                "timestamp": number,
            }
        )
