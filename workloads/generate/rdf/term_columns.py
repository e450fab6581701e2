"""Columns of RDF terms: IRIs as their text, literals in N-Triples form."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def numbered(prefix: str, number: np.ndarray) -> pa.Array:
    """IRIs: a prefix and a number.

    >>> numbered("urn:x", np.array([3])).to_pylist()
    ['urn:x3']
    """
    return pc.binary_join_element_wise(pa.scalar(prefix), pa.array(number).cast(pa.string()), "")


def chosen(terms: list[str], place: np.ndarray) -> pa.Array:
    """Of a few terms those at these places, modulo their number."""
    return pa.array(terms).take(pa.array(place % len(terms)))


def typed(lexical: pa.Array, datatype: str) -> pa.Array:
    """Literals of a type of XML Schema.

    >>> typed(pa.array(["1"]), "integer").to_pylist()
    ['"1"^^<http://www.w3.org/2001/XMLSchema#integer>']
    """
    return pc.binary_join_element_wise(pa.scalar('"'), lexical, pa.scalar(f'"^^<{XSD}{datatype}>'), "")


def plain(lexical: pa.Array) -> pa.Array:
    """Strings; their text has neither quotes nor backslashes."""
    return pc.binary_join_element_wise(pa.scalar('"'), lexical, pa.scalar('"'), "")


def integers(values: np.ndarray) -> pa.Array:
    """Literals of the type xsd:integer."""
    return typed(pa.array(values).cast(pa.string()), "integer")


def decimals(cents: np.ndarray, datatype: str = "decimal") -> pa.Array:
    """Literals with two digits behind the point, from their hundredfold.

    >>> decimals(np.array([1205, -5]))[1].as_py()
    '"-0.05"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    whole, rest = np.divmod(np.abs(cents), 100)
    sign = pa.array(["", "-"]).take(pa.array((cents < 0).astype(np.int64)))
    digits = pc.utf8_lpad(pa.array(rest).cast(pa.string()), 2, "0")
    return typed(pc.binary_join_element_wise(sign, pa.array(whole).cast(pa.string()), ".", digits, ""), datatype)


def moments(seconds: np.ndarray) -> pa.Array:
    """Literals of the type xsd:dateTime, without a zone.

    >>> moments(np.array([0]))[0].as_py()
    '"1970-01-01T00:00:00"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    """
    return typed(pc.strftime(pa.array(seconds).cast(pa.timestamp("s")), format="%Y-%m-%dT%H:%M:%S"), "dateTime")
