"""The vector instructions of this processor, and code that uses them to multiply a few rows by a few columns.

Numba compiles Python to LLVM IR, and LLVM tries to vectorise the loops. For matrix multiplication, this reaches only a
tenth of the processor's speed, so the inner loop is generated directly as LLVM IR.
"""

from typing import Any, NamedTuple

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

_CONFIG: Any = numba.config
_INT8, _INT16, _INT32, _INT64, _FLOAT = (ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType())


class Instructions(NamedTuple):
    """The vector instructions and registers of a processor.

    A vector has `lanes` 32-bit numbers, and there are enough registers to multiply `rows` rows by a tile at once.
    `multiply_add_bytes` multiplies unsigned bytes by signed bytes and adds the products in groups of four (VNNI). A
    processor without it uses the two instructions of `add_in_pairs` instead: the first multiplies bytes and adds the
    products in pairs, in 16 bits; the second adds these sums in pairs, in 32 bits. A field is None if the processor
    lacks its instructions.
    """

    lanes: int
    rows: int
    multiply_add_bytes: str | None
    add_in_pairs: tuple[str, str] | None


def instructions_of(features: str) -> Instructions:
    """Chooses the instructions for a processor with LLVM's list of features, for example `+avx2,-avx512f`."""
    has = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    if "avx512f" in has and "avx512bw" in has:
        name = "llvm.x86.avx512.vpdpbusd.512" if "avx512vnni" in has else None
        return Instructions(16, 8, name, ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"))
    if "avx2" in has:
        name = "llvm.x86.avx512.vpdpbusd.256" if "avxvnni" in has else None
        return Instructions(8, 6, name, ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"))
    return Instructions(4, 8, None, None)


INSTRUCTIONS = instructions_of(_CONFIG.CPU_FEATURES or get_host_cpu_features())
LANES, ROWS = INSTRUCTIONS.lanes, INSTRUCTIONS.rows
COLUMNS = 2 * LANES  # number of columns in a tile
CACHE_LINE, AHEAD = 64, 4096  # in bytes


class _Tile:
    """Generates LLVM IR that multiplies rows by one tile of a matrix.

    The elements of the rows and of the matrix are either all floats or all bytes.
    """

    def __init__(self, builder: Any, number: Any) -> None:
        self.builder = builder
        self.is_float = isinstance(number, types.Float)
        self.lane = _FLOAT if self.is_float else _INT32
        self.vector = ir.VectorType(self.lane, LANES)
        self.group = 1 if self.is_float else 4  # how many numbers of a row share a lane

    def load(self, pointer: Any, vector: Any) -> Any:
        """Generates a load of a vector from an address that need not be aligned."""
        loaded = self.builder.load(self.builder.bitcast(pointer, vector.as_pointer()))
        loaded.align = 1
        return loaded

    def store(self, vector: Any, pointer: Any) -> None:
        """Generates a store of a vector to an address that need not be aligned."""
        self.builder.store(vector, self.builder.bitcast(pointer, vector.type.as_pointer())).align = 1

    def prefetch(self, columns: Any, at: Any) -> None:
        """Generates prefetches of the data that the loop will read `AHEAD` bytes later.

        They are needed because large matrices do not fit in any cache.
        """
        place = self.builder.bitcast(self.builder.gep(columns, [at]), _INT8.as_pointer())
        reading, nearest_cache, data = _INT32(0), _INT32(3), _INT32(1)
        for line in range(0, COLUMNS * 4, CACHE_LINE):
            address = self.builder.gep(place, [_INT64(AHEAD + line)])
            self.call("llvm.prefetch.p0i8", ir.VoidType(), address, reading, nearest_cache, data)

    def spread(self, scalar: Any) -> Any:
        """Generates a vector that has the same value in all lanes."""
        vector = ir.VectorType(scalar.type, LANES)
        undefined = ir.Constant(vector, ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, _INT32(0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES))

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Generates a call of the LLVM intrinsic with the given name."""
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments)

    def multiply_add(self, total: Any, row: Any, column: Any) -> Any:
        """Generates code that multiplies a number or group of a row by the columns and adds the products to `total`."""
        if self.is_float:
            return self.call(f"llvm.fmuladd.v{LANES}f32", self.vector, row, column, total)
        if INSTRUCTIONS.multiply_add_bytes:
            return self.call(INSTRUCTIONS.multiply_add_bytes, self.vector, total, row, column)
        assert INSTRUCTIONS.add_in_pairs is not None
        multiply, widen = INSTRUCTIONS.add_in_pairs
        numbers, pairs = ir.VectorType(_INT8, 4 * LANES), ir.VectorType(_INT16, 2 * LANES)
        products = self.call(multiply, pairs, *(self.builder.bitcast(vector, numbers) for vector in (row, column)))
        ones = ir.Constant(pairs, [1] * 2 * LANES)
        return self.builder.add(total, self.call(widen, self.vector, products, ones))

    def sums(self, rows: list[Any], columns: Any, first: list[Any], depth: Any) -> list[list[Any]]:
        """Generates the loop over all groups of the rows, and returns the final sums of each row.

        `first` contains the initial values of the sums, and `depth` is the number of groups.
        """
        builder, before = self.builder, self.builder.block
        loop, after = (builder.function.append_basic_block(name) for name in ("loop", "after"))
        builder.branch(loop)
        builder.position_at_end(loop)
        index = builder.phi(_INT64)
        index.add_incoming(_INT64(0), before)
        totals = [[builder.phi(self.vector) for _ in first] for _ in rows]
        at = builder.mul(index, _INT64(COLUMNS * self.group))
        loaded = [
            self.load(builder.gep(columns, [builder.add(at, _INT64(half * LANES * self.group))]), self.vector)
            for half in range(len(first))
        ]
        self.prefetch(columns, at)
        results = []
        for row, sums in zip(rows, totals, strict=True):
            group = builder.bitcast(builder.gep(row, [builder.mul(index, _INT64(self.group))]), self.lane.as_pointer())
            number = builder.load(group)
            number.align = 1
            spread = self.spread(number)
            results.append([self.multiply_add(*pair) for pair in zip(sums, [spread] * len(first), loaded, strict=True)])
        for sums, added in zip(totals, results, strict=True):
            for total, start, result in zip(sums, first, added, strict=True):
                total.add_incoming(start, before)
                total.add_incoming(result, loop)
        following = builder.add(index, _INT64(1))
        index.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)
        builder.position_at_end(after)
        return results


def _multiply_tile(
    context: Any,
    x: Any,
    x_at: Any,
    stride: Any,
    rows: Any,
    row_scales: Any,
    weight: Any,
    weight_at: Any,
    depth: Any,
    start: Any,
    scales: Any,
    bias: Any,
    column: Any,
    out: Any,
    out_at: Any,
    out_stride: Any,
) -> Any:
    """Multiplies 1 to `ROWS` rows by `COLUMNS` columns and writes x Wᵀ + bias to `out`; for compiled code only.

    `x_at`, `weight_at` and `out_at` are the indices of the first number to use in each array; `column` is this index
    for `start`, `scales` and `bias`. Rows of `x` are `stride` numbers apart, and rows of `out` are `out_stride` numbers
    apart. `weight` holds `depth` groups of numbers for every column; the first groups of all columns come first, then
    the second groups, and so on. For floats, `start` and both arrays of scales are not read. For integers, each sum
    begins at `start` and is multiplied by the scale of its column and by the scale of its row.
    """
    place = types.intp
    signature = types.void(
        x, place, place, place, row_scales, weight, place, place, start, scales, bias, place, out, place, place
    )
    return signature, _generate_tiles


multiply_tile: Any = intrinsic(_multiply_tile)


def _generate_tiles(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Generates the code of `multiply_tile`: a variant for each possible number of rows, and a switch between them."""
    done = builder.function.append_basic_block("done")
    choice = builder.switch(arguments[3], done)
    for rows in range(1, ROWS + 1):
        block = builder.function.append_basic_block("tile")
        choice.add_case(_INT64(rows), block)
        builder.position_at_end(block)
        _generate_tile(context, builder, signature, arguments, rows)
        builder.branch(done)
    builder.position_at_end(done)
    return context.get_dummy_value()


def _generate_tile(context: Any, builder: Any, signature: Any, arguments: Any, rows: int) -> None:
    """Generates the variant of `multiply_tile` for `rows` rows."""
    x_at, stride, weight_at, depth, column, out_at, out_stride = (arguments[n] for n in (1, 2, 6, 7, 11, 13, 14))

    def address(number: int, offset: Any) -> Any:
        array = context.make_array(signature.args[number])(context, builder, arguments[number])
        return builder.gep(array.data, [offset])

    def row_offset(at: Any, stride: Any, row: int) -> Any:
        return builder.add(at, builder.mul(stride, _INT64(row)))

    writer = _Tile(builder, signature.args[0].dtype)
    halves = [builder.add(column, _INT64(half * LANES)) for half in range(2)]
    floats = ir.VectorType(_FLOAT, LANES)
    shifts = [writer.load(address(10, half), floats) for half in halves]
    first = shifts if writer.is_float else [writer.load(address(8, half), writer.vector) for half in halves]
    lines = [address(0, row_offset(x_at, stride, row)) for row in range(rows)]
    for row, sums in enumerate(writer.sums(lines, address(5, weight_at), first, depth)):
        if not writer.is_float:
            scale = writer.spread(builder.load(address(4, _INT64(row))))
            factors = [writer.load(address(9, half), floats) for half in halves]
            scaled = [
                builder.fmul(builder.fmul(builder.sitofp(total, floats), factor), scale)
                for total, factor in zip(sums, factors, strict=True)
            ]
            sums = [builder.fadd(total, shift) for total, shift in zip(scaled, shifts, strict=True)]
        for half, total in enumerate(sums):
            writer.store(total, address(12, builder.add(row_offset(out_at, out_stride, row), _INT64(half * LANES))))
