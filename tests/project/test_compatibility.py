"""The public names: what users may rely on is a list that is committed, so that no change of it goes unnoticed.

`python -m tests.project.test_compatibility` writes the list, `public_names.txt`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.hooks import commands
from rpq.cli import main

LIST = Path(__file__).with_name("public_names.txt")
MODULES = ("rpq", "rpq.automata", "rpq.kafka", "rpq.serve", "rpq.spark")


def public_names() -> list[str]:
    """Return the names of Python with their parameters, the commands with their options, and the requests of a server."""
    return [*python_names(), *command_names(), *request_names()]


def python_names() -> Iterator[str]:
    for module in MODULES:
        for name in sorted(importlib.import_module(module).__all__):
            value = getattr(importlib.import_module(module), name)
            yield f"{module}.{name}{parameters(value)}"
            for member in sorted(vars(value)) if inspect.isclass(value) else ():
                if not member.startswith("_"):
                    yield f"{module}.{name}.{member}{parameters(inspect.getattr_static(value, member))}"


def parameters(value: object) -> str:
    """Return the parameters of a function or a class, without types and defaults; nothing for what is not called."""
    function = getattr(value, "__func__", value)
    if not inspect.isfunction(function) and not (inspect.isclass(value) and not issubclass(value, BaseException)):
        return ""
    try:
        named = inspect.signature(function).parameters.values()
    except ValueError:
        return ""
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = [f"{kinds.get(one.kind, '')}{one.name}" for one in named if not one.name.startswith("_")]
    return f"({', '.join(shown)})"


def command_names() -> Iterator[str]:
    for name, command in commands(main, "rpq"):
        if not name.startswith("rpq bench "):  # experiments, which only a checkout has
            options = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
            yield from (name, *(f"{name} {option}" for option in sorted(options) if option.startswith("--")))


def request_names() -> Iterator[str]:
    from rpq.serve.application import OPERATIONS
    from rpq.serve.models import ServeLimits

    for path, methods in OPERATIONS.document(ServeLimits())["paths"].items():
        yield from (f"{method.upper()} {path}" for method in methods if method != "parameters")


def test_the_public_names_are_those_of_the_committed_list():
    for needed in ("pyspark", "starlette", "confluent_kafka"):
        pytest.importorskip(needed)
    listed = LIST.read_text(encoding="utf-8").splitlines()
    found = public_names()
    assert sorted({*listed} ^ {*found}) == [] and listed == found


if __name__ == "__main__":
    LIST.write_text("\n".join(public_names()) + "\n", encoding="utf-8")
