"""The kernel library of lpx: kernels one can call, each with a reference in NumPy and cases to measure.

    lpx_kernels.matmul(a, b, bias, activation="gelu", out=c)
    lpx_kernels.kernels()["matmul"].cases

A kernel is a function that `lpx.jit` compiles, written in lpx's public names: on arrays (NumPy, torch, anything that
speaks DLPack) it compiles itself for their dtypes and shapes, writes to `out=` or gives arrays of the caller's kind; in
a function being compiled it becomes part of that. `python -m lpx_kernels` lists, shows and runs them.
"""

from lpx_kernels.activations import gelu, relu, sigmoid, silu, tanh
from lpx_kernels.attention import attention, rotary_embedding
from lpx_kernels.convolution import conv1d, conv2d, conv3d, conv_transpose2d
from lpx_kernels.gemm import einsum, linear, matmul, matmul_int8
from lpx_kernels.images import resize
from lpx_kernels.movement import concat, five_point, gather, pad, transpose
from lpx_kernels.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
)
from lpx_kernels.pooling import avg_pool, global_avg_pool, global_max_pool, max_pool
from lpx_kernels.recurrent import gru, lstm
from lpx_kernels.reduction import argmax, cumsum, max, mean, min, sum
from lpx_kernels.registry import Case, Draw, Kernel, case, kernels, register
from lpx_kernels.sorting import sort, top_k

__all__ = [
    "Case",
    "Draw",
    "Kernel",
    "argmax",
    "attention",
    "avg_pool",
    "batch_norm",
    "case",
    "concat",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose2d",
    "cumsum",
    "einsum",
    "five_point",
    "gather",
    "gelu",
    "global_avg_pool",
    "global_max_pool",
    "group_norm",
    "gru",
    "instance_norm",
    "kernels",
    "layer_norm",
    "linear",
    "log_softmax",
    "lstm",
    "matmul",
    "matmul_int8",
    "max",
    "max_pool",
    "mean",
    "min",
    "pad",
    "register",
    "relu",
    "resize",
    "rms_norm",
    "rotary_embedding",
    "sigmoid",
    "silu",
    "softmax",
    "sort",
    "sum",
    "tanh",
    "top_k",
    "transpose",
]
