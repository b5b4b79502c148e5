"""Intrinsics: what `tensorize` puts in place of a loop nest, each a single machine operation on tiles.

An intrinsic says twice what it computes: as a small loop nest (its description, which `tensorize` matches) and as
statements around one hardware operation (its implementation). Tests compare the two in the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from lpx import dtypes, te
from lpx.errors import DefinitionError
from lpx.expr import build
from lpx.expr.buffer import Buffer
from lpx.expr.nodes import Expr, Var
from lpx.expr.ops import Op
from lpx.ir import hardware
from lpx.ir.nodes import Function, Let, Stmt, Store
from lpx.records import record
from lpx.schedule.errors import AccessError


@record
class Tile:
    """The elements of one operand of a description, where they are in the program.

    Element (x, y, ...) of the description's loops is at `indices[d] + x * steps[d][0] + y * steps[d][1] + ...`.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    steps: tuple[tuple[int, ...], ...]

    def at(self, *places: Expr | int) -> tuple[Expr, ...]:
        """The indices of one element, or of several where places are vectors; one place per loop of the description."""
        found: list[Expr] = []
        for index, steps in zip(self.indices, self.steps, strict=True):
            for place, step in zip(places, steps, strict=True):
                if step:
                    index = index + (place if step == 1 else build.as_expr(place) * step)
            found.append(index)
        return tuple(found)

    def load(self, *places: Expr | int) -> Expr:
        """The value of one element, or of several as a vector."""
        return build.load(self.buffer, self.at(*places))

    def address(self, *places: Expr | int) -> Expr:
        """The address of one element."""
        return build.address_of(self.buffer, self.at(*places))

    def store(self, value: Expr, *places: Expr | int) -> Store:
        """The statement that puts `value` there."""
        return Store(self.buffer, self.at(*places), value)


def check_row(tile: Tile, loop: int, operation: str) -> None:
    """Refuse a tile that does not lie along its buffer's last dimension while `loop` runs."""
    if [steps[loop] for steps in tile.steps] != [0] * (len(tile.steps) - 1) + [1]:
        raise AccessError(
            f"{operation} reads rows, and {tile.buffer.name} is not read along its last dimension",
            hint="transform_layout or pack the buffer",
        )


Implementation = Callable[[Mapping[str, Tile], Expr], Stmt]
"""From the tiles, by the names of the description's tensors, to statements. The second argument is the number of the
lane of the warp (0 where the intrinsic is not `per_warp`)."""


@record
class Intrinsic:
    """An operation on tiles. `description` makes a function of one loop nest around one reduction block.

    `per_warp`: the 32 lanes of a warp run the implementation together.
    """

    name: str
    description: Callable[[], Function]
    implementation: Implementation
    per_warp: bool = False


INTRINSICS: dict[str, Intrinsic] = {}
"""Every intrinsic by name."""


def register_intrinsic(intrinsic: Intrinsic) -> Intrinsic:
    """Make an intrinsic known to `tensorize`. Raises: DefinitionError when the name is taken."""
    if intrinsic.name in INTRINSICS:
        raise DefinitionError(f"there is an intrinsic {intrinsic.name} already")
    INTRINSICS[intrinsic.name] = intrinsic
    return intrinsic


def _row_dot(lanes: int, group: int, left: str, right: str, total: str) -> Function:
    """C[j] += sum of A[k] * B[j, k] over a group of k, for each of the lanes j."""
    a, b = te.placeholder((group,), left, name="A"), te.placeholder((lanes, group), right, name="B")
    k = te.reduce_axis(group, name="k")
    return te.lower(
        te.compute((lanes,), lambda j: te.sum(te.cast(a[k], total) * te.cast(b[j, k], total), axis=k), name="C"), [a, b]
    )


