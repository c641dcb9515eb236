"""Lanes: eight numbers side by side as one value of compiled code, one from each of as many problems.

LLVM has such values for every processor, and holds them in the widest registers there are. Nothing passes
from one lane to another, so what a lane computes does not depend on its neighbors. Each operation is
that of float64, rounded; only `plus_product` may round once instead of twice, where the processor can.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, lower_cast, register_model

LANES = 8

_FLOATS, _WHOLE = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.IntType(64), LANES)
_TRUTHS = ir.VectorType(ir.IntType(1), LANES)


class Lanes(types.Type):  # type: ignore[misc, unused-ignore]
    """Eight floats, or as many truths."""

    def __init__(self, name: str, vector: Any) -> None:
        super().__init__(name=name)
        self.vector = vector

    def can_convert_from(self, context: Any, other: Any) -> Any:
        """Convert one number to one in every lane."""
        from numba.core.typeconv import Conversion

        return Conversion.safe if self.vector is _FLOATS and other == types.float64 else None


FLOATS, TRUTHS = Lanes("Lanes(float64)", _FLOATS), Lanes("Lanes(bool)", _TRUTHS)


@register_model(Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc, unused-ignore]
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, kind.vector)


@lower_cast(types.float64, FLOATS)
def _spread(context: Any, builder: Any, kind: Any, to: Any, value: Any) -> Any:
    first = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(_FLOATS, ir.Undefined), zeros)


def _operator(function: Callable[..., Any], kind: Lanes, result: Lanes, make: Callable[..., Any]) -> None:
    """Teach compiled code an operator between lanes, or lanes and one number."""

    @infer_global(function)
    class _Typing(AbstractTemplate):  # type: ignore[misc, unused-ignore]
        def generic(self, args: Any, kws: Any) -> Any:
            allowed = (kind, types.float64) if kind is FLOATS else (kind,)
            if any(argument is kind for argument in args) and all(argument in allowed for argument in args):
                return result(*[kind] * len(args))
            return None

    arity = 1 if function is operator.neg else 2

    @lower_builtin(function, *[kind] * arity)
    def _lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return make(builder, *args)


_operator(operator.add, FLOATS, FLOATS, lambda builder, a, b: builder.fadd(a, b))
_operator(operator.sub, FLOATS, FLOATS, lambda builder, a, b: builder.fsub(a, b))
_operator(operator.mul, FLOATS, FLOATS, lambda builder, a, b: builder.fmul(a, b))
_operator(operator.truediv, FLOATS, FLOATS, lambda builder, a, b: builder.fdiv(a, b))
_operator(operator.neg, FLOATS, FLOATS, lambda builder, a: builder.fneg(a))
_operator(operator.lt, FLOATS, TRUTHS, lambda builder, a, b: builder.fcmp_ordered("<", a, b))
_operator(operator.gt, FLOATS, TRUTHS, lambda builder, a, b: builder.fcmp_ordered(">", a, b))
_operator(operator.le, FLOATS, TRUTHS, lambda builder, a, b: builder.fcmp_ordered("<=", a, b))
_operator(operator.eq, FLOATS, TRUTHS, lambda builder, a, b: builder.fcmp_ordered("==", a, b))
_operator(operator.ne, FLOATS, TRUTHS, lambda builder, a, b: builder.fcmp_unordered("!=", a, b))
_operator(operator.or_, TRUTHS, TRUTHS, lambda builder, a, b: builder.or_(a, b))
_operator(operator.and_, TRUTHS, TRUTHS, lambda builder, a, b: builder.and_(a, b))


def _place(context: Any, builder: Any, array: Any, kind: Any, place: Any, place_kind: Any) -> Any:
    """Where the lanes of a place begin, in an array whose last axis holds them."""
    data = context.make_array(kind)(context, builder, array).data
    index = context.cast(builder, place, place_kind, types.intp)
    first = builder.gep(data, [builder.mul(index, ir.Constant(index.type, LANES))])
    return builder.bitcast(first, _FLOATS.as_pointer())


@intrinsic
def load(typing: Any, array: Any, place: Any) -> Any:
    """Return the lanes at a place of an array (..., LANES) whose other axes are counted as one."""

    def make(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(_place(context, builder, values[0], array, values[1], place), align=8)

    return FLOATS(array, place), make


@intrinsic
def store(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """Write the lanes at such a place; one number goes into all of them."""

    def make(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store(values[2], _place(context, builder, values[0], array, values[1], place), align=8)
        return context.get_dummy_value()

    return types.void(array, place, FLOATS), make


@intrinsic
def spread(typing: Any, number: Any) -> Any:
    """Return one number in every lane."""
    return FLOATS(FLOATS), lambda context, builder, signature, values: values[0]


@intrinsic
def where(typing: Any, truths: Any, yes: Any, no: Any) -> Any:
    """Return the one or the other, lane by lane."""
    return FLOATS(TRUTHS, FLOATS, FLOATS), lambda context, builder, signature, values: builder.select(*values)


@intrinsic
def any_lane(typing: Any, truths: Any) -> Any:
    """Return whether some lane is true."""

    def make(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        bits = builder.bitcast(values[0], ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(TRUTHS), make


@intrinsic
def plus_product(typing: Any, total: Any, a: Any, b: Any) -> Any:
    """Return total + a b, rounded once where the processor can."""

    def make(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        product = builder.fmul(values[1], values[2], flags=("contract",))
        return builder.fadd(values[0], product, flags=("contract",))

    return FLOATS(FLOATS, FLOATS, FLOATS), make


def _by_lane(name: str) -> Callable[..., Any]:
    """Return a maker of calls of one of LLVM's functions of one float."""

    def make(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(_FLOATS, [_FLOATS])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64")
        return builder.call(function, values)

    return make


@intrinsic
def roots(typing: Any, x: Any) -> Any:
    """Square roots."""
    return FLOATS(FLOATS), _by_lane("sqrt")


@intrinsic
def absolute(typing: Any, x: Any) -> Any:
    """Without signs."""
    return FLOATS(FLOATS), _by_lane("fabs")


@intrinsic
def power_of_two(typing: Any, shifted: Any) -> Any:
    """2^k where k + 1.5 2^52 is given, for whole k from -1022 to 1023: k is in the last bits of that."""

    def make(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def each(number: int) -> Any:
            return ir.Constant(_WHOLE, [number] * LANES)

        biased = builder.add(builder.bitcast(values[0], _WHOLE), each(1023))
        return builder.bitcast(builder.shl(biased, each(52)), _FLOATS)

    return FLOATS(FLOATS), make
