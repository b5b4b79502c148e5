"""Windows of convolutions and pools: kernel, strides, dilations and paddings of a node, checked."""

from __future__ import annotations

from collections.abc import Sequence

from lpx.errors import ModelError
from lpx.frontends.onnx.context import Operand
from lpx.frontends.onnx.handlers.registry import Call
from lpx.graph.operator import AttrValue
from lpx.records import record

_AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@record
class Windows:
    """Per spatial axis: taps, steps, and padding before and after, which may be implied by `auto_pad`."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    auto_pad: str

    def span(self, axis: int) -> int:
        """The elements from the first to the last tap."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def idle_axes(self, extents: Sequence[int]) -> tuple[int, ...]:
        """The axes of one element, one tap and no padding."""
        return tuple(
            axis
            for axis, extent in enumerate(extents)
            if extent == self.kernel[axis] == 1 and not self.before[axis] and not self.after[axis]
        )

    def without(self, axes: Sequence[int]) -> Windows:
        """The windows on the other axes."""

        def kept(values: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(v for axis, v in enumerate(values) if axis not in axes)

        return Windows(
            kept(self.kernel),
            kept(self.strides),
            kept(self.dilations),
            kept(self.before),
            kept(self.after),
            self.auto_pad,
        )

    def attrs(self) -> dict[str, AttrValue]:
        """The attributes of graph operators on windows."""
        return {
            "strides": self.strides,
            "dilations": self.dilations,
            "pads_before": self.before,
            "pads_after": self.after,
        }


def read_windows(call: Call, x: Operand, kernel: Sequence[int] | None) -> Windows:
    """The windows of a node on x[N, C, spatial...]. `kernel` is what the weights say, None for a pool.

    Raises: ModelError naming the attribute that does not fit.
    """
    spatial = x.rank - 2
    if spatial < 1:
        raise ModelError(f"input {x.value.type_text} has no spatial dimension")
    attrs = call.attrs
    size = attrs.integers("kernel_shape", kernel)
    if kernel is not None and size != tuple(kernel):
        raise ModelError(f"attribute kernel_shape is {size}, but the weights say {tuple(kernel)}")
    strides, dilations = attrs.integers("strides", (1,) * spatial), attrs.integers("dilations", (1,) * spatial)
    pads = attrs.integers("pads", (0,) * (2 * spatial))
    auto_pad = attrs.text("auto_pad", "NOTSET", legal=_AUTO_PADS)
    for name, values, count in (
        ("kernel_shape", size, spatial),
        ("strides", strides, spatial),
        ("dilations", dilations, spatial),
        ("pads", pads, 2 * spatial),
    ):
        low = 0 if name == "pads" else 1
        if len(values) != count or any(v < low for v in values):
            raise ModelError(f"attribute {name} is {values}", hint=f"it must have {count} number(s) of at least {low}")
    if auto_pad == "NOTSET":
        return Windows(size, strides, dilations, pads[:spatial], pads[spatial:], auto_pad)
    windows = Windows(size, strides, dilations, (0,) * spatial, (0,) * spatial, auto_pad)
    return windows if auto_pad == "VALID" else _same(windows, x.shape[2:])


def _same(w: Windows, extents: Sequence[int]) -> Windows:
    """Padding so that there are ceil(extent / stride) windows; an odd element goes where `auto_pad` says."""
    totals = [
        max((-(-extent // w.strides[a]) - 1) * w.strides[a] + w.span(a) - extent, 0) for a, extent in enumerate(extents)
    ]
    small, large = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    before, after = (small, large) if w.auto_pad == "SAME_UPPER" else (large, small)
    return Windows(w.kernel, w.strides, w.dilations, before, after, w.auto_pad)


def ceil_padding(w: Windows, extents: Sequence[int]) -> tuple[int, ...]:
    """Padding after the data with which `ceil_mode` has its last window; windows that start in it are dropped."""
    found: list[int] = []
    for axis, extent in enumerate(extents):
        padded, stride = extent + w.before[axis] + w.after[axis], w.strides[axis]
        count = -(-(padded - w.span(axis)) // stride) + 1
        if (count - 1) * stride >= extent + w.before[axis]:
            count -= 1
        missing = (count - 1) * stride + w.span(axis) - padded
        found.append(w.after[axis] + max(missing, 0))
    return tuple(found)
