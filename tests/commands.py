"""Calling the command in this process, as a shell would."""

from __future__ import annotations

import glob
import itertools
import re
import shlex

import click
import pytest

from rpq.cli import main


class Caller:
    """Calls a command of click's; what it writes on the way is captured."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    def __call__(self, *args: object, command: click.Command = main, name: str = "rpq") -> tuple[int, str, str]:
        """Call with these arguments; return (exit status, standard output, standard error)."""
        self._capture.readouterr()
        with pytest.raises(SystemExit) as ended:
            command([str(arg) for arg in args], prog_name=name)
        out, err = self._capture.readouterr()
        return ended.value.code or 0, out.decode(), err.decode()


def commands_in(block: str) -> list[list[str]] | None:
    """Return the arguments of each `rpq …` of a block of shell; None for a block that only a shell understands."""
    lexer = shlex.shlex(block.replace("\\\n", " "), posix=True, punctuation_chars="\n|&;<>")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    lines = [list(words) for is_end, words in itertools.groupby(lexer, re.compile(r"\n+").fullmatch) if is_end is None]
    if "$" in block or any(words[0] != "rpq" or any(re.fullmatch("[|&;<>#]+", word) for word in words) for words in lines):
        return None
    return [[path for word in words[1:] for path in sorted(glob.glob(word)) or [word]] for words in lines]
