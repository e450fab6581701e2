"""A social network in the vocabulary of LDBC's benchmark: posts, replies, likes, forums, profiles of people."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.rdf.terms import (
    RDF_TYPE,
    EventTriples,
    choose_terms,
    cut,
    integers,
    moments,
    numbered_iris,
    plain_literals,
)
from rpq.workloads.generate.sampling import BLOCK, power_law, uniform

VOCABULARY = "http://www.ldbc.eu/ldbc_socialnet/1.0/vocabulary/"
DATA = "http://www.ldbc.eu/ldbc_socialnet/1.0/data/"
PLACES = "http://dbpedia.org/resource/"
START = 1_451_606_400
"""2016-01-01 00:00, in seconds; there is an event every second."""

PEOPLE, CIRCLE = 1_000, 20
"""The number of people, and the number of people in a circle of acquaintances."""

_KINDS = "post reply post profile post like post reply post forum post like reply post profile post like reply profile reply"
_ROUND = np.array(_KINDS.split())
_POSTS = np.flatnonzero(_ROUND == "post")
_COUNTRIES = ["Nicaragua", "France", "India", "Kenya", "Peru", "Vietnam", "Norway", "Canada", "Ghana", "Japan"]
_INTERESTS = ["Charles_Dickens", "Jane_Austen", "Miles_Davis", "Diego_Rivera", "Marie_Curie", "Chess", "Sailing", "Opera"]
_LANGUAGES = ["en", "es", "fr", "hi", "sw", "vi", "no", "ja"]
_AUTHOR, _TAG, _PLACE, _LAG, _WHICH, _LIKER, _KNOWN, _INTEREST, _MEMBER = range(9)


def social_network(*, edges: int, seed: int) -> Iterator[pa.RecordBatch]:
    """Yield events of 2 to 8 triples, one every second: source, target, label, timestamp (seconds), event."""
    done, first = 0, 0
    while done < edges:
        last = first + BLOCK // 8
        batch = cut(_block(np.arange(first, last), seed), done, edges)
        done, first = done + batch.num_rows, last
        yield batch


def _block(number: np.ndarray, seed: int) -> pa.RecordBatch:
    kind = _ROUND[number % len(_ROUND)]
    events = EventTriples()

    def happens(name: str, *triples: tuple[pa.Array, str, pa.Array]) -> None:
        chosen_numbers = number[kind == name]
        event = numbered_iris(f"{DATA}event", chosen_numbers)
        events.add(
            chosen_numbers,
            START + chosen_numbers,
            event,
            *((source, label if ":" in label else VOCABULARY + label, target) for source, label, target in triples),
        )

    def of(name: str) -> np.ndarray:
        return number[kind == name]

    def message(numbers: np.ndarray) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
        author = person(_author(numbers, seed))
        place = choose_terms([PLACES + name for name in _COUNTRIES], _draw(seed, _PLACE, numbers, 10))
        return numbered_iris(f"{DATA}message", numbers), author, place, plain_literals(numbered_iris("words of ", numbers))

    posts, replies, likes, forums, profiles = (of(name) for name in ("post", "reply", "like", "forum", "profile"))
    post, author, place, words = message(posts)
    happens(
        "post",
        (post, RDF_TYPE, pa.array([VOCABULARY + "Post"] * len(posts))),
        (post, "id", integers(posts)),
        (post, "creationDate", moments(START + posts)),
        (post, "hasCreator", author),
        (post, "hasTag", numbered_iris(f"{DATA}tag", _draw(seed, _TAG, posts, 200))),
        (post, "isLocatedIn", place),
        (post, "content", words),
    )
    reply, author, place, words = message(replies)
    happens(
        "reply",
        (reply, "hasCreator", author),
        (reply, "isLocatedIn", place),
        (reply, "replyOf", numbered_iris(f"{DATA}message", _earlier_post(replies, seed, popular=False))),
        (reply, "content", words),
    )
    liked = _earlier_post(likes, seed, popular=True)
    like = numbered_iris(f"{DATA}like", likes)
    liker = _in_circle(_author(liked, seed), uniform(seed, _LIKER, likes))
    happens("like", (person(liker), "likes", like), (like, "hasPost", numbered_iris(f"{DATA}message", liked)))
    forum, member = numbered_iris(f"{DATA}forum", forums // 100), numbered_iris(f"{DATA}membership", forums)
    happens(
        "forum",
        (forum, "title", plain_literals(numbered_iris("forum ", forums // 100))),
        (forum, "hasMember", member),
        (member, "hasPerson", person(_draw(seed, _MEMBER, forums, PEOPLE))),
    )
    who = _author(profiles, seed)
    teller = person(who)
    acquaintances = []
    for which in range(2):
        knows = numbered_iris(f"{DATA}acquaintance", profiles * 2 + which)
        known = person(_in_circle(who, uniform(seed, _KNOWN + which * 100, profiles)))
        acquaintances += [(teller, "knows", knows), (knows, "hasPerson", known)]
    happens(
        "profile",
        (teller, "speaks", plain_literals(choose_terms(_LANGUAGES, who))),
        (teller, "hasInterest", choose_terms([PLACES + name for name in _INTERESTS], _draw(seed, _INTEREST, profiles, 8))),
        *acquaintances,
    )
    return events.batch()


def person(number: np.ndarray) -> pa.Array:
    return numbered_iris(f"{DATA}person", number)


def _author(message: np.ndarray, seed: int) -> np.ndarray:
    return power_law(uniform(seed, _AUTHOR, message), PEOPLE, head=PEOPLE / 4, exponent=2.0)


def _in_circle(number: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Draw another person of the same circle."""
    return number // CIRCLE * CIRCLE + (number + 1 + (chance * (CIRCLE - 1)).astype(np.int64)) % CIRCLE


def _earlier_post(number: np.ndarray, seed: int, *, popular: bool) -> np.ndarray:
    """Draw a post of an earlier round, mostly of a recent round; popular posts are the first of their rounds."""
    lag = 1 + power_law(uniform(seed, _LAG, number), 500, head=3 if popular else 30, exponent=2.0)
    which = 0 if popular else _draw(seed, _WHICH, number, len(_POSTS))
    return np.maximum(number // len(_ROUND) - lag, 0) * len(_ROUND) + _POSTS[which]


def _draw(seed: int, purpose: int, number: np.ndarray, count: int) -> np.ndarray:
    return (uniform(seed, purpose, number) ** 2 * count).astype(np.int64)
