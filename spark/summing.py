"""The statistics of a prepared data set, summed up by tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def statistics_of(edges: DataFrame) -> dict[str, Any]:
    """Counts of edges (source, target, label, timestamp, op) as JSON values.

    `duplicates` are inserts of an edge (source, label, target) that had been inserted before, `repeated_tuples` of
    them those with the same timestamp too.  `span` is the first and the last timestamp.
    """
    from pyspark.sql import functions as sql

    is_insert = sql.col("op") == "+"
    labels = [
        row.asDict()
        for row in edges.groupBy("label")
        .agg(
            sql.count("*").alias("tuples"),
            sql.sum((~is_insert).cast("long")).alias("deletes"),
            sql.sum((sql.col("source") == sql.col("target")).cast("long")).alias("self_loops"),
            sql.min("timestamp").alias("first"),
            sql.max("timestamp").alias("last"),
        )
        .orderBy("label")
        .collect()
    ]
    edge = ("source", "target", "label")
    same = edges.where(is_insert).groupBy(*edge, "timestamp").count()
    inserts = (
        same.groupBy(*edge)
        .agg(sql.sum("count").alias("inserts"), sql.sum(sql.col("count") - 1).alias("repeated"))
        .agg(
            sql.count("*").alias("edges"),
            sql.coalesce(sql.sum(sql.col("inserts") - 1), sql.lit(0)).alias("duplicates"),
            sql.coalesce(sql.sum("repeated"), sql.lit(0)).alias("repeated"),
        )
        .first()
    )
    assert inserts is not None
    vertices = edges.select("source").union(edges.select("target")).distinct().count()
    return {
        "tuples": sum(one["tuples"] for one in labels),
        "deletes": sum(one["deletes"] for one in labels),
        "edges": inserts["edges"],
        "vertices_count": vertices,
        "duplicates": inserts["duplicates"],
        "repeated_tuples": inserts["repeated"],
        "self_loops": sum(one["self_loops"] for one in labels),
        "span": [min(one["first"] for one in labels), max(one["last"] for one in labels)] if labels else None,
        "labels": {
            one["label"]: {
                "tuples": one["tuples"],
                "deletes": one["deletes"],
                "self_loops": one["self_loops"],
                "span": [one["first"], one["last"]],
            }
            for one in labels
        },
    }
