"""Texts with figures from the results: the text between markers is generated from the JSON.

    <!-- bench mathoverflow -->            the table of an experiment, the measurement and the machine, its plot
    <!-- /bench -->
    <!-- bench mathoverflow columns=query,engine_seconds where=data:yago -->      some columns, some records
    … in <!-- bench mathoverflow value=engine_seconds where=query:Q1 -->0.3<!-- /bench --> seconds …

A value has the format of its column, or `format=.1f`. `value=max:KEY` and `value=min:KEY` are the largest and the smallest
value of the records, `value=machine:KEY` and `value=fact:KEY` other values of the result. With `in=FOLDER` the result is
read from this subfolder of the results. With `optional=yes` a text is left as it is until there is a result, and
columns that are not measured yet are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rpq.workloads.bench.experiment import Column, Experiment, read_result

_BLOCK = re.compile(r"(<!-- bench (?P<name>[\w-]+)(?P<options>[^>]*?) -->)(?P<body>.*?)(<!-- /bench -->)", re.DOTALL)
_PLACES = {"machine": "machine", "fact": "facts", "setting": "settings"}


class ReportError(Exception):
    """A marker that cannot be filled in."""


def fill_report(text: str, *, results: Path, file: Path, load: Callable[[str], Experiment]) -> str:
    """Return the text with new content from the results between all markers. Raises `ReportError`."""

    def replace(match: re.Match[str]) -> str:
        name, options = match["name"], dict(option.split("=", 1) for option in match["options"].split())
        folder = results / options.get("in", ".")
        try:
            experiment = load(name)
            if "optional" in options and not (folder / f"{name}.json").exists():
                return match[0]
            result = read_result(folder, name)
        except (FileNotFoundError, KeyError) as error:
            raise ReportError(f"{file}: no result of {name!r} in {folder}") from error
        if "value" in options:
            return f"{match[1]}{_value(experiment, result, options, file)}{match[5]}"
        body = _section(experiment, result, options, results=folder, file=file)
        return f"{match[1]}\n{body}\n{match[5]}"

    if text.count("<!-- bench ") != text.count("<!-- /bench -->"):
        raise ReportError(f"{file}: a marker <!-- bench … --> lacks its <!-- /bench -->, or the reverse")
    return _BLOCK.sub(replace, text)


def markdown_table(columns: list[Column], records: list[Mapping[str, Any]]) -> str:
    """Return records as a Markdown table.

    >>> columns = [Column(key="query", heading="query"), Column(key="seconds", heading="s", format=".1f")]
    >>> print(markdown_table(columns, [{"query": "a|b", "seconds": 2}]))
    | query | s |
    |---|---:|
    | a\\|b | 2.0 |
    """
    lines = [[column.heading for column in columns]]
    lines += [[column.text(record).replace("|", "\\|") for column in columns] for record in records]
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    rule = "|" + "|".join("---:" if column.format else "---" for column in columns) + "|"
    return "\n".join([rows[0], rule, *rows[1:]])


def _section(
    experiment: Experiment, result: Mapping[str, Any], options: Mapping[str, str], *, results: Path, file: Path
) -> str:
    records = _choose_records(result, options, file)
    keys = options.get("columns")
    columns = experiment.present_columns(records)
    if keys:
        unmeasured = {column.key for column in experiment.columns if column not in columns and "optional" in options}
        columns = [_column(experiment, key) for key in keys.split(",") if key not in unmeasured]
    parts = [markdown_table(columns, records)]
    if not keys:
        parts += [f"{result['how']}", describe_measurement(result)]
    picture = results / f"{experiment.name}.png"
    if picture.exists() and not keys:
        parts.append(f"![{experiment.title}]({os.path.relpath(picture, file.parent).replace(os.sep, '/')})")
    return "\n\n".join(parts)


def _window_of(stream: Mapping[str, Any]) -> str:
    return f", window {stream['window']:,}, slide {stream['slide']:,}" if "window" in stream else ""


def describe_measurement(result: Mapping[str, Any]) -> str:
    """Describe the machine, the date, the versions and the streams of an experiment, in a line or two."""
    machine, settings = result["machine"], result["settings"]
    streams = "; ".join(
        f"{one['name']}: {one['tuples']:,} tuples ({one['origin']}){_window_of(one)}"
        for one in result["streams"]
    )
    return (
        f"Measured on {machine['cpu']}, {machine['cores']} cores, calibration {machine['calibration_ns_per_step']} ns a "
        f"step, Python {machine['python']}, numba {machine['numba']}, commit {machine['commit']}, {machine['date']}, "
        f"seed {settings['seed']}, runs {settings['repeat']}." + (f" Streams: {streams}." if streams else "")
    )


def _value(experiment: Experiment, result: Mapping[str, Any], options: Mapping[str, str], file: Path) -> str:
    place, _, key = options["value"].rpartition(":")
    if place in _PLACES:
        found = result[_PLACES[place]].get(key)
    else:
        values = [record[key] for record in _choose_records(result, options, file) if record.get(key) is not None]
        if not values or (len(values) > 1 and place not in ("min", "max")):
            raise ReportError(f"{file}: {options['value']} of {experiment.name}: {len(values)} records, expected one")
        found = min(values) if place == "min" else max(values) if place == "max" else values[0]
    if found is None:
        raise ReportError(f"{file}: the result of {experiment.name} has no {options['value']}")
    if "format" in options:
        return format(found, options["format"])
    return _column(experiment, key).text({key: found})


def _column(experiment: Experiment, key: str) -> Column:
    return next((column for column in experiment.columns if column.key == key), Column(key=key, heading=key))


def _choose_records(result: Mapping[str, Any], options: Mapping[str, str], file: Path) -> list[Mapping[str, Any]]:
    """Return the records that have the values of `where=key:value,key:value`."""
    pairs = [pair.split(":", 1) for pair in filter(None, options.get("where", "").split(","))]
    records = [record for record in result["records"] if all(str(record.get(key)) == value for key, value in pairs)]
    if not records:
        raise ReportError(f"{file}: no record of {result['experiment']} where {options.get('where')}")
    return records
