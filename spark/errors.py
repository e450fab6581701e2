"""The exception of the Spark pipeline."""

from __future__ import annotations

from rpq.errors import RpqError


class PipelineError(RpqError):
    """Settings, columns, a checkpoint, a data set or another input of the pipeline is missing or unsuitable."""
