"""Matrix products with a bias and an activation, which become part of the same kernel."""

from __future__ import annotations

from lpx.nn.activations import Activation, activated
from lpx.nn.primitive import Array, primitive, same_dtype, traced


@primitive
def matmul(a: Array, b: Array, bias: Array | None = None, activation: Activation | None = None) -> Array:
    """activation(a @ b + bias) of a[..., m, k], b[..., k, n] and a bias that broadcasts to [..., m, n].

    Leading axes broadcast, 1-D operands are vectors, as in np.matmul. Sums are kept in float32 for narrower floats.
    Operands and result have one dtype.

    Raises: DTypeError, ShapeError.
    """
    x, y = traced(a, b)
    same_dtype("matmul", x, y)
    product = x.owner.add("matmul", x, y)
    if bias is not None:
        addend = x.owner.array(bias)
        same_dtype("matmul", product, addend)
        product = x.owner.add("add", product, addend)
    return activated(product, activation)


@primitive
def linear(x: Array, weight: Array, bias: Array | None = None, activation: Activation | None = None) -> Array:
    """activation(x @ weight.T + bias) of x[..., k], weight[n, k], bias[n]: a layer of a network, giving [..., n].

    Raises: DTypeError, ShapeError.
    """
    rows, columns = traced(x, weight)
    return matmul(rows, columns.T, bias, activation)
