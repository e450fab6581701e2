"""Names in a text: prefixes and the base, and which variable a name means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from rpq.sparql.grammar import Leaf
from rpq.sparql.source_text import SourceText
from rpq.sparql.terms import resolved

_LOCAL_ESCAPE = re.compile(r"\\([_~.\-!$&\"'()*+,;=/?#@%])")


class Prologue:
    """BASE and PREFIX: IRIs of what is written."""

    def __init__(self, source: SourceText, declarations: Iterable[Any]) -> None:
        self._source = source
        self.base = ""
        """Empty where there is none: then an IRI stays as it is written."""
        self._prefixes: dict[str, str] = {}
        for declaration in declarations:
            iri = resolved(self.base, declaration.iri.text)
            if declaration.name == "Base":
                self.base = iri
            else:
                self._prefixes[declaration.prefix or ""] = iri

    def iri(self, node: Any) -> str:
        """The IRI of a node of the parse tree: a leaf, a prefixed name, or one that the grammar puts in (rdf:type)."""
        if isinstance(node, Leaf):
            return resolved(self.base, node.text)
        if getattr(node, "name", None) == "pname":
            return self._expanded(node.prefix or "", node.localname or "", node.place)
        return str(node)

    def iri_of_text(self, text: str, place: int) -> str:
        """The IRI of a name as it was written: `<…>` or prefixed."""
        if text.startswith("<"):
            return resolved(self.base, text[1:-1])
        prefix, _, local = text.partition(":")
        return self._expanded(prefix, local, place)

    def _expanded(self, prefix: str, local: str, place: int) -> str:
        if prefix not in self._prefixes:
            near = get_close_matches(prefix, self._prefixes, 1)
            hint = f"did you mean {near[0]}:?" if near else f"write PREFIX {prefix}: <…> before the query"
            raise self._source.error(f"the prefix {prefix}: is not declared; {hint}", place)
        return self._prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)


class Scope:
    """Which variable a name means: in a subselect those that it does not project are its own."""

    def __init__(self, parent: Scope | None = None, projected: frozenset[str] = frozenset(), number: int = 0) -> None:
        self._parent = parent
        self._projected = projected
        self._number = number

    def name(self, written: str) -> str:
        """The name by which the algebra knows a variable.

        >>> outer = Scope()
        >>> inner = Scope(outer, frozenset({"x"}), 1)
        >>> outer.name("y"), inner.name("x"), inner.name("y")
        ('y', 'x', 'y.1')
        """
        if self._parent is None:
            return written
        return self._parent.name(written) if written in self._projected else f"{written}.{self._number}"


def written_name(name: str) -> str:
    """The name of a variable as the text has it.

    >>> written_name("y.1")
    'y'
    """
    return name.partition(".")[0]
