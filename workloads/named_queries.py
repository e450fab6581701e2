"""The paper's queries Q1 to Q11 and their bindings for each data set, and Wikidata's path shapes, by name.

Templates are those of Pacaci et al. (2020, table 2) with k = 3; bindings are those of its table 3 if the data set has the
labels. Otherwise a binding of the same shape over existing labels replaces them, with a note. The entry point is
`named_query(name, dataset)`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

TEMPLATES: Mapping[str, str] = {
    "Q1": "a*",
    "Q2": "a/b*",
    "Q3": "a/b*/c*",
    "Q4": "(a|b|c)*",
    "Q5": "a/b*/c",
    "Q6": "a*/b*",
    "Q7": "a/b/c*",
    "Q8": "a?/b*",
    "Q9": "(a|b|c)+",
    "Q10": "(a|b)/c*",
    "Q11": "a/b/c",
}

WIKIDATA_SHAPES: Mapping[str, str] = {
    "W1": "P131*",
    "W2": "P31/P279*",
    "W3": "P279+",
    "W4": "(P31|P279)*",
    "W5": "P31/P279",
    "W6": "P31|P279",
    "W7": "P31*/P279*",
    "W8": "P31/P279+",
    "W9": "P279/P279*",
    "W10": "(P31|P279)+",
    "W11": "P31?/P279*",
    "W12": "^(P31|P279)+",
    "W13": "(P31|P279)/(P31*|P279*)",
    "W14": "P31/P279?/P279?/P279?/P279?",
    "W15": "(P31/P279)*",
}
"""Shapes of property paths in the Wikidata query logs (Bonifati, Martens, Timm 2019), the most frequent first: of 660
recorded paths, 240, 181, 47, 28, 22 and 13 have the first six shapes. The properties are the most frequent in these logs:
P31 instance of, P279 subclass of, P131 located in."""


T = TypeVar("T")


class UnknownQueryError(ValueError):
    """An unknown name of a query or a data set."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The labels a, b and c in a data set: one for all queries, and `by_query` those of single queries; () excludes a
    query."""

    labels: tuple[str, ...]
    by_query: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""

    def labels_of(self, name: str) -> tuple[str, ...]:
        """Return the labels of one query, or () if it cannot run over this data set."""
        return self.by_query.get(name, self.labels)


BINDINGS: Mapping[str, Binding] = {
    "stackoverflow": Binding(labels=("a2q", "c2a", "c2q")),
    "ldbc": Binding(
        labels=("likes", "replyOf", "hasCreator"),
        by_query={
            "Q1": ("replyOf",),
            "Q4": (),
            "Q6": ("replyOf", "hasCreator"),
            "Q7": ("knows", "likes", "replyOf"),
            "Q8": ("likes", "replyOf"),
            "Q9": (),
            "Q10": ("likes", "knows", "replyOf"),
        },
        note="Q4 and Q9 repeat an alternation of three relations, of which only knows and replyOf can be repeated here. "
        "The bindings of Q8 and Q10 are not from the paper.",
    ),
    "yago": Binding(labels=("happenedIn", "hasCapital", "participatedIn")),
    "yago-facts": Binding(
        labels=("isMarriedTo", "owns", "isAffiliatedTo"),
        note="The paper's labels happenedIn, hasCapital and participatedIn are not among the ten of these facts. "
        "They are replaced: isMarriedTo and owns are the relations of the set that can be repeated.",
    ),
    "gmark": Binding(
        labels=("8", "14", "9"),
        by_query={"Q1": ("0",), "Q7": ("0", "8", "14"), "Q6": ("14", "9"), "Q10": ("8", "0", "14")},
        note="LDBC's labels by the numbers of the schema: 0 knows, 8 likes, 9 hasCreator, 14 replyOf.",
    ),
}


def names(dataset: str) -> list[str]:
    """Return the names of the queries that can run over a data set.

    >>> names("ldbc")
    ['Q1', 'Q2', 'Q3', 'Q5', 'Q6', 'Q7', 'Q8', 'Q10', 'Q11']
    """
    if dataset == "wikidata":
        return list(WIKIDATA_SHAPES)
    binding = look_up(dataset, BINDINGS, "data set")
    return [name for name in TEMPLATES if binding.labels_of(name)]


def named_query(name: str, dataset: str) -> str:
    """Return the expression of a query by name over the labels of a data set. Raises `UnknownQueryError`.

    >>> named_query("Q2", "stackoverflow"), named_query("q7", "ldbc"), named_query("W2", "wikidata")
    ('a2q/c2a*', 'knows/likes/replyOf*', 'P31/P279*')
    """
    if dataset == "wikidata":
        return look_up(name.upper(), WIKIDATA_SHAPES, "query")
    binding = look_up(dataset, BINDINGS, "data set")
    template = look_up(name.upper(), TEMPLATES, "query")
    labels = binding.labels_of(name.upper())
    if not labels:
        raise UnknownQueryError(f"{name} cannot run over {dataset}: {binding.note}")
    return bind(template, labels)


def bind(template: str, labels: tuple[str, ...]) -> str:
    """Return a template with its letters a, b, c replaced; labels that are not plain names are put in angle brackets.

    >>> bind("a/b*", ("knows", "8"))
    'knows/<8>*'
    """
    plain = [label if re.fullmatch(r"[A-Za-z_]\w*", label) else f"<{label}>" for label in labels]
    return re.sub(r"[abc]", lambda letter: plain["abc".index(letter[0])], template)


def look_up(name: str, value_of_name: Mapping[str, T], kind: str) -> T:
    """Return the value of a name. Raises `UnknownQueryError`, with the `kind` of name and a similar name."""
    if name not in value_of_name:
        close = difflib.get_close_matches(name, value_of_name, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownQueryError(f"unknown {kind} {name!r}: expected one of {', '.join(value_of_name)}{hint}")
    return value_of_name[name]
