"""Calling the command in this process, as a shell would."""

from __future__ import annotations

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
