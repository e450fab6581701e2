"""What the README shows is what happens."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_python_example_prints_what_the_readme_says() -> None:
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == [line.rstrip() for line in shown.splitlines()]


def test_every_link_into_the_repository_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    for link in links:
        assert (Path(__file__).parents[1] / link).exists(), link
