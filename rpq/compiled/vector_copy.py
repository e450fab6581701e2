"""Copies of sixteen bytes at once; the next copy overwrites superfluous bytes."""

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

VECTOR = 16
"""The number of bytes per copy; in both arrays, at least as many bytes must follow the last one to copy."""


@intrinsic
def _vector_copy(typingctx, target, at, source, start):
    """Copy one vector of bytes."""

    def codegen(context, builder, signature, args):
        to, origin = (context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 2))
        vector = ir.VectorType(ir.IntType(8), VECTOR).as_pointer()
        slot = builder.load(builder.bitcast(builder.gep(origin, [args[3]]), vector))
        slot.align = 1
        builder.store(slot, builder.bitcast(builder.gep(to, [args[1]]), vector)).align = 1
        return context.get_dummy_value()

    return types.void(target, types.uint64, source, types.uint64), codegen


def _python_copy(target, at, source, start):
    # In plain Python with numpy 1, places computed from signed and unsigned integers are floats.
    at, start = int(at), int(start)
    target[at : at + VECTOR] = source[start : start + VECTOR]


copy_vector = _python_copy if config.DISABLE_JIT else _vector_copy
