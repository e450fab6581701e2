"""Operations on eight neighbouring words of bits as single vector instructions, like those on cells in `lanes.py`.

They take pointers, the form of arrays of uint64 in a view (`views.py`), and the places of the first words. numba does not
vectorise them by itself, since it cannot know that the arrays do not overlap. Each has a plain Python version for
`NUMBA_DISABLE_JIT=1`.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

WORDS = 8
_I64 = ir.IntType(64)
_VECTOR = ir.VectorType(_I64, WORDS)


def _load(builder, array, place):
    vector = builder.load(builder.bitcast(builder.gep(array, [place]), _VECTOR.as_pointer()))
    vector.align = 8
    return vector


def _store(builder, vector, array, place):
    builder.store(vector, builder.bitcast(builder.gep(array, [place]), _VECTOR.as_pointer())).align = 8


def _is_words(*arrays):
    return all(isinstance(a, types.CPointer) and a.dtype == types.uint64 for a in arrays)


@intrinsic
def _lacking(typingctx, offered, source, present, target, new, place):
    """Set new[place...] = offered[source...] & ~present[target...]; return whether a bit is set."""
    if not _is_words(offered, present, new):
        return None

    def codegen(context, builder, signature, args):
        bits = _load(builder, args[0], args[1])
        lacking = builder.and_(bits, builder.not_(_load(builder, args[2], args[3])))
        _store(builder, lacking, args[4], args[5])
        some = builder.icmp_unsigned("!=", lacking, ir.Constant(_VECTOR, [0] * WORDS))
        return builder.zext(builder.bitcast(some, ir.IntType(WORDS)), _I64)

    return types.int64(offered, types.int64, present, types.int64, new, types.int64), codegen


@intrinsic
def _join(typingctx, rows, target, other, source):
    """Set rows[target...] |= other[source...]."""
    if not _is_words(rows, other):
        return None

    def codegen(context, builder, signature, args):
        joined = builder.or_(_load(builder, args[0], args[1]), _load(builder, args[2], args[3]))
        _store(builder, joined, args[0], args[1])
        return context.get_dummy_value()

    return types.void(rows, types.int64, other, types.int64), codegen


def _python_lacking(offered, source, present, target, new, place):
    lacking = offered[source : source + WORDS] & ~present[target : target + WORDS]
    new[place : place + WORDS] = lacking
    return np.int64(lacking.any())


def _python_join(rows, target, other, source):
    rows[target : target + WORDS] |= other[source : source + WORDS]


if config.DISABLE_JIT:
    lacking = _python_lacking
    join = _python_join
else:
    lacking = _lacking
    join = _join
