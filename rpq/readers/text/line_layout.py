"""The exact rules for the fields of a line, applied to one line at a time.

This is the definition of the text formats.  `rpq.readers.text.parsing` reads whole blocks faster, and uses this code for
every block that is not plain.  The rules:

* Fields are separated by one tab, by one comma, or by runs of blanks (spaces and tabs; those at the ends of a line do
  not count).  Between commas, and in some formats between tabs, fields may be in quotes and then span several lines;
  `rpq.readers.text.quotes` finds these records.
* A line ends with a line feed; a carriage return before it is dropped.  Lines that are empty or contain only blanks are
  ignored, and so are comments: a lone `#`, or lines that begin with `# ` (number sign and space, so that `#tag` is a
  valid name of a vertex).
* Names are the unchanged text between the separators, in UTF-8, not empty; a layout can drop the blanks around them.
  Integers are decimal, with an optional sign.  Blanks are dropped around integers, `+` and `-`, times
  (`rpq.stream.arrays.fields`), and the values of `delete`: `true`, `false`, `1` and `0`, in upper or lower case.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from rpq.stream.arrays.fields import FieldError, check_time, format_hint, quote_value, time_kind
from rpq.stream.arrays.values import EMPTY, boolean_of_text

SEPARATOR_NAMES = {"\t": "tabs", ",": "commas", " ": "blanks", "|": "|"}
INTEGER = re.compile(r"[+-]?[0-9]+")
SMALLEST, LARGEST = -(2**63), 2**63 - 1
FURTHER = "="
"""The prefix of the name of a field that is not a column of a tuple, but used as text by a condition."""

NO_ID = "is empty; where edges have ids (--edges id), an insert needs one"
"""The message for an insert without an id."""

_BLANKS = re.compile("[ \t]+")
_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"(?=\t|\Z)')


def is_ignored(line: bytes) -> bool:
    """Return whether a line is blank or a comment.

    >>> [is_ignored(line) for line in (b"", b" \\t", b"#", b"# about", b"#tag\\tb\\tl\\t1")]
    [True, True, True, True, False]
    """
    if line and line[0] > ord("#"):  # nearly all lines
        return False
    return not line.strip(b" \t\r") or line.startswith(b"# ") or line.rstrip(b"\r") == b"#"


def split_line(line: bytes, separator: str, *, quotes: bool = False) -> list[str]:
    """Split a line (without its end) into fields; bytes that are not UTF-8 become surrogates, which `check_text` rejects.

    Between commas fields may be in quotes, between tabs only with `quotes`.

    >>> split_line(b" a  b\\t3 ", " "), split_line(b'"a,b",c', ",")
    (['a', 'b', '3'], ['a,b', 'c'])
    """
    text = line.decode("utf-8", "surrogateescape")
    if separator == " ":
        return _BLANKS.split(text.strip(" \t"))
    if separator == "," and '"' in text:
        try:
            return next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise FieldError(f'the quotes are wrong: {error}; expected quotes as in "a, ""b"""') from error
    if quotes and separator == "\t" and '"' in text:
        return _split_quoted(text)
    return text.split(separator)


def _split_quoted(text: str) -> list[str]:
    """Split a line at its tabs; fields in quotes lose their quotes, and any other quote is text.

    >>> _split_quoted('"a\\tb"\\t"c"@en\\t"d')
    ['a\\tb', '"c"@en', '"d']
    """
    fields: list[str] = []
    place = 0
    while place <= len(text):
        quoted = _QUOTED.match(text, place)
        if quoted is not None:
            fields.append(quoted[1].replace('""', '"'))
            place = quoted.end() + 1
            continue
        end = text.find("\t", place)
        end = len(text) if end < 0 else end
        fields.append(text[place:end])
        place = end + 1
    return fields


def check_text(text: str, column: str) -> str:
    """Return a name unchanged; raise `FieldError` if it is empty or not UTF-8."""
    if not text:
        raise FieldError(EMPTY, column)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raw = text.encode("utf-8", "surrogateescape" if _was_bytes(text) else "backslashreplace")
            raise FieldError(f"{quote_value(raw)} is not UTF-8 text", column) from None
    return text


def _was_bytes(text: str) -> bool:
    """Return whether all surrogates stand for bytes that were not UTF-8; JSON can contain other surrogates."""
    return all("\udc80" <= one <= "\udcff" for one in text if "\ud800" <= one <= "\udfff")


def check_integer(text: str, column: str) -> int:
    """Return the integer in a field; raise `FieldError` if the field is not an integer or does not fit 64 bits.

    >>> check_integer(" -7", "timestamp")
    -7
    """
    if len(text) <= 18 and INTEGER.fullmatch(text):
        return int(text)
    stripped = text.strip(" \t")
    if not INTEGER.fullmatch(stripped):
        if not stripped:
            raise FieldError("is empty; expected an integer", column)
        raise FieldError(f"{quote_value(text)} is not an integer; expected a whole number such as 1254192988", column)
    # Python refuses to read thousands of digits; with more than twenty significant digits a number is out of range anyway.
    digits = stripped.lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) <= 20 else LARGEST + 2
    number = -number if stripped.startswith("-") else number
    if not SMALLEST <= number <= LARGEST:
        raise FieldError(f"{quote_value(text)} does not fit 64 bits; expected −2⁶³ to 2⁶³ − 1", column)
    return number


def check_op(text: str, column: str = "op") -> bool:
    """Return whether the tuple is a delete; raise `FieldError` unless the field is `+` or `-`."""
    op = text.strip(" \t")
    if op not in ("+", "-"):
        raise FieldError(no_operation(quote_value(text), op), column)
    return op == "-"


