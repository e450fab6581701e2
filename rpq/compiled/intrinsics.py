"""Instructions that numba does not expose; each has a plain Python version for `NUMBA_DISABLE_JIT=1`."""

import time

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

wraps_around = np.errstate(over="ignore") if config.DISABLE_JIT else lambda function: function
"""Decorates a hash function, whose products overflow on purpose; numpy would emit a warning."""
VECTOR = 16
"""The number of bytes that `copy_vector` copies; in both arrays, at least as many must follow the last one to copy. The next
copy overwrites superfluous bytes."""


@intrinsic
def _trailing_zeros(typingctx, word):
    """Return the position of the lowest set bit of a nonzero word."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], cgutils.true_bit)

    return types.int64(types.uint64), codegen


@intrinsic
def _population(typingctx, word):
    """Return the number of set bits of a word."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic
def _cycles(typingctx):
    """Return the processor's cycle counter, or 0 if there is none."""

    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.IntType(64), []), "llvm.readcyclecounter"
        )
        return builder.call(function, [])

    return types.int64(), codegen


def _load(context, builder, signature, args, width):
    data, at = args
    kind = signature.args[0]
    first = context.make_array(kind)(context, builder, data).data if isinstance(kind, types.Buffer) else data
    address = builder.bitcast(builder.gep(first, [at]), ir.IntType(width).as_pointer())
    return builder.zext(builder.load(address, align=1), ir.IntType(64))


@intrinsic
def _word_at(typingctx, values, place):
    """Return eight bytes of a byte array, from `place` on, as a number."""

    def codegen(context, builder, signature, args):
        return _load(context, builder, signature, args, 64)

    return types.uint64(values, types.int64), codegen


@intrinsic
def _half_word_at(typingctx, values, place):
    """Return four bytes of a byte array, from `place` on, as a number."""

    def codegen(context, builder, signature, args):
        return _load(context, builder, signature, args, 32)

    return types.uint64(values, types.int64), codegen


@intrinsic
def _copy_vector(typingctx, target, at, source, start):
    """Copy `VECTOR` bytes from `start` in one byte array to `at` in another."""

    def codegen(context, builder, signature, args):
        to, origin = (context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 2))
        vector = ir.VectorType(ir.IntType(8), VECTOR).as_pointer()
        slot = builder.load(builder.bitcast(builder.gep(origin, [args[3]]), vector))
        slot.align = 1
        builder.store(slot, builder.bitcast(builder.gep(to, [args[1]]), vector)).align = 1
        return context.get_dummy_value()

    return types.void(target, types.uint64, source, types.uint64), codegen


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


def _python_word_at(values, place):
    return np.uint64(int.from_bytes(bytes(values[place : place + 8]), "little"))


def _python_half_word_at(values, place):
    return np.uint64(int.from_bytes(bytes(values[place : place + 4]), "little"))


def _python_trailing_zeros(word):
    word = int(word)
    return (word & -word).bit_length() - 1


def _python_population(word):
    return int(word).bit_count()


def _python_copy_vector(target, at, source, start):
    # In plain Python with numpy 1, places computed from signed and unsigned integers are floats.
    at, start = int(at), int(start)
    target[at : at + VECTOR] = source[start : start + VECTOR]


def _python_prefetch_at(values, place):
    pass


if config.DISABLE_JIT:
    trailing_zeros = _python_trailing_zeros
    population = _python_population
    cycles = time.perf_counter_ns
    word_at = _python_word_at
    half_word_at = _python_half_word_at
    copy_vector = _python_copy_vector
    prefetch_at = _python_prefetch_at
else:
    trailing_zeros = _trailing_zeros
    population = _population
    cycles = _cycles
    word_at = _word_at
    half_word_at = _half_word_at
    copy_vector = _copy_vector
    prefetch_at = _prefetch_at
