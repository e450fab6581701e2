"""Groups of arrays and records as a single pointer argument of kernels.

A kernel works on some eighty arrays. As arguments they would be unpacked at every call from Python, reference-counted at
every call between kernels, and copied through every function that LLVM compiles. A `View` of a NamedTuple of arrays
(and of nested NamedTuples) is the address of a table of their addresses: one pointer, which costs nothing to pass on.
A kernel uses a view like the NamedTuple: `index.table.low` is a pointer, which is indexed like the array, without
wraparound, bounds or length. The table does not change during a call, so loads from it are marked invariant.

Numbers that belong together in memory are a `Record`: a structure of named numbers. `Edge.zeros(n)` is an array of records,
whose elements are read and written by name, `graph.edge[i].source`; a single record can be a field of the NamedTuple too,
`graph.state.edges`. In a kernel a record is a reference: `edge = graph.edge[i]` copies nothing, and may be passed on. A
number is read as an int64, however narrow it is; a field that is a short array is a pointer, `edge.place[side]`.

The view keeps the arrays alive; create a new view after replacing an array. With `NUMBA_DISABLE_JIT=1` the view of a
NamedTuple is a NamedTuple of the same arrays, in which arrays of records are arrays of ctypes over the same memory.
"""

from __future__ import annotations

import ctypes
import operator
from array import array as c_array
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, typeof, types
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from rpq.compiled.growth import request

int32 = ctypes.c_int32
int64 = ctypes.c_int64
float64 = ctypes.c_double

_DTYPES: dict[type[Record], np.dtype] = {}
_RECORDS: dict[np.dtype, type[Record]] = {}


class Record(ctypes.Structure):
    """A structure of numbers, or one element of an array of these.

    A subclass lists its `_fields_`: pairs of a name and `int32`, `int64`, or a short array of these (`int32 * 2`) or of
    `float64`.
    """

    @classmethod
    def dtype(cls) -> np.dtype:
        """Return the type of the elements of an array of records."""
        if cls not in _DTYPES:
            _DTYPES[cls] = np.dtype(cls)
            _RECORDS[_DTYPES[cls]] = cls
        return _DTYPES[cls]

    @classmethod
    def zeros(cls, count: int) -> np.ndarray:
        """Return an array of records in which all numbers are 0."""
        return np.zeros(count, cls.dtype())

    @classmethod
    def array(cls, records: Sequence[Record]) -> np.ndarray:
        """Return an array of copies of records of this class."""
        found = cls.zeros(len(records))
        found.view(np.uint8)[:] = bytearray(b"".join(map(bytes, records)))
        return found

    @property
    def nbytes(self) -> int:
        """The number of bytes held."""
        return ctypes.sizeof(self)


def lengthen(array: np.ndarray, length: int) -> np.ndarray:
    """Return an array of `length` elements: those of a contiguous `array`, and zeros. O(length).

    NumPy copies records field by field, which takes thirty times as long as copying their bytes.
    """
    request(length * array.itemsize)
    longer = np.zeros(length, array.dtype)
    longer.view(np.uint8)[: array.nbytes] = array.view(np.uint8)
    return longer


class RecordType(types.Type):
    """The type of a reference to a record; records of equal layouts have one type."""

    def __init__(self, dtype: np.dtype) -> None:
        self.layout = dtype
        super().__init__(name=f"record{crc32(repr(dtype).encode()):08x}")

    def field(self, name: str) -> tuple[int, types.Type]:
        """Return the offset of a field in bytes and its type in memory, which is a pointer for a short array."""
        fields = self.layout.fields
        if fields is None or name not in fields:
            raise AttributeError(name)
        dtype, offset = fields[name][:2]
        return offset, from_dtype(dtype) if dtype.subdtype is None else types.CPointer(from_dtype(dtype.subdtype[0]))


class RecordsType(types.Type):
    """The type of a pointer to the first record of an array."""

    def __init__(self, record: RecordType) -> None:
        self.record = record
        super().__init__(name=f"{record.name}s")


