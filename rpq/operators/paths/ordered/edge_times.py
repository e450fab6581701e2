"""Edges of a window with their timestamps, one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class EdgeTimes(NamedTuple):
    """Edges with their timestamps, parallel ones too, the oldest first."""

    time: np.ndarray  # int64
    slide: np.ndarray  # int64: the absolute slide at which it leaves the window
    source: np.ndarray  # int32
    target: np.ndarray  # int32
    label: np.ndarray  # int32
    edge: np.ndarray  # int32: the edge of the snapshot graph
