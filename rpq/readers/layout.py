"""What the fields of a line are: the exact rules, applied to one line at a time.

This is the definition of the text formats.  `rpq.readers.parsing` reads whole blocks faster, and comes back to this
code for every block that is not plain.  The rules:

* Fields are separated by one tab, by one comma (with quotes as in RFC 4180, no line break inside), or by runs of
  blanks (spaces and tabs; those at the ends of a line do not count).
* A line ends with a line feed, a carriage return before it is dropped.  Lines that are empty or hold blanks only are
  ignored, and so are comments: a lone `#`, or lines that begin with `# ` (number sign and space, so that a vertex
  may be called `#tag`).
* Names are the text between the separators, UTF-8, not empty, nothing else is changed.  Integers are decimal, with an
  optional sign; blanks around them are dropped, as they are around `+` and `-`.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

SEPARATOR_NAMES = {"\t": "tabs", ",": "commas", " ": "blanks", "|": "|"}
INTEGER = re.compile(r"[+-]?[0-9]+")
SMALLEST, LARGEST = -(2**63), 2**63 - 1
_BLANKS = re.compile("[ \t]+")


class FieldError(Exception):
    """What is wrong with a line: `message`, and the `column` (None where it is the line as a whole)."""

    def __init__(self, message: str, column: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


def is_ignored(line: bytes) -> bool:
    """Whether a line holds no tuple by intention: it is blank, or a comment.

    >>> [is_ignored(line) for line in (b"", b" \\t", b"#", b"# about", b"#tag\\tb\\tl\\t1")]
    [True, True, True, True, False]
    """
    if line and line[0] > ord("#"):  # nearly all lines, without looking further
        return False
    return not line.strip(b" \t\r") or line.startswith(b"# ") or line.rstrip(b"\r") == b"#"


def split_line(line: bytes, separator: str) -> list[str]:
    """Cut a line (without its end) into fields; bytes that are not UTF-8 become surrogates, for `check_text` to find.

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
    return text.split(separator)


def check_text(text: str, column: str) -> str:
    """Return a name as it is; raise `FieldError` if it is empty or was not UTF-8."""
    if not text:
        raise FieldError("is empty; expected a name", column)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raw = text.encode("utf-8", "surrogateescape")
            raise FieldError(f"{shown(raw)} is not UTF-8 text", column) from None
    return text


def check_integer(text: str, column: str) -> int:
    """Return the integer that a field holds; raise `FieldError` if there is none or it does not fit 64 bits.

    >>> check_integer(" -7", "timestamp")
    -7
    """
    if len(text) <= 18 and INTEGER.fullmatch(text):
        return int(text)
    stripped = text.strip(" \t")
    if not INTEGER.fullmatch(stripped):
        if not stripped:
            raise FieldError("is empty; expected an integer", column)
        raise FieldError(f"{shown(text)} is not an integer; expected a whole number such as 1254192988", column)
    # Python refuses to read thousands of digits; past twenty significant ones it is out of range anyhow.
    digits = stripped.lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) <= 20 else LARGEST + 2
    number = -number if stripped.startswith("-") else number
    if not SMALLEST <= number <= LARGEST:
        raise FieldError(f"{shown(text)} does not fit 64 bits; expected −2⁶³ to 2⁶³ − 1", column)
    return number


def check_op(text: str, column: str = "op") -> bool:
    """Return whether the tuple is a delete; raise `FieldError` unless the field is `+` or `-`."""
    op = text.strip(" \t")
    if op not in ("+", "-"):
        raise FieldError(f"{shown(text)} is not an operation; expected + or -", column)
    return op == "-"


def shown(value: str | bytes) -> str:
    """A value as a message shows it: quoted, and cut where it is long."""
    if len(value) <= 60:
        return repr(value)
    return repr(value[:57]) + "..."


def without_brackets(name: str) -> str:
    """The name inside `<...>`; other text as it is."""
    return name[1:-1] if len(name) >= 2 and name[0] == "<" and name[-1] == ">" else name


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The fields of every line of a file.

    `fields` names them in their order: `source`, `target`, `label`, `timestamp`, `op`, or "" for one that is not
    read.  The last `optional` of them may be missing from a line.  With `integers`, vertices and labels must be
    integers, but stay text; with `brackets`, they lose a pair of angle brackets around them.
    """

    separator: str
    fields: tuple[str, ...]
    optional: int = 0
    integers: bool = False
    brackets: bool = False

    @property
    def widths(self) -> range:
        """The numbers of fields that a line may have."""
        return range(len(self.fields) - self.optional, len(self.fields) + 1)

    def read(self, line: bytes) -> dict[str, str | int | bool]:
        """Return the values of one line by column (`op` as `delete`); raise `FieldError`.

        >>> Layout(separator=" ", fields=("source", "target", "timestamp")).read(b"1 4 12")
        {'source': '1', 'target': '4', 'timestamp': 12}
        """
        texts = split_line(line, self.separator)
        if not len(self.fields) - self.optional <= len(texts) <= len(self.fields):
            raise FieldError(self._wrong_width(len(texts)))
        values: dict[str, str | int | bool] = {}
        for field, text in zip(self.fields, texts, strict=False):
            if field == "timestamp":
                values[field] = check_integer(text, field)
            elif field == "op":
                values["delete"] = check_op(text)
            elif field:
                name = check_text(text, field)
                if self.integers and not INTEGER.fullmatch(name):
                    raise FieldError(f"{shown(text)} is not an integer; expected one such as 93400", field)
                if self.brackets:
                    name = check_text(without_brackets(name), field)
                values[field] = name
        return values

    def _wrong_width(self, found: int) -> str:
        counts = " or ".join(str(width) for width in self.widths)
        names = ", ".join(field or "(not read)" for field in self.fields)
        fields = "field" if found == 1 else "fields"
        return f"found {found} {fields}, expected {counts}: {names}; separated by {SEPARATOR_NAMES[self.separator]}"
