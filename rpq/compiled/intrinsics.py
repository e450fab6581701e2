"""Single instructions that numba has no name for; each has a twin in plain Python for `NUMBA_DISABLE_JIT=1`."""

import time

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

wraps_around = np.errstate(over="ignore") if config.DISABLE_JIT else lambda function: function
"""Decorates a hash function, whose products are meant to overflow; numpy would warn."""


@intrinsic
def _trailing_zeros(typingctx, word):
    """The number of the lowest set bit of a word that is not zero."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], cgutils.true_bit)

    return types.int64(types.uint64), codegen


@intrinsic
def _population(typingctx, word):
    """The number of set bits."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic
def _cycles(typingctx):
    """The processor's cycle counter (0 where it has none)."""

    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(64), []), "llvm.readcyclecounter"
        )
        return builder.call(function, [])

    return types.int64(), codegen


def _python_trailing_zeros(word):
    word = int(word)
    return (word & -word).bit_length() - 1


def _python_population(word):
    return int(word).bit_count()


if config.DISABLE_JIT:
    trailing_zeros = _python_trailing_zeros
    population = _python_population
    cycles = time.perf_counter_ns
else:
    trailing_zeros = _trailing_zeros
    population = _population
    cycles = _cycles
