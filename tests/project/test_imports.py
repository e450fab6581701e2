"""Imports point one way, as the contracts of import-linter in `pyproject.toml` say.

That `import rpq` loads nothing heavy is tested in `test_engine_api.py`, the same of the command in `test_cli_explain.py` and
of `rpq.spark` in `test_spark_prepare.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]


def test_imports_keep_the_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    cli = pytest.importorskip("importlinter.cli")
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "rpq", raising=False)  # where it is would be taken from there
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)  # this one disables all other loggers, for good
    ran = CliRunner().invoke(cli.lint_imports_command, ["--no-cache"])
    assert ran.exit_code == 0, ran.output
