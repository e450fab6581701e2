"""Queries as users write them: their texts, options and files, and their meaning, without an engine.

- `options`: the options of queries; `query`, `query_file`: queries in Python and elsewhere; `notation`: which notation the
  text of a query has
- `pattern`: graph patterns; `edge_variables`, `conditions`, `time_order`: what they and path expressions say of edges
- `where`, `predicate`: conditions on columns, and their meaning
- `readings`: the labels that a query reads; `hypercube`: how shares divide it
- `protocol`: what a running query is to the engine; `kinds`: the registry of kinds of queries
- `sparql` reads SPARQL into its algebra, with the values of its functions; `match` reads MATCH into the same algebra;
  `motifs` turns motifs of GraphFrames into MATCH

Path expressions are those of `rpq.automata`. There are no kernels here. Modules may import from rows, stream and automata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpq.language.query import register_class

if TYPE_CHECKING:
    from rpq.language.query import Query


def _sparql_class() -> type[Query]:
    from rpq.language.sparql.query import SparqlQuery

    return SparqlQuery


def _match_class() -> type[Query]:
    from rpq.language.match.query import MatchQuery

    return MatchQuery


# `Query(text)` creates a `SparqlQuery` if the text is SPARQL, a `MatchQuery` if it is MATCH. These derive from `Query`, and
# are loaded only then.
for language in ("sparql", "csparql", "cqels"):
    register_class(language, _sparql_class)
register_class("gql", _match_class)
register_class("cypher", _match_class)
