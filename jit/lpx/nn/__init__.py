"""Neural-network functions, for use inside functions that `lpx.jit` compiles and on arrays outside of them.

Outside, a function compiles itself for the dtypes and shapes it is called with, as `lpx.jit` does, takes any arrays
(NumPy, DLPack), gives results of the caller's kind, and takes `out=`.
"""

from lpx.nn.activations import (
    elu,
    erf,
    gelu,
    hard_sigmoid,
    leaky_relu,
    relu,
    sigmoid,
    silu,
    softplus,
    softsign,
    tanh,
)
from lpx.nn.attention import attention
from lpx.nn.convolution import avg_pool, conv2d, max_pool
from lpx.nn.linear import linear, matmul
from lpx.nn.normalization import layer_norm, log_softmax, rms_norm, softmax

__all__ = [
    "attention",
    "avg_pool",
    "conv2d",
    "elu",
    "erf",
    "gelu",
    "hard_sigmoid",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "matmul",
    "max_pool",
    "relu",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
]
