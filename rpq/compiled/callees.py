"""Kernels as other kernels call them: LLVM's code for the callers, without machine code and without an entry from Python.

numba compiles a kernel that is called by another as if Python called it too: with two functions that unpack the arguments of
Python and of C, and to machine code. All of that is thrown away, because the code of a callee is linked into its caller and
optimised there. Three kernels of four are only called by kernels, so it was a quarter of the time for compiling.

`call_as_callee` lets the kernels that call a kernel find a *callee*: compiled without all that, and kept in its own file.
If Python has called the kernel with the same types before, its code serves. This depends on internals of numba, so other
versions than those that were checked compile kernels as numba does it.

Some kernels can therefore not be written. A kernel may call itself with the types of its own arguments, but not with other
types nor with a number that it writes out, as in `f(0)`; two kernels that call each other are refused. Only kernels of the
cache may call kernels of the cache: in others, an exception with values becomes a RuntimeError. As in numba, a callee
without an `error_model` of its own has that of the caller that compiles it first.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Protocol

import llvmlite.binding
from numba.core.codegen import JITCodeLibrary, RuntimeLinker
from numba.core.compiler import Compiler, Flags, compile_extra, compile_result
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import BooleanLiteral, IntegerLiteral
from numba.core.types.misc import unliteral
from numba.core.typing import make_concrete_template

code_of = attrgetter("library")
"""Return the code of a kernel that numba compiled, and of what it calls."""


class Cache(Protocol):
    """The files of the callees of one kernel."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the callee for these argument types, or None."""

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a callee."""


class CalleeLibrary(JITCodeLibrary):
    """The code of a callee, which is linked into its callers and never run by itself."""

    def _optimize_final_module(self) -> None:
        # The kernel that Python calls optimises all that is linked into it. If each callee did so too, code ten levels below
        # it would be optimised ten times.
        pass

    def _finalize_final_module(self) -> None:
        # As in numba, without the step that generates machine code, which would resolve calls of a kernel not yet compiled.
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        if any(value.name.startswith(RuntimeLinker.PREFIX) for value in self._final_module.global_variables):
            raise NotImplementedError(f"{self.name} and a kernel that it calls call each other: make one kernel of the two")
        self._finalized = True


class _CalleeCompiler(Compiler):
    """numba's compiler, with another library for its code."""

    def define_pipelines(self) -> Any:
        self.state["library"] = CalleeLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class _Callees:
    """The callees of one kernel by the types of their arguments."""

    def __init__(self, kernel: Any, cache: Cache) -> None:
        self._kernel = kernel
        self._cache = cache
        self._found: dict[tuple[Any, ...], Any] = {}

    def of(self, types: tuple[Any, ...]) -> Any:
        """Return the callee for these argument types: of a call by Python or a kernel, from a file, or compiled."""
        found = self._kernel.overloads.get(types) or self._found.get(types)
        if found is None:
            with global_compiler_lock, self._kernel._compiling_counter:
                found = self._cache.load_overload(types, self._kernel.targetctx)
                if found is None:
                    found = self._compile(types)
                    self._cache.save_overload(types, found)
            found = found._replace(entry_point=object())  # no function: the key of the code
            self._kernel.targetctx.insert_user_function(found.entry_point, found.fndesc, [code_of(found)])
            self._found[types] = found
        return found

    def _compile(self, types: tuple[Any, ...]) -> Any:
        kernel, flags = self._kernel, Flags()
        kernel.targetdescr.options.parse_as_flags(flags, kernel.targetoptions)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return compile_extra(
            kernel.typingctx,
            kernel.targetctx,
            kernel.py_func,
            args=types,
            return_type=None,
            flags=flags,
            locals=kernel.locals,
            pipeline_class=_CalleeCompiler,
        )


def call_as_callee(kernel: Any, cache: Cache) -> None:
    """Make other kernels that call `kernel` call its callees, which are kept in the `cache`."""
    callees, name = _Callees(kernel, cache), kernel.py_func.__name__
    is_inlined = kernel.targetoptions.get("forceinline", False)

    def template_of(args: Any, kws: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        signature, types = kernel.fold_argument_types(args, kws)
        if not is_inlined:
            # Otherwise a kernel is compiled anew for each number and each flag that callers write, such as 0 or True.
            types = [unliteral(one) if isinstance(one, IntegerLiteral | BooleanLiteral) else one for one in types]
        found = callees.of(tuple(types))
        return make_concrete_template(f"CallTemplate({name})", key=name, signatures=[found.signature]), signature, types, {}

    kernel.get_call_template = template_of
    kernel.get_overload = lambda types: callees.of(tuple(types)).entry_point


def reduce(callee: Any) -> tuple[Any, ...]:
    """Return the parts of a callee to store, in the form in which numba stores a kernel."""
    bitcode = code_of(callee)._get_module_for_linking().as_bitcode()
    callee.fndesc.typemap = callee.fndesc.calltypes = None  # as in numba: they cannot be stored, and are not needed
    environments = tuple(callee._find_referenced_environments())
    code = (code_of(callee).name, "bitcode", bitcode)
    return code, callee.fndesc, callee.environment, callee.signature, False, (), "", callee.reload_init, environments


def rebuild(context: Any, reduced: tuple[Any, ...]) -> Any:
    """Return the callee of which `reduce` returned `reduced`, or numba itself of a kernel that Python calls."""
    (name, kind, code), fndesc, environment, signature, *_, reload_init, environments = reduced
    for prepare in reload_init:
        prepare()
    library = CalleeLibrary(context.codegen(), name)
    library._shared_module = llvmlite.binding.parse_bitcode(code if kind == "bitcode" else code[1])
    library._finalized = True
    return compile_result(
        target_context=context,
        typing_context=context.typing_context,
        library=library,
        environment=environment,
        fndesc=fndesc,
        signature=signature,
        objectmode=False,
        lifted=(),
        reload_init=reload_init,
        referenced_envs=environments,
    )


def set_environments(kernel: Any) -> None:
    """Set the environments of the callees of a compiled kernel, as numba does for a loaded kernel."""
    for environment in kernel._find_referenced_environments():
        code_of(kernel).codegen.set_env(environment.env_name, environment)
