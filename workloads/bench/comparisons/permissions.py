"""Permissions: users in nested groups, documents in folders, rights of both, and a few tuples that block them."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import rpq
from rpq.workloads.bench import measure as measuring
from rpq.workloads.bench.comparisons.bounds import Figure, line, tuples_per_second, window_of
from rpq.workloads.bench.comparisons.sparql_speed import edge_a_moment
from rpq.workloads.bench.experiment import Settings
from rpq.workloads.bench.streams import Stream
from rpq.workloads.generate.rdf.terms import choose_terms, numbered_iris

_LABELS = ("member", "parent", "viewer", "editor", "owner", "blocked")
_SHARES = (0.38, 0.35, 0.156, 0.078, 0.026, 0.01)
_NESTED = 0.25
"""The part of memberships that are those of groups, and of parents that are those of folders."""


def permissions(tuples: int, seed: int) -> Stream:
    """Return a stream of tuples of permissions, over a window of all of them."""
    random = np.random.default_rng(seed)
    label = random.choice(len(_LABELS), tuples, p=_SHARES)
    is_nested = random.random(tuples) < _NESTED
    user, document = random.integers(tuples // 5, size=tuples), random.integers(tuples // 4, size=tuples)
    group, folder = random.integers(1, tuples // 40, size=tuples), random.integers(1, tuples // 25, size=tuples)
    is_parent = label == 1
    # In groups and folders the parent of one is a smaller number, so that they are trees of a few levels.
    inner, outer = np.where(is_parent, folder, group), np.where(is_parent, folder // 6, group // 8)
    small, large = np.where(is_parent, document, user), np.where(is_parent, folder, group)
    source = np.where(is_nested, inner, small)
    target = np.where(label > 1, document, np.where(is_nested, outer, large))
    source_kind = np.where(is_parent, np.where(is_nested, 3, 2), np.where(is_nested, 1, 0))
    target_kind = np.where(label > 1, 2, np.where(is_parent, 3, 1))

    def named(kind: np.ndarray, number: np.ndarray) -> pa.Array:
        parts = [numbered_iris(f"urn:{name}:", number) for name in ("user", "group", "document", "folder")]
        return pa.concat_arrays(parts).take(pa.array(kind * tuples + np.arange(tuples)))

    labels = choose_terms([f"urn:{name}" for name in _LABELS], label)
    return edge_a_moment("permissions", tuples, named(source_kind, source), labels, named(target_kind, target))


@line("PERMISSIONS", "documents that users may see and that are not blocked, by paths that may be empty", bound=3e4)
def _permissions(settings: Settings) -> Figure:
    path = "?u <urn:member>*/({})/^<urn:parent>* ?d"
    rights, blocked = path.format("<urn:viewer>|<urn:editor>|<urn:owner>"), path.format("<urn:blocked>")
    text = f"SELECT DISTINCT ?u ?d {{ {rights} FILTER NOT EXISTS {{ {blocked} }} }}"
    return Figure(figure=tuples_per_second(text, permissions(window_of(settings, 10_000), settings.seed), settings))


@line("PERMISSIONS-OF-USERS", "memory for three users in VALUES", unit="× sources=", sense="at most", bound=4)
def _permissions_of_users(settings: Settings) -> Figure:
    """Return the bytes of the index with VALUES in SPARQL, divided by those of a path query with sources."""
    stream = permissions(window_of(settings, 10_000), settings.seed)
    users = [f"urn:user:{number}" for number in range(3)]
    path = "(<urn:member>*/(<urn:viewer>|<urn:editor>|<urn:owner>)/^<urn:parent>*)"
    listed = " ".join(f"<{user}>" for user in users)
    in_sparql = rpq.Query(f"SELECT ?u ?d {{ VALUES ?u {{ {listed} }} ?u {path}{{1}} ?d }}", window=stream.window)
    sizes = []
    for query in (in_sparql, rpq.Query(path, window=stream.window, sources=users)):
        engine = rpq.Engine(query)
        for batch in stream.batches():
            engine.push(batch, collect=False)
        sizes.append(engine.statistics().index_bytes)
    return Figure(figure=sizes[0] / sizes[1])


@line("CHECKS", "a check of a user and a document over 86,000 tuples", unit="µs", sense="at most", bound=40)
def _checks(settings: Settings) -> Figure:
    """Return the median CPU microseconds of a check; half of the users have a right to the document, if they have any."""
    stream = permissions(round(86_000 * settings.scale), settings.seed)
    engine = rpq.Engine(keep=rpq.UnboundedWindow())
    for batch in stream.batches():
        engine.push(batch, collect=False)
    path = "<urn:member>*/(<urn:viewer>|<urn:editor>|<urn:owner>)/^<urn:parent>*"
    random = np.random.default_rng(settings.seed)
    documents = [f"urn:document:{number}" for number in random.integers(len(stream) // 4, size=5_000).tolist()]
    users = [f"urn:user:{number}" for number in random.integers(len(stream) // 5, size=5_000).tolist()]
    for place in range(0, len(documents), 2):
        if seen := {*engine.find(path, target=documents[place], limit=1)}:
            users[place] = min(seen)[0]
    runs = []
    for _ in range(settings.repeat):
        microseconds = []
        for user, document in zip(users, documents, strict=True):
            started = time.process_time_ns()
            engine.check(path, user, document)
            microseconds.append((time.process_time_ns() - started) / 1e3)
        runs.append(measuring.quantile(microseconds, 0.5) or 0.0)
    return Figure(figure=min(runs))
