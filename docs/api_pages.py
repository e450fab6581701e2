"""Changes to docstrings and signatures that the API pages make before they show them."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*\n?(?:^.*\S.*\n?)*", re.MULTILINE)


class ForUsers(griffe.Extension):
    """Put fences around doctests, which Markdown would parse as quotations, and leave out parameters for tests."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
        if isinstance(obj, griffe.Function):
            obj.parameters = griffe.Parameters(*(one for one in obj.parameters if not one.name.startswith("_")))