class ViewType(types.Type):
    """The type of a view: names and types of the fields, in the order of the table of addresses."""

    def __init__(self, record: str, fields: tuple[tuple[str, types.Type], ...]) -> None:
        self.fields = fields
        element_types = ",".join(str(getattr(kind, "dtype", kind.name)) for _, kind in fields)
        super().__init__(name=f"{record}({element_types})")

    @property
    def width(self) -> int:
        """The number of table entries of the view."""
        return sum(kind.width if isinstance(kind, ViewType) else 1 for _, kind in self.fields)

    def field(self, name: str) -> tuple[int, types.Type]:
        """Return the place of a field in the table and its type."""
        place = 0
        for field_name, kind in self.fields:
            if field_name == name:
                return place, kind
            place += kind.width if isinstance(kind, ViewType) else 1
        raise AttributeError(name)


class View:
    """The argument that Python passes to a kernel for a NamedTuple of arrays."""

    __slots__ = ("addresses", "arrays", "pointer", "type")

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays
        try:  # of arrays of numbers that are neither empty nor read-only, as those of a chunk
            self.type = _TYPES_OF_NUMBERS[type(arrays), *[array.dtype for array in arrays]]
            self.addresses = c_array("q", [_start_of(_byte_of(array)) for array in arrays])
        except (KeyError, AttributeError, TypeError, ValueError):
            self.type = _type_of(arrays)
            self.addresses = c_array("q", _addresses(arrays))
        self.pointer = self.addresses.buffer_info()[0]

    @classmethod
    def at(cls, kind: ViewType, addresses: Sequence[int], owner: Any) -> View:
        """Return a view of a known type of arrays at these addresses, which `owner` keeps alive."""
        made = cls.__new__(cls)
        made.arrays, made.type, made.addresses = owner, kind, c_array("q", addresses)
        made.pointer = made.addresses.buffer_info()[0]
        return made


def view(arrays: Any) -> Any:
    """Return the argument for a kernel for a NamedTuple of arrays and records."""
    return _as_python(arrays) if config.DISABLE_JIT else View(arrays)


def _as_python(arrays: Any) -> Any:
    """Return a NamedTuple of arrays that plain Python uses as a kernel uses its view."""
    if isinstance(arrays, tuple):
        return type(arrays)(*map(_as_python, arrays))
    if isinstance(arrays, np.ndarray) and arrays.dtype.names:
        return (_RECORDS[arrays.dtype] * len(arrays)).from_buffer(arrays.data)
    return arrays


def bound(kernel: Any, *arguments: Any) -> Any:
    """Return a kernel compiled for the types of these arguments, to be called with arguments of exactly the same types.

    A dispatcher determines the type of each argument at every call. For a view, this takes two microseconds: more than
    a kernel needs for a tuple. A plain function, as every kernel is with `NUMBA_DISABLE_JIT=1`, is returned unchanged.
    """
    compile_for = getattr(kernel, "compile", None)
    return kernel if compile_for is None else compile_for(tuple(typeof(argument) for argument in arguments))


_TYPES: dict[tuple[Any, ...], ViewType] = {}
_TYPES_OF_NUMBERS: dict[tuple[Any, ...], ViewType] = {}
"""The types of views of arrays of numbers alone, by the class of the NamedTuple and the types of elements."""

_byte_of = ctypes.c_char.from_buffer
_start_of = ctypes.addressof
_NOTHING = ctypes.c_int64()
"""In the place of an empty array, none of whose elements is read: finding the address of one takes five microseconds."""


def _type_of(arrays: Any) -> ViewType:
    key = (type(arrays), *map(_key_of, arrays))
    if key not in _TYPES:
        kinds = map(_kind_of, key[1:])
        _TYPES[key] = ViewType(type(arrays).__name__, tuple(zip(type(arrays)._fields, kinds, strict=True)))
        if all(isinstance(one, str) for one in key[1:]):
            _TYPES_OF_NUMBERS[type(arrays), *[array.dtype for array in arrays]] = _TYPES[key]
    return _TYPES[key]


