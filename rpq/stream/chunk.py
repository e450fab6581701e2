"""Tuples as kernels see them: columns of ids."""

from typing import NamedTuple

import numpy as np


class Chunk(NamedTuple):
    """Tuples with their names resolved by the snapshot graph."""

    source: np.ndarray  # int32 vertex id, -1 where the label is irrelevant to every query
    target: np.ndarray  # int32
    label: np.ndarray  # int32 label id
    timestamp: np.ndarray  # int64
    delete: np.ndarray  # uint8
    edge: np.ndarray  # int32 edge id; -1: nothing to insert or to delete
