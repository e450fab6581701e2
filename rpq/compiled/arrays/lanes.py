"""Operations on a block of 64 cells, one root per cell, as single vector instructions.

A block is 64 neighbouring entries of a flat array of cells (`values`, any integer type), identified by its
number: block `p` is `values[64 * p : 64 * p + 64]`. A cell contains the expiry slide up to which a root
reaches a product node, relative to a moving base; a cell at or below `now` is dead, which is equivalent to
absent. The array `hops` (uint8, the same shape) contains the hop counts that make supports well founded.

numba vectorises loops over 64 bytes only if they are written in a suitable form, and cannot convert a comparison
of 64 lanes to a 64-bit mask at all. The operations are therefore written as vector IR in `@intrinsic`s: LLVM lowers
a `<64 x i8>` to one register with AVX-512 and to several elsewhere, and every result is a mask with one bit per
lane. They take pointers, the form of arrays in a view (`views.py`). Each has a plain Python version for
`NUMBA_DISABLE_JIT=1`.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 64
SATURATED = 255
"""The hop count at which counting stops; a cell with this count supports nothing."""

_I8 = ir.IntType(8)
_I64 = ir.IntType(64)
_MASK = ir.VectorType(ir.IntType(1), LANES)


def _splat(builder, scalar, lanes):
    """Return a vector with `scalar` in all lanes."""
    vector_type = ir.VectorType(scalar.type, lanes)
    one = builder.insert_element(ir.Constant(vector_type, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(one, ir.Constant(vector_type, ir.Undefined), zeros)


class _Cells:
    """A pointer argument of an intrinsic, loaded and stored in blocks."""

    def __init__(self, context, builder, pointer_type, array):
        self.builder = builder
        self.element = context.get_data_type(pointer_type.dtype)
        self.bytes = self.element.width // 8
        self.vector_type = ir.VectorType(self.element, LANES)
        self.data = array

    def pointer(self, block):
        offset = self.builder.shl(block, ir.Constant(block.type, 6))
        pointer = self.builder.gep(self.data, [offset])
        return self.builder.bitcast(pointer, self.vector_type.as_pointer())

    def load(self, block):
        vector = self.builder.load(self.pointer(block))
        vector.align = self.bytes
        return vector

    def store(self, vector, block):
        self.builder.store(vector, self.pointer(block)).align = self.bytes

    def splat(self, scalar):
        """Return a 64-bit scalar, truncated to the width of a cell, in all lanes."""
        if self.element.width < 64:
            scalar = self.builder.trunc(scalar, self.element)
        return _splat(self.builder, scalar, LANES)

    def constant(self, number):
        return ir.Constant(self.vector_type, [number] * LANES)

    def reduce(self, operation, vector):
        """Return one cell from all lanes of a vector; `operation` is LLVM's, such as umin."""
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(self.element, [self.vector_type]),
            f"llvm.vector.reduce.{operation}.v{LANES}i{self.element.width}",
        )
        return self.builder.call(function, [vector])


def _mask(builder, vector):
    return builder.bitcast(vector, _I64)


def _is_cells(*arrays):
    return all(isinstance(a, types.CPointer) and isinstance(a.dtype, types.Integer) for a in arrays)


