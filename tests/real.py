"""Where real streams and queries lie, if they do: `RPQ_SHARED`, or `shared` beside the checkout."""

import os
from pathlib import Path

SHARED = Path(os.environ.get("RPQ_SHARED", Path(__file__).parents[2] / "shared"))
DATA = SHARED / "data"
