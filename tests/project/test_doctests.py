"""Every public function, class and method shows an example that runs (pytest collects them: `--doctest-modules`)."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

MODULES = ("rpq", "rpq.automata", "rpq.kafka", "rpq.readers", "rpq.spark")
_OF_SPARK = ("changes", "check_workers", "open_session", "prepare", "register_functions", "replay", "replay_to", "rescale")
_STREAMS = ("rpq_changes", "stream_to")
_OF_SOURCE = ("", ".name", ".schema", ".reader")
RUN_ELSEWHERE = {f"rpq.spark.{name}" for name in (*_OF_SPARK, *_STREAMS, *(f"RpqDataSource{of}" for of in _OF_SOURCE))}
"""They need Java: their examples are read, not run, and files of tests/spark run them."""


def example(thing: Any) -> str:
    """The lines of code in a docstring, those that continue others too."""
    return "\n".join(re.findall(r"^\s*(?:>>>|\.\.\.) ?(.*)", thing.__doc__ or "", re.MULTILINE))


def public() -> Iterator[tuple[str, Any, str]]:
    """(name, what it is, the example of the class that it is in) of all that users call; errors are not called."""
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            thing = getattr(importlib.import_module(module), name)
            if inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, Exception)):
                yield f"{module}.{name}", thing, ""
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                for member, value in vars(thing).items():
                    if isinstance(value, (classmethod, staticmethod)):
                        value = value.__func__
                    if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                        yield f"{module}.{name}.{member}", value, example(thing)


PUBLIC = {name: (thing, of_class) for name, thing, of_class in public()}


@pytest.mark.parametrize("name", PUBLIC)
def test_it_has_an_example(name: str) -> None:
    thing, of_class = PUBLIC[name]
    if inspect.isclass(thing):
        assert example(thing)
    else:
        assert re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", f"{example(thing)}\n{of_class}")


def test_all_that_is_public_is_looked_at() -> None:
    assert {"rpq.Engine.push", "rpq.Engine.restore", "rpq.Engine.time", "rpq.automata.DFA.to_text"} <= {*PUBLIC}
    assert len(PUBLIC) > 70


@pytest.mark.parametrize("name", PUBLIC)
def test_only_examples_that_need_java_are_not_run(name: str) -> None:
    assert name in RUN_ELSEWHERE or "+SKIP" not in (PUBLIC[name][0].__doc__ or "")
