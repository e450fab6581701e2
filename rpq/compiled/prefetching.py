"""Prefetching of memory."""

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def _prefetch_at(typingctx, values, place):
    """Prefetch the cache line of one entry of an array; changes nothing."""

    def codegen(context, builder, signature, args):
        byte_pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag]), "llvm.prefetch.p0"
        )
        address = builder.bitcast(builder.gep(args[0], [args[1]]), byte_pointer)
        builder.call(function, [address, ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)])
        return context.get_dummy_value()

    return types.void(values, types.int64), codegen


def _nothing(values, place):
    pass


prefetch_at = _nothing if config.DISABLE_JIT else _prefetch_at
