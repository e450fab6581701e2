"""From the names of streams to the ids of the labels that tuples have in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rpq.stream.labels import LabelDictionary
from rpq.stream.stream_labels import StreamLabel, text_of

_DENSE = 1 << 16
"""Entries of a table of all pairs that may be made for a chunk; where they would be more, the pairs are sorted."""


def label_ids_in_streams(
    streams: pa.Array, label: np.ndarray, labels: LabelDictionary
) -> tuple[np.ndarray | None, list[int]]:
    """The ids (int32) of labels in the streams of their tuples, -1 where a tuple has none, and those of them that are new.

    `streams` are texts, null for none; `label` are the ids of the labels in the merged stream. None where no tuple has a
    stream. O(tuples), and O(tuples log tuples) where there are many streams and labels.
    """
    if streams.null_count == len(streams):
        return None, []
    encoded = streams if pa.types.is_dictionary(streams.type) else streams.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    nothing = len(names)  # a code of its own for tuples without a stream, and for a null among the names
    codes = encoded.indices.fill_null(nothing).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = codes * labels.room + label
    if (nothing + 1) * labels.room <= _DENSE:
        is_there = np.zeros((nothing + 1) * labels.room, bool)
        is_there[pairs] = True
        used = np.flatnonzero(is_there)
        places = np.cumsum(is_there)[pairs] - 1
    else:
        used, places = np.unique(pairs, return_inverse=True)
    room, ids, new = labels.room, np.full(len(used), -1, np.int32), []
    for place, (stream, plain) in enumerate(zip((used // room).tolist(), (used % room).tolist(), strict=True)):
        name = None if stream == nothing else names[stream]
        if name is not None:
            known = len(labels)
            ids[place] = labels.add(StreamLabel(text_of(labels.names[plain]), name))
            if len(labels) > known:
                new.append(int(ids[place]))
    return ids[places], new
