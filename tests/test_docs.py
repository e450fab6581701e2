"""Documentation: pages build strictly from this checkout alone, their code runs, their links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WITH_PYTHON = sorted(page for page in DOCS.glob("*.md") if "```python\n" in page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_every_block_of_python_runs_and_gives_what_the_page_says(page: Path, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "page"}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF)
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, block.start()) + 1
        if ">>>" in block[1]:
            test = doctest.DocTestParser().get_doctest(block[1], names, page.name, str(page), line)
            told: list[str] = []
            runner.run(test, out=told.append, clear_globs=False)
            names.update(test.globs)
            assert not told, "".join(told)
        else:
            exec(compile("\n" * line + block[1], str(page), "exec"), names)
