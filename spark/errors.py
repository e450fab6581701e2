"""The exceptions of the pipeline."""

from __future__ import annotations

from rpq.errors import RpqError


class PipelineError(RpqError):
    """Something that the pipeline needs is missing, or does not fit: settings, columns, a checkpoint, a data set."""
