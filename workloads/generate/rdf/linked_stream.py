"""The streams of LSBench that its queries read: posts, photos and likes; and static triples about people."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.rdf.terms import EventTriples, Triple, cut, numbered_iris, plain_literals
from rpq.workloads.generate.sampling import BLOCK, power_law, uniform

SIB, SIOC = "http://www.ins.cwi.nl/sib/vocabulary/", "http://rdfs.org/sioc/ns#"
FOAF = "http://xmlns.com/foaf/0.1/"
DATA = "http://www.ins.cwi.nl/sib/"
START = 1_349_049_600_000
"""2012-10-01 00:00, in milliseconds; there is an event every two milliseconds."""

STEP = 2
PEOPLE, CIRCLE, BUSIEST = 1_000, 20, 984
"""The number of people, the number of people in a circle of acquaintances, and the person who posts most."""

POSTS, LIKED_POSTS, PHOTOS, LIKED_PHOTOS = (
    f"http://deri.org/{name}stream" for name in ("post", "likedpost", "photo", "likedphoto")
)
_ROUND = np.array("post liked-post photo post liked-post liked-photo post liked-post photo liked-photo".split())
_AUTHOR, _TAG, _LAG, _WHICH, _FRIEND, _SUBSCRIBES = range(6)


def linked_stream(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield events of 1 to 5 triples: source, target, label, timestamp (milliseconds), stream, event."""
    done, first = 0, 0
    while done < edges:
        last = first + BLOCK // 5
        batch = cut(_block(np.arange(first, last), seed), done, edges)
        done, first = done + batch.num_rows, last
        yield batch


def linked_people(*, seed: int) -> pa.RecordBatch:
    """Return the static triples: acquaintances, accounts, and subscriptions to channels; source, target, label."""
    people = np.arange(PEOPLE)
    one, other = (ends.ravel() for ends in np.meshgrid(people, np.arange(CIRCLE), indexing="ij"))
    other += one // CIRCLE * CIRCLE
    knows = one != other
    reads = knows & (uniform(seed, _SUBSCRIBES, one * PEOPLE + other) < 0.5)
    parts = [
        (_user(people), "account_of", numbered_iris(f"{DATA}person/p", people)),
        (_user(one[knows]), "knows", _user(other[knows])),
        (_user(one[reads]), "subscriber_of", _channel(other[reads])),
    ]
    labels = [(FOAF if label == "knows" else SIOC) + label for _, label, _ in parts]
    return pa.RecordBatch.from_pydict(
        {
            "source": pa.concat_arrays([source for source, _, _ in parts]),
            "target": pa.concat_arrays([target for _, _, target in parts]),
            "label": pa.concat_arrays(
                [pa.repeat(pa.scalar(label), len(part[0])) for label, part in zip(labels, parts, strict=True)]
            ),
        }
    )


def _block(number: np.ndarray, seed: int) -> pa.RecordBatch:
    kind = _ROUND[number % len(_ROUND)]
    posts, liked_posts, photos, liked_photos = (
        number[kind == name] for name in ("post", "liked-post", "photo", "liked-photo")
    )
    events = EventTriples(has_streams=True)

    def happens(numbers: np.ndarray, stream: str, *triples: Triple) -> None:
        events.add(numbers, START + STEP * numbers, numbered_iris(f"{DATA}event/", numbers), *triples, stream=stream)

    author = _author(posts, seed)
    post = numbered_iris(f"{DATA}post/po", posts)
    happens(
        posts,
        POSTS,
        (_user(author), SIOC + "creator_of", post),
        (_channel(author), SIOC + "container_of", post),
        *((post, SIB + "hashtag", numbered_iris(f"{DATA}tag/", _tag(posts, which, seed))) for which in range(2)),
        (post, SIOC + "content", plain_literals(numbered_iris("words of ", posts))),
    )
    photo = numbered_iris(f"{DATA}photo/ph", photos)
    happens(
        photos,
        PHOTOS,
        (_user(_author(photos, seed)), SIOC + "creator_of", photo),
        *((photo, SIB + "usertag", _user(_friend(photos, seed, 1 + which))) for which in range(2)),
    )
    for likes, stream, name, prefix in (
        (liked_posts, LIKED_POSTS, "post", "post/po"),
        (liked_photos, LIKED_PHOTOS, "photo", "photo/ph"),
    ):
        liked = _earlier_item(likes, name, seed)
        liker = _in_circle(_author(liked, seed), uniform(seed, _FRIEND, likes))
        happens(likes, stream, (_user(liker), SIB + "like", numbered_iris(f"{DATA}{prefix}", liked)))
    return events.batch()


def _author(number: np.ndarray, seed: int) -> np.ndarray:
    rank = power_law(uniform(seed, _AUTHOR, number), PEOPLE, head=PEOPLE / 5, exponent=2.0)
    return (BUSIEST + rank) % PEOPLE


def _friend(number: np.ndarray, seed: int, which: int) -> np.ndarray:
    return _in_circle(_author(number, seed), uniform(seed, _FRIEND + 100 * which, number))


def _in_circle(number: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Draw another person of the same circle."""
    return number // CIRCLE * CIRCLE + (number + 1 + (chance * (CIRCLE - 1)).astype(np.int64)) % CIRCLE


def _earlier_item(number: np.ndarray, name: str, seed: int) -> np.ndarray:
    """Draw a post or photo of an earlier round, mostly a recent round."""
    places = np.flatnonzero(name == _ROUND)
    lag = 1 + power_law(uniform(seed, _LAG, number), 2_000, head=50, exponent=2.0)
    which = (uniform(seed, _WHICH, number) * len(places)).astype(np.int64)
    return np.maximum(number // len(_ROUND) - lag, 0) * len(_ROUND) + places[which]


def _tag(number: np.ndarray, which: int, seed: int) -> np.ndarray:
    return 2 * (uniform(seed, _TAG + 100 * which, number) ** 2 * 100).astype(np.int64) + which


def _user(number: np.ndarray) -> pa.Array:
    return numbered_iris(f"{DATA}user/u", number)


def _channel(number: np.ndarray) -> pa.Array:
    return numbered_iris(f"{DATA}forum/fo", number)