def no_operation(quote_value: str, value: object) -> str:
    """Return the message for an operation that is neither `+` nor `-`, with a hint if it is one of Debezium's."""
    hint = "; --changes reads those of Debezium in JSON; in other formats, let it add a column: --columns delete=__deleted"
    return f"{quote_value} is not an operation; expected + or -" + (hint if value in ("c", "r", "u", "d") else "")


def check_delete(text: str, column: str = "delete") -> bool:
    """Return whether the tuple is a delete; raise `FieldError` unless the field is `true`, `false`, `1` or `0`."""
    delete = boolean_of_text(text)
    if delete is None:
        what = f"{quote_value(text)} is not true or false" if text.strip(" \t") else "is empty"
        raise FieldError(f"{what}; expected true, false, 1 or 0", column)
    return delete


def without_brackets(name: str) -> str:
    """Return a name without the surrounding `<...>`, or other text unchanged."""
    return name[1:-1] if len(name) >= 2 and name[0] == "<" and name[-1] == ">" else name


@dataclass(frozen=True, kw_only=True)
class LineLayout:
    """The fields of every line of a file.

    `fields` contains their names in order: `source`, `target`, `label`, `timestamp`, `op` or `delete`, `stream` and
    `event` (whose values may be empty), or "" for a field that is not read, or `=NAME` for a field that is used as text,
    empty or not.  The last `optional` fields may be missing from a line.  With `integers`, vertices and labels must be
    integers, but remain text; with `brackets`, one pair of angle brackets around them is removed.  `quotes` enables
    quotes between tabs (`rpq.readers.text.quotes`); they are always enabled between commas, never between blanks.
    `edge` is the field with the ids of edges, if edges have ids: an insert needs an id, and a delete with an id needs no
    names.  With `trim`, blanks around fields are dropped.  `times` is the kind of timestamps: integers, or times (all with a
    zone, all without, or all in a format) that become integers in `time_unit`.
    """

    separator: str
    fields: tuple[str, ...]
    optional: int = 0
    integers: bool = False
    brackets: bool = False
    quotes: bool = False
    edge: str = ""
    trim: bool = False
    times: str = "integers"
    time_unit: str = "us"

    @property
    def has_quotes(self) -> bool:
        """True if fields may be in quotes."""
        return self.separator == "," or (self.quotes and self.separator == "\t")

    @property
    def widths(self) -> range:
        """The numbers of fields that a line may have."""
        return range(len(self.fields) - self.optional, len(self.fields) + 1)

    def read(self, line: bytes) -> dict[str, str | int | bool | None]:
        """Return the values of one line by column (`op` as `delete`); raise `FieldError`.

        >>> LineLayout(separator=" ", fields=("source", "target", "timestamp")).read(b"1 4 12")
        {'source': '1', 'target': '4', 'timestamp': 12}
        """
        texts = split_line(line, self.separator, quotes=self.quotes)
        if self.trim:
            texts = [text.strip(" \t") for text in texts]
        if not len(self.fields) - self.optional <= len(texts) <= len(self.fields):
            raise FieldError(self._wrong_width(len(texts)))
        values: dict[str, str | int | bool | None] = {}
        is_by_id = bool(self.edge) and self._is_delete_by_id(texts)
        for field, text in zip(self.fields, texts, strict=False):
            if field == "timestamp":
                values[field] = self._timestamp(text)
            elif field == "op":
                values["delete"] = check_op(text)
            elif field == "delete":
                values[field] = check_delete(text)
            elif field in ("stream", "event"):
                values[field] = check_text(text, field) if text else None
            elif field.startswith(FURTHER):
                values[field] = text and check_text(text, field.removeprefix(FURTHER))
            elif is_by_id and field and not text:
                values[field] = None
            elif field:
                name = check_text(text, field)
                if self.integers and not INTEGER.fullmatch(name):
                    raise FieldError(f"{quote_value(text)} is not an integer; expected one such as 93400", field)
                if self.brackets:
                    name = check_text(without_brackets(name), field)
                values[field] = name
        return values

    def _is_delete_by_id(self, texts: list[str]) -> bool:
        """Return whether a tuple is a delete with an id; raise `FieldError` for an insert without one."""
        fields = dict(zip(self.fields, texts, strict=False))
        is_delete = check_op(fields["op"]) if "op" in fields else "delete" in fields and check_delete(fields["delete"])
        if not fields.get(self.edge) and not is_delete:
            raise FieldError(NO_ID, self.edge.removeprefix(FURTHER))
        return is_delete and bool(fields.get(self.edge))

    def _timestamp(self, text: str) -> int:
        if self.times != "integers":
            return check_time(text, "timestamp", kind=self.times, unit=self.time_unit)
        try:
            return check_integer(text, "timestamp")
        except FieldError as error:
            if time_kind(text.strip(" \t")) is None:
                raise FieldError(error.message + format_hint(text), error.column) from error
            raise FieldError(
                f"{quote_value(text)} is a time, where integers are expected: the timestamps of a file are all integers or "
                "all times, and the times of a pipe need a time unit",
                "timestamp",
            ) from error

    def _wrong_width(self, field_count: int) -> str:
        counts = " or ".join(str(width) for width in self.widths)
        names = ", ".join(field.removeprefix(FURTHER) or "(not read)" for field in self.fields)
        fields = "field" if field_count == 1 else "fields"
        return f"found {field_count} {fields}, expected {counts}: {names}; separated by {SEPARATOR_NAMES[self.separator]}"
