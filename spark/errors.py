"""The exception of the Spark pipeline, and readable messages for exceptions of Spark."""

from __future__ import annotations

import re
from typing import Any

from rpq.errors import RpqError


class PipelineError(RpqError):
    """Settings, columns, a checkpoint, a data set or another input of the pipeline is missing or unsuitable."""


_OURS = re.compile(r"^(?:rpq|spark|automata)\.[\w.]+(?:Error|Exception): (.+)$", re.MULTILINE)
_CALL = re.compile(r"An error occurred while calling \S+")
_STREAM = re.compile(r"^.* terminated with exception: ")
_HEADER = re.compile(r"(CSV header does not conform to the schema)[\s\S]*?^\s*E(xpected: .+ but found: .+)$", re.MULTILINE)
_FILE = re.compile(r"^.*(?:reading file|footer for file:?) .*$", re.MULTILINE)
_CLASS = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+[\w$]+: ")
_CODES = re.compile(r"\[[A-Z][A-Z0-9_.]+\] | SQLSTATE: \w+")
_LONGEST = 600


def plain_message(error: BaseException) -> str:
    """Return the message of an exception of Spark with its cause, or that of the error of this package that caused it.

    >>> plain_message(Exception("Job aborted\\nrpq.errors.InputError: column 'op': '?' is not an operation\\n at java.x"))
    "column 'op': '?' is not an operation"
    >>> plain_message(Exception("[READ] Encountered error while reading file x.gz. SQLSTATE: K\\nCaused by: a.B: It ends"))
    'Encountered error while reading file x.gz: It ends'
    >>> header = "CSV header does not conform to the schema.\\n Header: b, a\\n Schema: a, b\\n Expected: a but found: b"
    >>> plain_message(Exception(f"Query [id = 1] terminated with exception: error while reading file x\\n{header}"))
    'error while reading file x: CSV header does not conform to the schema: expected: a but found: b'
    """
    messages = [str(error), *_java_messages(error)]
    text = "\n".join(messages)
    if ours := _OURS.findall(text):
        return str(ours[-1])
    first = next((line for one in messages if not _CALL.match(line := first_line(one))), first_line(error))
    if found := _FILE.search(text):
        first = found[0].rpartition(": org.apache.spark.SparkException: ")[2]
    first = _STREAM.sub("", first)
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    cause = first_line(messages[-1]) if len(messages) > 1 else causes[-1] if causes else ""
    if found := _HEADER.search(text):
        cause = f"{found[1]}: e{found[2]}"
    first, cause = (_CODES.sub("", _CLASS.sub("", one)).strip().rstrip(".") for one in (first, cause))
    return (f"{first}: {cause}" if cause and cause not in first else first)[:_LONGEST]


def _java_messages(error: BaseException) -> list[str]:
    """Return the messages of the exceptions of Java behind an error of PySpark or Py4J, the root cause last."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    messages = []
    while java is not None:
        messages.append(str(java.getMessage() or java.toString()))
        java = java.getCause()
    return messages


def first_line(error: object) -> str:
    """Return the first line of a message, or the name of the error's class if it has none."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:_LONGEST]
