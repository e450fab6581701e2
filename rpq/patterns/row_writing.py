"""Rows are written a vector at a time.

The rows that one list of the last variable gives differ in one column only. So a row is one load of an entry, one blend into
the values that are bound, and one store of a whole vector, eight or sixteen columns wide: what it writes behind
the row is overwritten by the next one. Wider rows are written column by column.
"""

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from rpq.compiled.kernel_cache import njit

WIDEST = 16
"""Columns that a vector holds; the arrays that rows are read from and written to have so much room behind their end."""
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _vector_rows(lanes):
    @intrinsic
    def write(typingctx, values, at, binding, columns, slot, lists, first, count):
        """Write `count` rows: the binding, with the neighbour of an entry in one slot."""

        def codegen(context, builder, signature, args):
            values, at, binding, columns, slot, lists, first, count = args
            vector = ir.VectorType(_I32, lanes)
            undefined = ir.Constant(vector, ir.Undefined)
            zero = ir.Constant(_I32, 0)
            everywhere = ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes)

            def splat(scalar):
                return builder.shuffle_vector(builder.insert_element(undefined, scalar, zero), undefined, everywhere)

            bound = builder.load(builder.bitcast(binding, vector.as_pointer()))
            bound.align = 4
            numbers = ir.Constant(vector, list(range(lanes)))
            varies = builder.icmp_signed("==", numbers, splat(builder.trunc(slot, _I32)))
            with cgutils.for_range(builder, count) as loop:
                entry = builder.load(builder.gep(lists, [builder.add(first, loop.index)]))
                neighbour = builder.trunc(builder.lshr(entry, ir.Constant(_I64, 32)), _I32)
                row = builder.select(varies, splat(neighbour), bound)
                place = builder.gep(values, [builder.add(at, builder.mul(loop.index, columns))])
                builder.store(row, builder.bitcast(place, vector.as_pointer())).align = 4
            return context.get_dummy_value()

        i64 = types.int64
        return types.void(values, i64, binding, i64, i64, lists, i64, i64), codegen

    return write


_write_8 = _vector_rows(8)
_write_16 = _vector_rows(16)


@njit(cache=True, nogil=True, forceinline=True)
def _write_any(values, at, binding, columns, slot, lists, first, count):
    for i in range(count):
        for column in range(columns):
            values[at + column] = binding[column]
        if slot < columns:
            values[at + slot] = lists[first + i] >> 32
        at += columns


if config.DISABLE_JIT:
    write_rows = _write_any
else:

    @njit(cache=True, nogil=True, forceinline=True)
    def write_rows(values, at, binding, columns, slot, lists, first, count):
        """Write a row for each of `count` entries, with its neighbour in `slot`."""
        if columns <= 8:
            _write_8(values, at, binding, columns, slot, lists, first, count)
        elif columns <= WIDEST:
            _write_16(values, at, binding, columns, slot, lists, first, count)
        else:
            _write_any(values, at, binding, columns, slot, lists, first, count)


@njit(cache=True, nogil=True, forceinline=True)
def write_row(values, at, binding, columns):
    """Write the values that are bound."""
    for column in range(columns):
        values[at + column] = binding[column]