def _key_of(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        dtype = array.dtype
        return dtype if dtype.char == "V" else dtype.char
    return _type_of(array) if isinstance(array, tuple) else type(array)


def _kind_of(key: Any) -> types.Type:
    """Return the type of the field of a view."""
    if isinstance(key, ViewType):
        return key
    if isinstance(key, str):
        return types.CPointer(from_dtype(np.dtype(key)))
    return RecordsType(RecordType(key)) if isinstance(key, np.dtype) else RecordType(key.dtype())


def _addresses(arrays: Any) -> list[int]:
    all_addresses: list[int] = []
    for array in arrays:
        if isinstance(array, tuple):
            all_addresses += _addresses(array)
        elif isinstance(array, Record):
            all_addresses.append(_start_of(array))
        else:
            if not array.flags.c_contiguous:
                raise ValueError("a view requires contiguous arrays")
            if not array.size:
                all_addresses.append(_start_of(_NOTHING))
            elif array.flags.writeable:
                # A sixth of the time of `array.ctypes`, and a third for records.
                items = array.data.cast("B") if array.dtype.char == "V" else array
                all_addresses.append(_start_of(_byte_of(items)))
            else:
                # Not `__array_interface__`, which describes every field of a record each time: twenty microseconds.
                all_addresses.append(array.ctypes.data)
    return all_addresses


@typeof_impl.register(View)
def _typeof_view(value, context):
    return value.type


@register_model(ViewType)
class _ViewModel(models.PrimitiveModel):
    def __init__(self, manager, view_type):
        super().__init__(manager, view_type, ir.IntType(64).as_pointer())


@unbox(ViewType)
def _unbox_view(view_type, value, c):
    number = c.pyapi.object_getattr_string(value, "pointer")
    # A borrowed address: the view, an argument of the call, keeps the table alive.
    address = c.pyapi.long_as_ulonglong(number)
    c.pyapi.decref(number)
    return NativeValue(c.builder.inttoptr(address, ir.IntType(64).as_pointer()), is_error=c.pyapi.c_api_error())


@infer_getattr
class _ViewAttributes(AttributeTemplate):
    key = ViewType

    def generic_resolve(self, view_type, name):
        try:
            return view_type.field(name)[1]
        except AttributeError:
            return None


@lower_getattr_generic(ViewType)
def _lower_attribute(context, builder, view_type, value, name):
    place, kind = view_type.field(name)
    entry = builder.gep(value, [ir.Constant(ir.IntType(64), place)])
    if isinstance(kind, ViewType):
        return entry
    address = builder.load(entry)
    address.set_metadata("invariant.load", builder.module.add_metadata([]))
    return builder.inttoptr(address, context.get_value_type(kind))


@register_model(RecordType)
class _RecordModel(models.PrimitiveModel):
    def __init__(self, manager, record_type):
        super().__init__(manager, record_type, _bytes_of(record_type))


@register_model(RecordsType)
class _RecordsModel(models.PrimitiveModel):
    def __init__(self, manager, records_type):
        super().__init__(manager, records_type, _bytes_of(records_type.record))


def _bytes_of(record_type):
    return ir.ArrayType(ir.IntType(8), record_type.layout.itemsize).as_pointer()


@infer_global(operator.getitem)
class _RecordAt(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 2 and isinstance(args[0], RecordsType) and isinstance(args[1], types.Integer):
            return signature(args[0].record, args[0], types.int64)
        return None


@lower_builtin(operator.getitem, RecordsType, types.Integer)
def _lower_record_at(context, builder, sig, args):
    return builder.gep(args[0], [args[1]])


@infer_getattr
class _RecordAttributes(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, record_type, name):
        try:
            kind = record_type.field(name)[1]
        except AttributeError:
            return None
        return kind if isinstance(kind, types.CPointer) else types.int64


def _address_of(context, builder, record_type, record, name):
    """Return the address of a field of a record, and whether it is a short array."""
    offset, kind = record_type.field(name)
    address = builder.gep(record, [ir.Constant(ir.IntType(64), 0), ir.Constant(ir.IntType(64), offset)])
    is_array = isinstance(kind, types.CPointer)
    number = context.get_data_type(kind.dtype if is_array else kind)
    return builder.bitcast(address, number.as_pointer()), is_array


@lower_getattr_generic(RecordType)
def _lower_field(context, builder, record_type, record, name):
    address, is_array = _address_of(context, builder, record_type, record, name)
    return address if is_array else builder.sext(builder.load(address), ir.IntType(64))


@lower_setattr_generic(RecordType)
def _lower_set_field(context, builder, sig, args, name):
    address, _ = _address_of(context, builder, sig.args[0], args[0], name)
    builder.store(builder.trunc(args[1], address.type.pointee), address)
