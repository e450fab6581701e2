"""Facts like those of YAGO 2s: a hundred labels, sparse, from type to type; timestamps are positions.

Few labels have most of the facts, subjects have three on average, objects are shared by a heavy tail. The labels that
the paper queries (happenedIn, hasCapital, participatedIn) and others of YAGO are among them by name.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.batches import BLOCK, blocks, named
from rpq.workloads.generate.draws import power_law, uniform

TYPES = {"Person": 0.45, "Place": 0.15, "Organization": 0.10, "Event": 0.10, "Work": 0.12, "Concept": 0.08}
"""Parts of the entities."""

_NAMED = """
Person wasBornIn Place; Person isAffiliatedTo Organization; Event happenedIn Place; Person participatedIn Event;
Place hasCapital Place; Place isLocatedIn Place; Person diedIn Place; Person playsFor Organization;
Person created Work; Person actedIn Work; Person isMarriedTo Person; Person hasChild Person; Person worksAt Organization;
Organization participatedIn Event; Place participatedIn Event; Person graduatedFrom Organization; Person livesIn Place;
Person isCitizenOf Place; Person hasWonPrize Concept; Person isKnownFor Concept; Organization owns Organization;
Person influences Person; Person directed Work; Person wroteMusicFor Work; Person edited Work; Person isLeaderOf Place;
Place isConnectedTo Place; Place dealsWith Place; Place hasNeighbor Place; Person isPoliticianOf Place;
Person hasAcademicAdvisor Person; Person isInterestedIn Concept; Place hasOfficialLanguage Concept;
Place hasCurrency Concept; Place exports Concept; Place imports Concept; Organization created Work;
Person owns Organization; Event happenedAfter Event; Concept isSubclassOf Concept
"""
_KINDS = list(TYPES)
_SIGNATURES = [tuple(fact.split()) for fact in _NAMED.replace("\n", " ").split(";")]
_SIGNATURES += [
    (_KINDS[n % 6], f"property{n:02d}", _KINDS[n * 5 % 6]) for n in range(100 - len({s[1] for s in _SIGNATURES}))
]
_FACTS_A_SUBJECT = 3
_SIGNATURE, _SUBJECT, _OBJECT = range(3)


def like_yago(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """That many facts; vertices are named by their type and a number."""
    sizes = np.array([max(2, round(part * edges / _FACTS_A_SUBJECT)) for part in TYPES.values()], np.float64)
    weights = 1 / (np.arange(len(_SIGNATURES)) + 3.0)
    shares = np.cumsum(weights / weights.sum())[:-1]
    subjects, objects = (np.array([_KINDS.index(s[end]) for s in _SIGNATURES]) for end in (0, 2))
    labels, kinds = pa.array([s[1] for s in _SIGNATURES]), pa.array([f"{kind}_" for kind in _KINDS])
    for number in blocks(edges, BLOCK):
        signature = np.searchsorted(shares, uniform(seed, _SIGNATURE, number), side="right")
        subject, object_ = subjects[signature], objects[signature]
        first = (uniform(seed, _SUBJECT, number) ** 1.5 * sizes[subject]).astype(np.int64)
        second = power_law(uniform(seed, _OBJECT, number), sizes[object_], head=100, exponent=1.4)
        yield pa.RecordBatch.from_pydict(
            {
                "source": named(kinds.take(pa.array(subject)), first),
                "target": named(kinds.take(pa.array(object_)), second),
                "label": labels.take(pa.array(signature)),
                "timestamp": number,
            }
        )
