"""The sources of a kernel: the text of its module, and of every module of this package that it imports.

A compiled kernel contains the kernels that it calls and the constants that it reads, whichever module they are in.
"""

from __future__ import annotations

import os
import re
import sys
import time
from functools import cache
from hashlib import sha256
from importlib.util import find_spec

VIEWS = "rpq.compiled.views"
"""The module of views, a source of every kernel, although kernels do not import it."""
NOT_COMPILED = {"rpq", "rpq.compiled.kernel_cache"}
"""Modules that kernels import without compiling code from them."""
_STARTED = time.time()
_IMPORT = re.compile(r"^from\s+(rpq[\w.]*)\s+import\s+(\([^)]*\)|.*)|^import\s+(rpq[\w.]*)", re.MULTILINE)
_NAME = re.compile(r"\w+")


@cache
def digest(module: str) -> str | None:
    """Return a digest of the sources of a module and its direct and indirect imports. Takes milliseconds, once.

    Return None if one of the sources was replaced after this process started, for example by an upgrade while a service is
    running: this process would compile the old code, but cached kernels must match the new code.
    """
    sources: dict[str, bytes] = {}
    pending = [module, VIEWS]
    while pending:
        name = pending.pop()
        if name not in sources:
            sources[name] = _source(name)
            pending += imported_modules(sources[name].decode("utf-8", "replace"))
    if any(map(_is_replaced, sources)):
        return None
    whole = sha256()
    for name in sorted(sources):
        whole.update(f"{name}\n{len(sources[name])}\n".encode())
        whole.update(sources[name])
    return whole.hexdigest()


def imported_modules(source: str) -> set[str]:
    """Return the modules of this package that a module imports at the top level, by their full names.

    >>> source = "import numpy\\nfrom rpq.stream import chunk, window\\nfrom rpq.stream.window import Window\\n"
    >>> sorted(imported_modules(source))
    ['rpq.stream.chunk', 'rpq.stream.window']
    """
    found = set()
    for origin, names, plain in _IMPORT.findall(source):
        if plain:
            found.add(plain)
            continue
        # A name is a module, or an attribute of one.
        inside = {f"{origin}.{name}" for name in _NAME.findall(names)}
        modules = {name for name in inside if _is_module(name)}
        found |= modules
        if modules != inside:
            found.add(origin)
    return found - NOT_COMPILED


@cache
def _is_module(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _is_replaced(module: str) -> bool:
    spec = find_spec(module)
    try:
        # Not the modification time, which an archive preserves.
        return spec is not None and spec.origin is not None and os.stat(spec.origin).st_ctime > _STARTED
    except OSError:
        return False  # in a wheel that Spark distributes


@cache
def _source(module: str) -> bytes:
    """Return the text of a module, or its bytecode if there is no text."""
    spec = find_spec(module)
    if spec is None or spec.loader is None:
        return b""
    paths = [path for path in (spec.origin, spec.cached) if path]
    for path in paths:
        try:
            return bytes(spec.loader.get_data(path))  # type: ignore[attr-defined]
        except (OSError, AttributeError):
            continue
    return b""
