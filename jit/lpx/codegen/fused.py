"""Fused multiply-add: the instruction, or an expansion that rounds once all the same."""

from __future__ import annotations

from lpx.codegen import types
from lpx.codegen.builder import Builder
from lpx.codegen.types import Value, type_of

_DOUBLE = type_of("double")


def multiply_add(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """`x * y + z`, rounded once."""
    if b.capabilities.fma:
        return b.call(x.type, f"llvm.fma.{x.type.mangled}", (x, y, z), b.flags)
    if x.type.element == "float":
        return _through_double(b, x, y, z)
    return _per_lane(b, x, y, z)


def round_to_odd(b: Builder, rounded: Value, inexact: Value, outward: Value) -> Value:
    """`rounded`, a float rounded to nearest, made odd where it is `inexact`.

    `outward` tells where the exact value lies: further from zero than `rounded`, or nearer. Rounding again what was
    rounded to odd with at least two spare bits is as good as rounding the exact value once (Boldo and Melquiond,
    "Emulation of FMA and correctly rounded sums", 2008).
    """
    bits = rounded.type.of(f"i{rounded.type.bits}")
    image = b.reinterpret(rounded, bits)
    even = b.compare("icmp eq", b.with_int("and", image, 1), types.zero(bits))
    # Images of floats are ordered like their magnitudes, from zero to infinity.
    step = b.select(outward, types.integer(bits, 1), types.integer(bits, -1))
    adjust = b.select(b.binary("and", inexact, even), step, types.zero(bits))
    return b.reinterpret(b.binary("add", image, adjust), rounded.type)


def _through_double(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """float32: the product is exact in float64; the sum is rounded to odd there, then once to float32.

    The operations carry no fast-math flags, whatever the function has: the algorithm lives on exact errors.
    """
    product = b.binary("fmul", b.convert("fpext", x, "double"), b.convert("fpext", y, "double"))
    addend = b.convert("fpext", z, "double")
    total = b.binary("fadd", product, addend)
    # What the addition lost (Knuth's two-sum). It is NaN, and nothing is adjusted, where the sum is not finite.
    back = b.binary("fsub", total, product)
    from_product = b.binary("fsub", product, b.binary("fsub", total, back))
    lost = b.binary("fadd", from_product, b.binary("fsub", addend, back))
    inexact = b.compare("fcmp one", lost, types.zero(lost.type))
    bits = total.type.of("i64")
    signs = b.binary("xor", b.reinterpret(lost, bits), b.reinterpret(total, bits))
    odd = round_to_odd(b, total, inexact, b.compare("icmp sge", signs, types.zero(bits)))
    return b.convert("fptrunc", odd, "float")


def _per_lane(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """float64: a function in integer arithmetic, called for each lane."""
    b.module.define_once(_SOFT_FMA, _SOFT_FMA_TEXT)
    for name, params in _SOFT_FMA_INTRINSICS.items():
        b.module.declare(params.split()[0], name, params.split())
    if x.type.lanes == 1:
        return b.call(_DOUBLE, _SOFT_FMA, (x, y, z))
    result = types.poison(x.type)
    for lane in range(x.type.lanes):
        operands = [b.extract(v, lane) for v in (x, y, z)]
        result = b.insert(result, b.call(_DOUBLE, _SOFT_FMA, operands), lane)
    return result


_SOFT_FMA = "lpx_soft_fma"
_SOFT_FMA_TEXT = """\
; a * b + c of float64, rounded once, in integer arithmetic.
define internal double @lpx_soft_fma(double %a, double %b, double %c) #0 {
entry:
  %ia = bitcast double %a to i64
  %ib = bitcast double %b to i64
  %ic = bitcast double %c to i64
  %fa = lshr i64 %ia, 52
  %fb = lshr i64 %ib, 52
  %fc = lshr i64 %ic, 52
  %ea = and i64 %fa, 2047
  %eb = and i64 %fb, 2047
  %ec = and i64 %fc, 2047
  %infinite.a = icmp eq i64 %ea, 2047
  %infinite.b = icmp eq i64 %eb, 2047
  %infinite.c = icmp eq i64 %ec, 2047
  %zero.a = fcmp oeq double %a, 0.0
  %zero.b = fcmp oeq double %b, 0.0
  %zero.c = fcmp oeq double %c, 0.0
  %infinite.ab = or i1 %infinite.a, %infinite.b
  %zero.ab = or i1 %zero.a, %zero.b
  %special.ab = or i1 %infinite.ab, %zero.ab
  %special.c = or i1 %infinite.c, %zero.c
  %special = or i1 %special.ab, %special.c
  br i1 %special, label %simple, label %general

simple: ; the product alone, or the addend alone, decides: a plain operation rounds the same
  %product = fmul double %a, %b
  %sum = fadd double %product, %c
  %c.quiet = fadd double %c, %c
  %only.product = xor i1 %special.ab, true
  %by.product = select i1 %zero.c, double %product, double %c.quiet
  %simple.result = select i1 %only.product, double %by.product, double %sum
  %finite.ab = xor i1 %infinite.ab, true
  %only.c = and i1 %finite.ab, %infinite.c
  %chosen = select i1 %only.c, double %c.quiet, double %simple.result
  ret double %chosen

general: ; mantissas with their leading bit at 52; a value is mantissa * 2**(exponent - 1075)
  %fraction.a = and i64 %ia, 4503599627370495
  %fraction.b = and i64 %ib, 4503599627370495
  %fraction.c = and i64 %ic, 4503599627370495
  %hidden.a = icmp ne i64 %ea, 0
  %hidden.b = icmp ne i64 %eb, 0
  %hidden.c = icmp ne i64 %ec, 0
  %lead.a = select i1 %hidden.a, i64 4503599627370496, i64 0
  %lead.b = select i1 %hidden.b, i64 4503599627370496, i64 0
  %lead.c = select i1 %hidden.c, i64 4503599627370496, i64 0
  %raw.a = or i64 %fraction.a, %lead.a
  %raw.b = or i64 %fraction.b, %lead.b
  %raw.c = or i64 %fraction.c, %lead.c
  %exponent.a = call i64 @llvm.umax.i64(i64 %ea, i64 1)
  %exponent.b = call i64 @llvm.umax.i64(i64 %eb, i64 1)
  %exponent.c = call i64 @llvm.umax.i64(i64 %ec, i64 1)
  %zeros.a = call i64 @llvm.ctlz.i64(i64 %raw.a, i1 false)
  %zeros.b = call i64 @llvm.ctlz.i64(i64 %raw.b, i1 false)
  %zeros.c = call i64 @llvm.ctlz.i64(i64 %raw.c, i1 false)
  %up.a = sub i64 %zeros.a, 11
  %up.b = sub i64 %zeros.b, 11
  %up.c = sub i64 %zeros.c, 11
  %ma = shl i64 %raw.a, %up.a
  %mb = shl i64 %raw.b, %up.b
  %mc = shl i64 %raw.c, %up.c
  %xa = sub i64 %exponent.a, %up.a
  %xb = sub i64 %exponent.b, %up.b
  %xc = sub i64 %exponent.c, %up.c
  ; product and addend as 128-bit integers with their leading bits at 124 or 125, one bit left for a carry
  %ma.wide = zext i64 %ma to i128
  %mb.wide = zext i64 %mb to i128
  %mc.wide = zext i64 %mc to i128
  %p.exact = mul i128 %ma.wide, %mb.wide
  %p = shl i128 %p.exact, 20
  %q = shl i128 %mc.wide, 72
  %xab = add i64 %xa, %xb
  %xp = sub i64 %xab, 2170
  %xq = sub i64 %xc, 1147
  ; the one of lower exponent moves right; bits that fall off leave a one at the end
  %distance = sub i64 %xp, %xq
  %q.lower = icmp sge i64 %distance, 0
  %size = call i64 @llvm.abs.i64(i64 %distance, i1 false)
  %capped = call i64 @llvm.umin.i64(i64 %size, i64 127)
  %by = zext i64 %capped to i128
  %small = select i1 %q.lower, i128 %q, i128 %p
  %large = select i1 %q.lower, i128 %p, i128 %q
  %x = select i1 %q.lower, i64 %xp, i64 %xq
  %moved = lshr i128 %small, %by
  %restored = shl i128 %moved, %by
  %fell = icmp ne i128 %restored, %small
  %jam = zext i1 %fell to i128
  %aligned = or i128 %moved, %jam
  %signs.ab = xor i64 %ia, %ib
  %sign.small = select i1 %q.lower, i64 %ic, i64 %signs.ab
  %sign.large = select i1 %q.lower, i64 %signs.ab, i64 %ic
  %signs = xor i64 %sign.small, %sign.large
  %opposite = icmp slt i64 %signs, 0
  %sum.128 = add i128 %large, %aligned
  %difference = sub i128 %large, %aligned
  %flips = icmp slt i128 %difference, 0
  %negated = sub i128 0, %difference
  %magnitude = select i1 %flips, i128 %negated, i128 %difference
  %r = select i1 %opposite, i128 %magnitude, i128 %sum.128
  %use.small = and i1 %opposite, %flips
  %sign.any = select i1 %use.small, i64 %sign.small, i64 %sign.large
  %sign = and i64 %sign.any, -9223372036854775808
  %cancelled = icmp eq i128 %r, 0
  br i1 %cancelled, label %nothing, label %round

nothing:
  ret double 0.0

round: ; the leading bit to 63 of a 64-bit integer with a sticky end, then to its place, rounding to nearest even
  %zeros.wide = call i128 @llvm.ctlz.i128(i128 %r, i1 false)
  %normal = shl i128 %r, %zeros.wide
  %top.wide = lshr i128 %normal, 64
  %top = trunc i128 %top.wide to i64
  %low = trunc i128 %normal to i64
  %low.some = icmp ne i64 %low, 0
  %sticky = zext i1 %low.some to i64
  %h = or i64 %top, %sticky
  %zeros = trunc i128 %zeros.wide to i64
  %x.lead = sub i64 %x, %zeros
  %biased = add i64 %x.lead, 1150
  %field = call i64 @llvm.smax.i64(i64 %biased, i64 1)
  %below = sub i64 %field, %biased
  %below.capped = call i64 @llvm.umin.i64(i64 %below, i64 64)
  %drop = add i64 %below.capped, 11
  %drop.wide = zext i64 %drop to i128
  %h.wide = zext i64 %h to i128
  %kept.wide = lshr i128 %h.wide, %drop.wide
  %kept = trunc i128 %kept.wide to i64
  %kept.back = shl i128 %kept.wide, %drop.wide
  %rest = sub i128 %h.wide, %kept.back
  %half.bit = sub i128 %drop.wide, 1
  %half = shl i128 1, %half.bit
  %above = icmp ugt i128 %rest, %half
  %tie = icmp eq i128 %rest, %half
  %odd.bit = and i64 %kept, 1
  %is.odd = icmp ne i64 %odd.bit, 0
  %tie.up = and i1 %tie, %is.odd
  %round.up = or i1 %above, %tie.up
  %one = zext i1 %round.up to i64
  %rounded = add i64 %kept, %one
  %field.below = sub i64 %field, 1
  %exponent.bits = shl i64 %field.below, 52
  %encoded = add i64 %exponent.bits, %rounded
  %too.large = icmp sgt i64 %biased, 2046
  %finite = select i1 %too.large, i64 9218868437227405312, i64 %encoded
  %image = or i64 %finite, %sign
  %result = bitcast i64 %image to double
  ret double %result
}
"""
_SOFT_FMA_INTRINSICS = {
    "llvm.umax.i64": "i64 i64",
    "llvm.smax.i64": "i64 i64",
    "llvm.umin.i64": "i64 i64",
    "llvm.abs.i64": "i64 i1",
    "llvm.ctlz.i64": "i64 i1",
    "llvm.ctlz.i128": "i128 i1",
}