def _group_dot(op: Op, lanes: int, group: int, *, swapped: bool = False) -> Implementation:
    """One dot product of a group per lane: the group of A for every lane, that of B for its own.

    `swapped`: the instruction takes B before A.
    """

    def implementation(tiles: Mapping[str, Tile], _: Expr) -> Stmt:
        own, element = build.ramp(0, 1, lanes), build.ramp(0, 1, lanes * group)
        a = build.shuffle([tiles["A"].load(0, build.ramp(0, 1, group))], tuple(range(group)) * lanes)
        b = tiles["B"].load(element // group, element % group)
        factors = [b, a] if swapped else [a, b]
        return tiles["C"].store(build.hardware_call(op, [tiles["C"].load(own, 0), *factors]), own, 0)

    return implementation


def _tile_product(group: int, left: str, right: str, total: str) -> Function:
    """C[i, j] += sum of A[i, q, k] * B[q, j, k] over 16 groups q of k, of 16 x 16 elements."""
    a, b = te.placeholder((16, 16, group), left, name="A"), te.placeholder((16, 16, group), right, name="B")
    q, k = te.reduce_axis(16, name="q"), te.reduce_axis(group, name="k")

    def element(i: te.Scalar, j: te.Scalar) -> Expr:
        return te.sum(te.cast(a[i, q, k], total) * te.cast(b[q, j, k], total), axis=[q, k])

    return te.lower(te.compute((16, 16), element, name="C"), [a, b])


def _whole_tile(tile: Tile, steps: Sequence[int], size: int, operation: str) -> tuple[Expr, ...]:
    """The indices of all `size` elements of a tile that lies in one piece along its buffer's last dimension.

    `steps` says how far apart neighbours along each loop of the description must be.
    """
    if any(any(others) for others in tile.steps[:-1]) or list(tile.steps[-1]) != list(steps):
        raise AccessError(
            f"{operation} takes tiles in one piece, and those of {tile.buffer.name} are not",
            hint=f"pack it or transform its layout, such that {size} elements in a row are a tile",
        )
    return (*tile.indices[:-1], build.ramp(tile.indices[-1], 1, size))


def _tile_dot(op: Op, group: int) -> Implementation:
    """One product of tiles, each a vector."""

    def implementation(tiles: Mapping[str, Tile], _: Expr) -> Stmt:
        row = 16 * group
        places = {
            "C": _whole_tile(tiles["C"], (16, 1, 0, 0), 256, op.name),
            "A": _whole_tile(tiles["A"], (row, 0, group, 1), 16 * row, op.name),
            "B": _whole_tile(tiles["B"], (0, group, row, 1), 16 * row, op.name),
        }
        total, a, b = (build.load(tiles[name].buffer, places[name]) for name in "CAB")
        return Store(tiles["C"].buffer, places["C"], build.hardware_call(op, [total, a, b]))

    return implementation


def _matrix_product(dtype: str) -> Function:
    """C[i, j] += sum of A[i, k] * B[k, j], of 16x16 and 16x8 elements, in float32."""
    a, b = te.placeholder((16, 16), dtype, name="A"), te.placeholder((16, 8), dtype, name="B")
    k = te.reduce_axis(16, name="k")

    def element(i: te.Scalar, j: te.Scalar) -> Expr:
        return te.sum(te.cast(a[i, k], "float32") * te.cast(b[k, j], "float32"), axis=k)

    return te.lower(te.compute((16, 8), element, name="C"), [a, b])


def _fragment_of_c(lane: Expr) -> tuple[Expr, Expr, int]:
    """Where the 4 elements of C lie that a lane holds (PTX manual, "Matrix fragments for mma.m16n8k16")."""
    i = build.ramp(0, 1, 4)
    return lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2, 0


def _mma(op: Op) -> Implementation:
    """mma.sync with fragments read element by element."""

    def implementation(tiles: Mapping[str, Tile], lane: Expr) -> Stmt:
        eight, four = build.ramp(0, 1, 8), build.ramp(0, 1, 4)
        a = tiles["A"].load(lane // 4 + eight % 4 // 2 * 8, 0, lane % 4 * 2 + eight % 2 + eight // 4 * 8)
        b = tiles["B"].load(0, lane // 4, lane % 4 * 2 + four % 2 + four // 2 * 8)
        c = _fragment_of_c(lane)
        return tiles["C"].store(build.hardware_call(op, [tiles["C"].load(*c), a, b]), *c)

    return implementation


def _mma_of_rows(tiles: Mapping[str, Tile], lane: Expr) -> Stmt:
    """mma.sync with fragments read by ldmatrix: each lane gives the address of a row of 8 elements."""
    load_a, load_b = hardware.LDMATRIX[4, False], hardware.LDMATRIX[2, True]
    a, b = Var(dtypes.float16, 8, "a"), Var(dtypes.float16, 4, "b")
    for name, loop in (("A", 2), ("B", 1)):
        check_row(tiles[name], loop, "ldmatrix")
    read_a = build.hardware_call(load_a, [tiles["A"].address(lane % 16, 0, lane // 16 * 8)], 8)
    read_b = build.hardware_call(load_b, [tiles["B"].address(0, 0, lane % 16)], 4)
    c = _fragment_of_c(lane)
    product = tiles["C"].store(build.hardware_call(hardware.MMA_F16, [tiles["C"].load(*c), a, b]), *c)
    return Let(a, read_a, Let(b, read_b, product))


def _register(
    name: str, description: Callable[[], Function], implementation: Implementation, *, per_warp: bool
) -> None:
    register_intrinsic(Intrinsic(name, description, implementation, per_warp))


_bytes = partial(_row_dot, group=4, left="uint8", right="int8", total="int32")
_swapped = partial(_row_dot, group=4, left="int8", right="uint8", total="int32")
_pairs = partial(_row_dot, group=2, left="bfloat16", right="bfloat16", total="float32")
_halves, _bfloats = partial(_matrix_product, "float16"), partial(_matrix_product, "bfloat16")
for _lanes in (4, 8, 16):
    _register(
        f"x86.vpdpbusd.{_lanes}", partial(_bytes, _lanes), _group_dot(hardware.VNNI_DOT, _lanes, 4), per_warp=False
    )
    _register(
        f"x86.vpdpbusd.{_lanes}.swapped",
        partial(_swapped, _lanes),
        _group_dot(hardware.VNNI_DOT, _lanes, 4, swapped=True),
        per_warp=False,
    )
    _register(
        f"x86.vdpbf16ps.{_lanes}", partial(_pairs, _lanes), _group_dot(hardware.BF16_DOT, _lanes, 2), per_warp=False
    )
for (_left, _right), _op in hardware.TILE_DOTS.items():
    _register(_op.name, partial(_tile_product, 4, _left, _right, "int32"), _tile_dot(_op, 4), per_warp=False)
_register(
    hardware.BF16_TILE_DOT.name,
    partial(_tile_product, 2, "bfloat16", "bfloat16", "float32"),
    _tile_dot(hardware.BF16_TILE_DOT, 2),
    per_warp=False,
)
_register("nvvm.mma.f16", _halves, _mma(hardware.MMA_F16), per_warp=True)
_register("nvvm.mma.bf16", _bfloats, _mma(hardware.MMA_BF16), per_warp=True)
_register("nvvm.ldmatrix.mma.f16", _halves, _mma_of_rows, per_warp=True)
