"""Groups of arrays as a single pointer argument of kernels.

A kernel works on some eighty arrays. As arguments they would be unpacked at every call from Python, reference-counted at
every call between kernels, and copied through every function that LLVM compiles. A `View` of a NamedTuple of arrays
(and of nested NamedTuples) is the address of a table of their addresses: one pointer, which costs nothing to pass on.
A kernel uses a view like the NamedTuple: `index.table.low` is a pointer, which is indexed like the array, without
wraparound, bounds or length. The table does not change during a call, so loads from it are marked invariant.

The view keeps the arrays alive; create a new view after replacing an array. With `NUMBA_DISABLE_JIT=1` the view of a
NamedTuple is the NamedTuple.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, typeof, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)


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
        self.type = _type_of(arrays)
        self.addresses = np.array(_addresses(arrays), np.int64)
        self.pointer = self.addresses.__array_interface__["data"][0]


def view(arrays: Any) -> Any:
    """Return the argument for a kernel for a NamedTuple of arrays."""
    return arrays if config.DISABLE_JIT else View(arrays)


def bound(kernel: Any, *arguments: Any) -> Any:
    """Return a kernel compiled for the types of these arguments, to be called with arguments of exactly the same types.

    A dispatcher determines the type of each argument at every call. For a view, this takes two microseconds: more than
    a kernel needs for a tuple. A plain function, as every kernel is with `NUMBA_DISABLE_JIT=1`, is returned unchanged.
    """
    compile_for = getattr(kernel, "compile", None)
    return kernel if compile_for is None else compile_for(tuple(typeof(argument) for argument in arguments))


_TYPES: dict[tuple[Any, ...], ViewType] = {}


def _type_of(arrays: Any) -> ViewType:
    key = (type(arrays), *(_type_of(a) if isinstance(a, tuple) else a.dtype.char for a in arrays))
    if key not in _TYPES:
        kinds = (
            kind if isinstance(kind, ViewType) else types.CPointer(types.Array(_scalar(a), 1, "C").dtype)
            for kind, a in zip(key[1:], arrays, strict=True)
        )
        _TYPES[key] = ViewType(type(arrays).__name__, tuple(zip(type(arrays)._fields, kinds, strict=True)))
    return _TYPES[key]


def _scalar(array: np.ndarray) -> types.Type:
    from numba import from_dtype

    return from_dtype(array.dtype)


def _addresses(arrays: Any) -> list[int]:
    all_addresses: list[int] = []
    for array in arrays:
        if isinstance(array, tuple):
            all_addresses += _addresses(array)
        else:
            if not array.flags.c_contiguous:
                raise ValueError("a view requires contiguous arrays")
            all_addresses.append(array.__array_interface__["data"][0])
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
