"""The generators by name: each a function (edges, seed) → batches of source, target, label, timestamp[, delete]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from rpq.workloads.generate.city_rides import like_taxi
from rpq.workloads.generate.gmark_graphs import like_gmark
from rpq.workloads.generate.interactions import like_stackoverflow
from rpq.workloads.generate.ldbc_updates import like_ldbc
from rpq.workloads.generate.proteins import like_biogrid
from rpq.workloads.generate.rdf.rdf_streams import rdf_stream
from rpq.workloads.generate.yago_triples import like_yago

KINDS: Mapping[str, Callable[..., Iterator[pa.RecordBatch]]] = {
    "stackoverflow": like_stackoverflow,
    "ldbc": like_ldbc,
    "yago": like_yago,
    "gmark": like_gmark,
    "rdf": rdf_stream,
    "taxi": like_taxi,
    "biogrid": like_biogrid,
}