@intrinsic
def _raise_block(typingctx, values, target, source, slide, now):
    """Set values[target] = max(values[target], min(values[source], slide)); return masks of grown and of dead lanes."""
    if not _is_cells(values):
        return None

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        old = cells.load(args[1])
        carried = cells.load(args[2])
        cut = cells.splat(args[3])
        dead = cells.splat(args[4])
        offered = builder.select(builder.icmp_unsigned("<", carried, cut), carried, cut)
        floor = builder.select(builder.icmp_unsigned(">", old, dead), old, dead)
        grew = builder.icmp_unsigned(">", offered, floor)
        grew_mask = _mask(builder, grew)
        any_grew = builder.icmp_unsigned("!=", grew_mask, ir.Constant(_I64, 0))
        with builder.if_then(any_grew):
            cells.store(builder.select(grew, offered, old), args[1])
        was_dead = _mask(builder, builder.icmp_unsigned("<=", old, dead))
        return context.make_tuple(builder, signature.return_type, [grew_mask, builder.and_(was_dead, grew_mask)])

    result = types.UniTuple(types.uint64, 2)
    return result(values, types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def _raise_block_with_hops(typingctx, values, hops, target, source, slide, now):
    """Raise a block like `_raise_block`, and set the hop counts of the lanes that grew."""
    if not _is_cells(values, hops):
        return None

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        counts = _Cells(context, builder, signature.args[1], args[1])
        old = cells.load(args[2])
        carried = cells.load(args[3])
        cut = cells.splat(args[4])
        dead = cells.splat(args[5])
        larger = builder.icmp_unsigned(">", carried, cut)
        offered = builder.select(larger, cut, carried)
        floor = builder.select(builder.icmp_unsigned(">", old, dead), old, dead)
        grew = builder.icmp_unsigned(">", offered, floor)
        grew_mask = _mask(builder, grew)
        any_grew = builder.icmp_unsigned("!=", grew_mask, ir.Constant(_I64, 0))
        with builder.if_then(any_grew):
            cells.store(builder.select(grew, offered, old), args[2])
            carried_hops = counts.load(args[3])
            saturated = builder.icmp_unsigned("==", carried_hops, counts.constant(SATURATED))
            next_hops = builder.select(saturated, carried_hops, builder.add(carried_hops, counts.constant(1)))
            next_hops = builder.select(larger, counts.constant(0), next_hops)
            counts.store(builder.select(grew, next_hops, counts.load(args[2])), args[2])
        was_dead = _mask(builder, builder.icmp_unsigned("<=", old, dead))
        return context.make_tuple(builder, signature.return_type, [grew_mask, builder.and_(was_dead, grew_mask)])

    result = types.UniTuple(types.uint64, 2)
    return result(values, hops, types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def _supported(typingctx, values, hops, target, source, slide):
    """Return the mask of the lanes of `target` that an edge with that slide from `source` supports, including dead lanes."""
    if not _is_cells(values, hops):
        return None

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        counts = _Cells(context, builder, signature.args[1], args[1])
        old = cells.load(args[2])
        carried = cells.load(args[3])
        lasting = builder.icmp_unsigned(">=", cells.splat(args[4]), old)
        larger = builder.icmp_unsigned(">", carried, old)
        fewer = builder.icmp_unsigned("<", counts.load(args[3]), counts.load(args[2]))
        nearer = builder.and_(builder.icmp_unsigned("==", carried, old), fewer)
        return _mask(builder, builder.and_(lasting, builder.or_(larger, nearer)))

    return types.uint64(values, hops, types.int64, types.int64, types.int64), codegen


@intrinsic
def _live(typingctx, values, block, now):
    """Return the mask of the lanes above `now`."""
    if not _is_cells(values):
        return None

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        return _mask(builder, builder.icmp_unsigned(">", cells.load(args[1]), cells.splat(args[2])))

    return types.uint64(values, types.int64, types.int64), codegen


@intrinsic
def _reaching(typingctx, values, target, source, slide, now):
    """Return the mask of the live lanes of `target` whose value an edge with that slide from `source` reaches."""
    if not _is_cells(values):
        return None

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        old = cells.load(args[1])
        alive = builder.icmp_unsigned(">", old, cells.splat(args[4]))
        lasting = builder.icmp_unsigned(">=", cells.splat(args[3]), old)
        fed = builder.icmp_unsigned(">=", cells.load(args[2]), old)
        return _mask(builder, builder.and_(alive, builder.and_(lasting, fed)))

    return types.uint64(values, types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def _lowest(typingctx, values, block, now):
    """Return the smallest cell above `now`, or the largest number of the cell's type if there is none."""
    if not _is_cells(values):
        return None
    unsigned = types.Integer.from_bitwidth(values.dtype.bitwidth, False)

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        old = cells.load(args[1])
        alive = builder.icmp_unsigned(">", old, cells.splat(args[2]))
        candidates = builder.select(alive, old, cells.constant(signature.args[0].dtype.maxval))
        return context.cast(builder, cells.reduce("umin", candidates), unsigned, types.int64)

    return types.int64(values, types.int64, types.int64), codegen


def _behind(builder, weights, carried, weight, zero, lowest):
    """Return the cells behind an edge from those before it, numbers or vectors; `weights` is the type of the weights.

    Cells are `zero` minus an integer that grows with the cost: the number of edges for weights of 8 bits, the cost for
    integers, or the bits of a float. An integer too large for that becomes the `lowest` cell.
    """
    if weights.dtype == types.float64:
        cost = builder.bitcast(builder.sub(zero, carried), weight.type)
        return builder.sub(zero, builder.bitcast(builder.fadd(cost, weight), carried.type))
    if weights.dtype == types.int8:
        return builder.sub(carried, weight)
    fits = builder.icmp_unsigned(">", carried, builder.add(lowest, weight))
    return builder.select(fits, builder.sub(carried, weight), lowest)


def _weight(builder, weights, pointer, edge, element):
    """Return the weight of an edge: 1 of the type of cells for a length."""
    if weights.dtype == types.int8:
        return ir.Constant(element, 1)
    return builder.load(builder.gep(pointer, [edge]))


@intrinsic
def _cell_behind(typingctx, weights, edge, cell, zero, lowest):
    """Return the cell behind an edge from the cell before it (`_behind`)."""
    if not isinstance(weights, types.CPointer):
        return None

    def codegen(context, builder, signature, args):
        weight = _weight(builder, signature.args[0], args[0], args[1], _I64)
        return _behind(builder, signature.args[0], args[2], weight, args[3], args[4])

    return types.int64(weights, types.int64, types.int64, types.int64, types.int64), codegen


def _offered(context, builder, signature, args):
    """Return the cells of `target`, those of `source`, and those that an edge offers, with or without a walk before it."""
    weights = signature.args[1]
    cells = _Cells(context, builder, signature.args[0], args[0])
    old, carried = cells.load(args[2]), cells.load(args[3])
    weight = _splat(builder, _weight(builder, weights, args[1], args[4], cells.element), LANES)
    return cells, old, carried, _behind(builder, weights, carried, weight, cells.splat(args[5]), cells.splat(args[6]))


@intrinsic
def _raise_nearer(typingctx, values, weights, target, source, edge, zero, lowest):
    """Raise values[target] to the cells behind an edge from `source` (`_behind`).

    Return masks of the lanes that grew, and of those that a length of the lowest cell alone reaches: they need larger cells.
    """
    if not _is_cells(values):
        return None

    def codegen(context, builder, signature, args):
        cells, old, carried, behind = _offered(context, builder, signature, args)
        is_length = signature.args[1].dtype == types.int8
        last = cells.splat(args[6]) if is_length else cells.constant(0)
        offered = builder.select(builder.icmp_unsigned(">", carried, last), behind, cells.constant(0))
        grew = builder.icmp_unsigned(">", offered, old)
        grew_mask = _mask(builder, grew)
        any_grew = builder.icmp_unsigned("!=", grew_mask, ir.Constant(_I64, 0))
        with builder.if_then(any_grew):
            cells.store(builder.select(grew, offered, old), args[2])
        lacking = ir.Constant(_I64, 0)
        if is_length:
            is_last = builder.icmp_unsigned("==", carried, last)
            is_dead = builder.icmp_unsigned("==", old, cells.constant(0))
            lacking = _mask(builder, builder.and_(is_last, is_dead))
        return context.make_tuple(builder, signature.return_type, [grew_mask, lacking])

    result = types.UniTuple(types.uint64, 2)
    return result(values, weights, *(types.int64,) * 5), codegen


@intrinsic
def _nearer(typingctx, values, weights, target, source, edge, zero, lowest):
    """Return masks of the live lanes of `target` that are behind an edge from `source` (`_behind`): of all, and
    of those that are farther than `source`."""
    if not _is_cells(values):
        return None

    def codegen(context, builder, signature, args):
        cells, old, carried, behind = _offered(context, builder, signature, args)
        zero = cells.constant(0)
        alive = builder.and_(builder.icmp_unsigned("!=", old, zero), builder.icmp_unsigned("!=", carried, zero))
        follows = builder.and_(alive, builder.icmp_unsigned("==", behind, old))
        farther = follows
        if signature.args[1].dtype != types.int8:
            farther = builder.and_(follows, builder.icmp_unsigned(">", carried, old))
        return context.make_tuple(builder, signature.return_type, [_mask(builder, follows), _mask(builder, farther)])

    result = types.UniTuple(types.uint64, 2)
    return result(values, weights, *(types.int64,) * 5), codegen


@intrinsic
def _differing(typingctx, values, others, block):
    """Return the mask of the lanes of a block in which two arrays differ."""
    if not _is_cells(values, others):
        return None

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        other_cells = _Cells(context, builder, signature.args[1], args[1])
        return _mask(builder, builder.icmp_unsigned("!=", cells.load(args[2]), other_cells.load(args[2])))

    return types.uint64(values, others, types.int64), codegen


@intrinsic
def _highest(typingctx, values, block, mask):
    """Return the largest cell of the lanes of `mask`, 0 if there are none."""
    if not _is_cells(values):
        return None
    unsigned = types.Integer.from_bitwidth(values.dtype.bitwidth, False)

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        lanes = builder.bitcast(args[2], _MASK)
        candidates = builder.select(lanes, cells.load(args[1]), cells.constant(0))
        return context.cast(builder, cells.reduce("umax", candidates), unsigned, types.int64)

    return types.int64(values, types.int64, types.uint64), codegen


@intrinsic
def _clear(typingctx, values, block, mask):
    """Set the lanes of `mask` to zero."""
    if not _is_cells(values):
        return None

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        lanes = builder.bitcast(args[2], _MASK)
        cells.store(builder.select(lanes, cells.constant(0), cells.load(args[1])), args[1])
        return context.get_dummy_value()

    return types.void(values, types.int64, types.uint64), codegen


@intrinsic
def _prefetch(typingctx, values, block):
    """Prefetch the first cache line of a block; changes nothing."""
    if not _is_cells(values):
        return None

    def codegen(context, builder, signature, args):
        cells = _Cells(context, builder, signature.args[0], args[0])
        pointer_type = _I8.as_pointer()
        flag = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer_type, flag, flag, flag]), "llvm.prefetch.p0"
        )
        address = builder.bitcast(cells.pointer(args[1]), pointer_type)
        builder.call(function, [address, ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)])
        return context.get_dummy_value()

    return types.void(values, types.int64), codegen


