"""Terms that say a time: integers and xsd:dateTime, as literals or at the end of an IRI."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from rpq.readers.field_errors import FieldError, shown
from rpq.readers.times import DEFAULT_UNIT, TimeKind, check_time, time_kind, times_of
from rpq.sparql.values.terms import is_blank, is_literal, read_literal

_AT_THE_END = re.compile(r"(?:^|[/#:=])([+-]?\d{1,20}|\d{4}-\d\d-\d\d(?:[T ][^/#]*)?)$")
_INTEGER = re.compile(r"[+-]?\d{1,20}")
_EXPECTED = 'expected an integer or a time such as "2024-05-01T12:00:00Z"^^xsd:dateTime'

Kind = Literal["integers", "naive", "aware"]


class TimeTerms:
    """Makes timestamps of the terms of one input, all integers or all times, with a zone or without, as the first of them.

    `unit` is what times become; without one they are an error that asks for it. `kind` is None until a term came.
    """

    def __init__(self, *, unit: str | None = None, kind: Kind | None = None) -> None:
        self.unit = unit
        self.kind: Kind | None = kind

    def times(self, terms: list[str]) -> list[int | FieldError]:
        """The timestamp that each term says, or what is wrong with it."""
        found: list[int | FieldError] = []
        texts: dict[int, str] = {}
        for term in terms:
            try:
                text = said_by(term)
                number = self._integer(text) if self._kind_of(text) == "integers" else None
            except FieldError as error:
                found.append(error)
                continue
            if number is None:
                texts[len(found)] = text
            found.append(number or 0)
        if texts:
            for place, time in zip(texts, self._moments(list(texts.values())), strict=True):
                found[place] = time
        return found

    def _kind_of(self, text: str) -> Kind:
        """The kind of the input's times, which the first of them tells."""
        if self.kind is None:
            self.kind = "integers" if _INTEGER.fullmatch(text) else time_kind(text)
            if self.kind is None:
                raise FieldError(f"{shown(text)} is no time; {_EXPECTED}")
        return self.kind

    def _integer(self, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise FieldError(f"{shown(text)} is no integer, but the times before are integers")
        number = int(text)
        if not -(2**63) <= number < 2**63:
            raise FieldError(f"{text} does not fit 64 bits")
        return number

    def _moments(self, texts: list[str]) -> list[int | FieldError]:
        if self.unit is None:
            raise FieldError("the times of this input are dates; --time-unit (time_unit=) says what they become")
        kind: TimeKind = "aware" if self.kind == "aware" else "naive"
        times = times_of(pa.array(texts), kind=kind, unit=self.unit) if all(map(str.isascii, texts)) else None
        if times is not None:
            return list(np.asarray(times).tolist())
        found: list[int | FieldError] = []
        for text in texts:
            try:
                found.append(check_time(text, "timestamp", kind=kind, unit=self.unit))
            except FieldError as error:
                found.append(error)
        return found


def said_by(term: str) -> str:
    """The text of the time that a term says: of a literal what it is, of an IRI its end. Raises `FieldError`.

    >>> said_by('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), said_by("urn:rpq:insert:5"), said_by("http://t/2024-05-01")
    ('5', '5', '2024-05-01')
    """
    if is_literal(term):
        literal = read_literal(term)
        if literal is not None:
            return literal.text.strip()
    elif not is_blank(term):
        found = _AT_THE_END.search(unquote(term))
        if found is not None:
            return found[1]
    raise FieldError(f"{shown(term)} says no time; {_EXPECTED}, or an IRI that ends in one")


def unit_of(kind: Kind | None, unit: str | None) -> str | None:
    """The unit of an input whose times are of this kind, None where they are plain numbers, or where it is not known."""
    return unit if kind is None else None if kind == "integers" else unit or DEFAULT_UNIT
