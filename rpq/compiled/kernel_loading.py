"""The loading of compiled kernels without numba's compiler, for kernels that do not need it.

When numba loads a kernel from a cache, it imports what a compiler needs, compiles its own runtime, and parses the bitcode of
the kernel in case that it is compiled into another one. That takes 35 MB and 0.2 s of every process. The machine code of a
kernel needs only the addresses of the symbols that it refers to. These are functions of numba's runtime, and this module
defines them as numba does. The bitcode is parsed when another kernel needs it. The modules of numba whose functions a kernel
calls are not imported: only the constants of their environments are needed.

This depends on internals of numba, and LLVM ends the process if a symbol is missing. A kernel with an undefined symbol is
therefore loaded by numba, and so are all kernels if this version of numba was not checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from operator import attrgetter
from typing import Any, NamedTuple

import llvmlite.binding
import numba
from numba.core import environment

library_of: Callable[[Any], Any] = attrgetter("library")
"""The code of a compiled kernel, as numba has it."""

CHECKED_VERSIONS = frozenset((0, minor) for minor in range(61, 69))
"""The versions of numba whose internals are as `load` needs them."""


class Symbols(NamedTuple):
    """The names that the machine code of a kernel defines, and the other names that it refers to."""

    defined: list[str]
    external: list[str]


def is_checked() -> bool:
    """Return whether this version of numba has the internals that this package depends on."""
    return numba.version_info.short in CHECKED_VERSIONS


def symbols_of(kernel: Any) -> Symbols | None:
    """Return the symbols of a compiled kernel; None if this version of numba does not reveal them."""
    try:
        module = library_of(kernel)._final_module
        values = [*module.functions, *module.global_variables]
        names = {value.name: value.is_declaration for value in values if not value.name.startswith("llvm.")}
    except AttributeError:
        return None
    return Symbols(
        defined=sorted(name for name, is_external in names.items() if not is_external),
        external=sorted(name for name, is_external in names.items() if is_external),
    )


def load(kernel: Any, symbols: Symbols | None, context: Any, rebuild: Callable[[Any, Any], Any]) -> Any:
    """Return a kernel that numba serialised; `rebuild` is numba's function for it, of its context and the kernel."""
    (name, kind, code), *others = kernel
    if kind != "object" or symbols is None or not _is_ready(context) or not all(map(_is_defined, symbols.external)):
        context.refresh()
        return rebuild(context, kernel)
    machine_code, bitcode = code
    context.codegen()._engine._defined_symbols.update(symbols.defined)
    loaded = rebuild(context, ((name, kind, (machine_code, _no_bitcode())), *others))
    library = library_of(loaded)
    library._shared_module = None
    library._get_module_for_linking = partial(llvmlite.binding.parse_bitcode, bitcode)
    return loaded


def restored_environment(module: str, constants: list[Any], name: str) -> Any:
    """Return the environment of a compiled function, restored from a cache without importing a module of numba.

    The globals of an environment are for code that calls Python, which numba's own functions in kernels do not do.
    """
    known = environment.lookup_environment(name)
    if known is not None or not module.startswith("numba.") or module in sys.modules:
        return environment._rebuild_env(module, constants, name)
    restored = environment.Environment({"__name__": module})  # the name is needed where it is written again
    restored.consts[:] = constants
    restored.env_name = name
    environment.Environment._memo[name] = restored
    return restored


@cache
def _is_ready(context: Any) -> bool:
    """Define the functions of numba's runtime under the names that numba gives them. Return whether this version of numba is
    known."""
    if not is_checked() or not hasattr(context.codegen()._engine, "_defined_symbols"):
        return False
    try:
        helpers = import_module("numba.core.runtime._nrt_python").c_helpers
    except (ImportError, AttributeError):
        return False
    for name, address in helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    return True


@cache
def _is_defined(symbol: str) -> bool:
    return llvmlite.binding.address_of_symbol(symbol) is not None


@cache
def _no_bitcode() -> bytes:
    bitcode: bytes = llvmlite.binding.parse_assembly("").as_bitcode()
    return bitcode
