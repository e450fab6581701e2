"""Paths of real streams and queries, if present: in `RPQ_SHARED`, or in `shared` beside the checkout."""

import os
from pathlib import Path

SHARED = Path(os.environ.get("RPQ_SHARED", Path(__file__).parents[2] / "shared"))
DATA = SHARED / "data"
