"""Tuples of permissions, as in Zanzibar: users in nested groups, documents in nested folders, and rights on both."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rpq.workloads.generate.sampling import vertex_names

RIGHTS = ("viewer", "editor", "owner")


def permission_tuples(*, tuples: int, seed: int) -> pa.Table:
    """Return tuples in random order: users in groups of Zipf sizes, groups in groups, documents in folders, rights.

    For each hundred tuples there are 5 users, 30 memberships, 1 group, 33 documents and 2.5 folders. A group has 12 rights
    on documents and one on a folder, and is blocked from another folder; a user has four rights on documents.
    """
    draw = np.random.default_rng(seed)
    users, groups, folders, documents = tuples // 20, tuples // 100, tuples // 40, tuples // 3
    memberships, of_groups = tuples * 30 // 100, tuples * 12 // 100
    inner, folder = np.arange(1, groups), np.arange(1, folders)
    # Zipf's law of exponent 1, as the logarithm of the rank is uniform; large groups are the outer ones.
    joined = (groups ** draw.random(memberships)).astype(np.int64) - 1
    parts = [
        ("member", "user", draw.integers(users, size=memberships), "group", joined),
        ("member", "group", inner, "group", inner // 8),
        ("parent", "document", np.arange(documents), "folder", draw.integers(folders, size=documents)),
        ("parent", "folder", folder, "folder", folder // 6),
        *(
            (label, "group", draw.integers(groups, size=groups), "folder", draw.integers(folders, size=groups))
            for label in ("viewer", "blocked")
        ),
        ("editor", "group", draw.integers(groups, size=of_groups), "document", draw.integers(documents, size=of_groups)),
    ]
    owners = tuples - sum(len(source) for _, _, source, _, _ in parts)
    parts += [("owner", "user", draw.integers(users, size=owners), "document", draw.integers(documents, size=owners))]
    order = pa.array(draw.permutation(tuples))
    labels = pa.array(np.repeat([part[0] for part in parts], [len(part[2]) for part in parts]))
    sources = pa.concat_arrays([vertex_names(f"{kind}:", numbers) for _, kind, numbers, _, _ in parts])
    targets = pa.concat_arrays([vertex_names(f"{kind}:", numbers) for _, _, _, kind, numbers in parts])
    columns = {"source": sources, "target": targets, "label": labels}
    return pa.table({name: column.take(order) for name, column in columns.items()} | {"timestamp": np.arange(tuples)})
