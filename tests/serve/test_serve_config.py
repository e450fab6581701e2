"""`rpq serve --config FILE`, what a server reads again at SIGHUP, and its log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest

from rpq.serve.command import serve

OPTIONS = [one for one in serve.params if isinstance(one, click.Option) and one.name != "config"]


def options_of(*arguments: object) -> dict[str, Any]:
    """The options of the command for these arguments."""
    return serve.make_context("serve", [*map(str, arguments)]).params


def other_values(option: click.Option) -> Iterator[str]:
    """Values of an option, of which one at least is valid and not the default."""
    yield from option.type.choices if isinstance(option.type, click.Choice) else ()
    yield from ("7", "x=y", "%Y")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda one: one.opts[0])
def test_every_option_can_be_in_the_file(option, tmp_path, monkeypatch):
    monkeypatch.delenv("RPQ_TOKEN", raising=False)
    file, flag, before = tmp_path / "server.toml", option.opts[0], options_of()
    for value in other_values(option):
        try:
            expected = options_of(flag, *[value] * (not option.is_flag))
        except click.BadParameter:
            continue
        if expected != before:
            break
    else:
        pytest.fail(f"{flag}: no value is known to be valid")
    content = True if option.is_flag else [value] if option.multiple else value
    file.write_text(f"{flag[2:]} = {json.dumps(content)}")
    assert options_of("--config", file) == expected
    if not option.is_flag and value.isdecimal():
        file.write_text(f"{flag[2:]} = {f'[{value}]' if option.multiple else value}")
        assert options_of("--config", file) == expected


def test_the_command_line_comes_before_the_file(tmp_path, monkeypatch):
    file = tmp_path / "server.toml"
    file.write_text('port = 1\nmax-rows = 10\ntoken = ["read=a", "b"]\n')
    monkeypatch.delenv("RPQ_TOKEN", raising=False)
    found = options_of("--config", file, "--port", 2)
    assert (found["port"], found["max_rows"], found["tokens"]) == (2, 10, ("read=a", "b"))
    monkeypatch.setenv("RPQ_TOKEN", "c")
    assert options_of("--config", file)["tokens"] == ("c",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("max_rows = 10", "field max_rows: is not an option of rpq serve; did you mean 'max-rows'?"),
        ('config = "other.toml"', "field config: is not an option of rpq serve"),
        ("[tls]\ncert = 1", "field tls: is not an option of rpq serve"),
        ('port = "http"', "field port: 'http' is not a valid integer range."),
        ("port = 1.5", "field port: '1.5' is not a valid integer range."),
        ("port = true", "field port: expected a text or a number"),
        ('open = "yes"', "field open: expected true or false"),
        ('token = "t"', "field token: expected an array of texts or numbers"),
        ('host = ["x"]', "field host: expected a text or a number"),
        ('param = ["x"]', "field param: expected NAME=VALUE, such as min=3 or user=alice, not 'x'"),
        ('idle-timeout = "soon"', "field idle-timeout: 'soon' is not a duration; expected one such as 5s, 200ms or 1m"),
        ("port = ", ": is not TOML: "),
    ],
)
def test_a_file_that_is_wrong_is_a_usage_error(rpq, tmp_path, content, message):
    file = tmp_path / "server.toml"
    file.write_text(content)
    code, _, stderr = rpq("serve", "--config", file)
    assert code == 2 and f"{file}" in stderr and message in stderr, stderr
    code, _, stderr = rpq("serve", "--config", tmp_path / "nothing.toml")
    assert code == 2 and "nothing.toml: cannot be read: No such file" in stderr
