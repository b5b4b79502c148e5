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
from lpx.nn.convolution import conv1d, conv2d, conv3d, conv_transpose2d
from lpx.nn.linear import linear, matmul, matmul_int8
from lpx.nn.normalization import batch_norm, group_norm, instance_norm, layer_norm, log_softmax, rms_norm, softmax
from lpx.nn.pooling import avg_pool, global_avg_pool, global_max_pool, max_pool
from lpx.nn.recurrent import gru, lstm
from lpx.nn.resampling import resize
from lpx.nn.rotary import rotary_embedding
from lpx.nn.sorting import sort, top_k

__all__ = [
    "attention",
    "avg_pool",
    "batch_norm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose2d",
    "elu",
    "erf",
    "gelu",
    "global_avg_pool",
    "global_max_pool",
    "group_norm",
    "gru",
    "hard_sigmoid",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "lstm",
    "matmul",
    "matmul_int8",
    "max_pool",
    "relu",
    "resize",
    "rms_norm",
    "rotary_embedding",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "sort",
    "tanh",
    "top_k",
]
