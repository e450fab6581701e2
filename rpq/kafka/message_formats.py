"""The formats that messages may have elsewhere, and that are not read here."""

from __future__ import annotations

REFUSED = {"avro": "Avro", "protobuf": "Protobuf", "parquet": "Parquet"}
"""Their names as options have them, and as people call them."""