# --- the same operations in plain Python, for NUMBA_DISABLE_JIT=1 ----------------------------------------

def _block(array, number):
    return array[LANES * number : LANES * number + LANES]


def _bits(lanes):
    return np.uint64(int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little"))


def _lanes(mask):
    return np.unpackbits(np.frombuffer(int(mask).to_bytes(8, "little"), np.uint8), bitorder="little").astype(bool)


def _python_raise_block(values, target, source, slide, now):
    old = _block(values, target)
    offered = np.minimum(_block(values, source), values.dtype.type(slide))
    grew = offered > np.maximum(old, values.dtype.type(now))
    fresh = grew & (old <= now)
    old[grew] = offered[grew]
    return _bits(grew), _bits(fresh)


def _python_raise_block_with_hops(values, hops, target, source, slide, now):
    carried = _block(values, source).copy()
    carried_hops = _block(hops, source).astype(np.int64)
    grew, fresh = _python_raise_block(values, target, source, slide, now)
    counted = np.where(carried > slide, 0, np.minimum(carried_hops + 1, SATURATED)).astype(np.uint8)
    lanes = _lanes(grew)
    _block(hops, target)[lanes] = counted[lanes]
    return grew, fresh


def _python_supported(values, hops, target, source, slide):
    old, carried = _block(values, target), _block(values, source)
    nearer = (carried == old) & (_block(hops, source) < _block(hops, target))
    return _bits((old <= slide) & ((carried > old) | nearer))


def _python_live(values, block, now):
    return _bits(_block(values, block) > now)


def _python_reaching(values, target, source, slide, now):
    old = _block(values, target)
    return _bits((old > now) & (old <= slide) & (_block(values, source) >= old))


def _python_lowest(values, block, now):
    old = _block(values, block)
    return np.int64(np.min(old, where=old > now, initial=np.iinfo(values.dtype).max))


def _python_behind(weights, edge, carried, zero, lowest):
    if weights.dtype == np.float64:
        return zero - ((zero - carried).view(np.float64) + weights[edge]).view(np.int64)
    if weights.dtype == np.int8:
        return carried - 1
    return np.where(carried - lowest > weights[edge], carried - weights[edge], lowest)


def _python_cell_behind(weights, edge, cell, zero, lowest):
    return np.int64(_python_behind(weights, edge, np.array([cell]), zero, lowest)[0])


def _python_offered(values, weights, source, edge, zero, lowest):
    carried = _block(values, source).astype(np.int64)
    is_there = carried > (lowest if weights.dtype == np.int8 else 0)
    offered = np.zeros(LANES, np.int64)
    offered[is_there] = _python_behind(weights, edge, carried[is_there], zero, lowest)
    return carried, offered


def _python_raise_nearer(values, weights, target, source, edge, zero, lowest):
    old = _block(values, target)
    carried, offered = _python_offered(values, weights, source, edge, zero, lowest)
    lacking = (weights.dtype == np.int8) & (carried == lowest) & (old == 0)
    grew = offered > old
    old[grew] = offered[grew]
    return _bits(grew), _bits(lacking)


def _python_nearer(values, weights, target, source, edge, zero, lowest):
    old = _block(values, target)
    carried, offered = _python_offered(values, weights, source, edge, zero, lowest)
    follows = (old != 0) & (offered == old)
    return _bits(follows), _bits(follows & (carried > old))


def _python_differing(values, others, block):
    return _bits(_block(values, block) != _block(others, block))


def _python_highest(values, block, mask):
    return np.int64(np.max(_block(values, block), where=_lanes(mask), initial=0))


def _python_clear(values, block, mask):
    _block(values, block)[_lanes(mask)] = 0


def _python_prefetch(values, block):
    pass


if config.DISABLE_JIT:
    raise_block = _python_raise_block
    raise_block_with_hops = _python_raise_block_with_hops
    supported = _python_supported
    live = _python_live
    reaching = _python_reaching
    lowest = _python_lowest
    clear = _python_clear
    cell_behind = _python_cell_behind
    raise_nearer = _python_raise_nearer
    nearer = _python_nearer
    differing = _python_differing
    highest = _python_highest
    prefetch = _python_prefetch
else:
    raise_block = _raise_block
    raise_block_with_hops = _raise_block_with_hops
    supported = _supported
    live = _live
    reaching = _reaching
    lowest = _lowest
    clear = _clear
    cell_behind = _cell_behind
    raise_nearer = _raise_nearer
    nearer = _nearer
    differing = _differing
    highest = _highest
    prefetch = _prefetch
