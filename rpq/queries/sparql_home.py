"""Where a text in SPARQL becomes a question: above this floor, so the package tells here who does it."""

from __future__ import annotations

from collections.abc import Callable

home: Callable[[], type] | None = None
"""Gives the class of questions in SPARQL; loaded when the first of them is asked."""
