"""Rotary position embedding (Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021)."""

from __future__ import annotations

from lpx.errors import ShapeError
from lpx.frontends.numpy.functions.shaping import reshaped
from lpx.graph import shapes
from lpx.nn.primitive import Array, floats, primitive, same_dtype
from lpx.source import capture


@primitive
def rotary_embedding(x: Array, cos: Array, sin: Array, interleaved: bool = False, *, out: Array | None = None) -> Array:
    """Pairs of elements of x[..., n, d] turned by angles whose cosines and sines are cos[..., n, d / 2] and sin.

    The pair k is (k, k + d / 2), or (2 k, 2 k + 1) if `interleaved`; (a, b) becomes (a cos - b sin, a sin + b cos),
    computed in float32 or wider. cos and sin broadcast to the pairs.

    Raises: DTypeError, ShapeError.
    """
    array = floats("rotary_embedding", x)
    turns = [array.owner.array(t) for t in (cos, sin)]
    same_dtype("rotary_embedding", array, *turns)
    if not array.ndim or (depth := shapes.static(array.shape[-1:], "rotary_embedding")[0]) % 2:
        raise ShapeError(
            f"rotary_embedding of an array of shape {shapes.shape_text(array.shape)}",
            hint="the last axis is made of pairs",
            span=capture(),
        )
    for angles in turns:
        if not shapes.broadcasts_to(angles.shape, (*array.shape[:-1], depth // 2)):
            raise ShapeError(
                f"rotary_embedding of {shapes.shape_text(array.shape)} by angles {shapes.shape_text(angles.shape)}",
                hint="give one angle for each pair of the last axis; the axes before broadcast",
                span=capture(),
            )
    pairs = (depth // 2, 2) if interleaved else (2, depth // 2)
    axis = array.ndim if interleaved else array.ndim - 1
    split = reshaped(array, (*array.shape[:-1], *pairs))
    lifted = [reshaped(t, _lifted(t.shape, interleaved)) for t in turns]
    return reshaped(array.owner.add("rotate_pairs", split, *lifted, axis=axis), array.shape)


def _lifted(shape: tuple[shapes.Dim, ...], interleaved: bool) -> tuple[shapes.Dim, ...]:
    """The shape [..., d / 2] with an axis for the two of a pair."""
    return (*shape, 1) if interleaved else (*shape[:-1], 1, *shape[-1:])
