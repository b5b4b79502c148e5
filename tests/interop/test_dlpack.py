"""Arrays of other libraries as arguments and results of kernels and jit functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lpx
from lpx import te
from lpx.errors import ArgumentError

Call = Callable[..., Any]


class Foreign:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.array.__dlpack_device__()
        return device

    def __array_namespace__(self) -> type[Foreign]:
        return Foreign

    @staticmethod
    def from_dlpack(array: Any) -> Foreign:
        return Foreign(np.from_dlpack(array))


class Recorded(Foreign):
    """What records gradients."""

    requires_grad = True


class Nowhere(Foreign):
    """An array on a device that DLPack does not know."""

    def __dlpack_device__(self) -> tuple[int, int]:
        raise ValueError("no such device")


class Abstract(Foreign):
    """An array without elements, as tracing has."""

    def __dlpack_device__(self) -> tuple[int, int]:
        raise RuntimeError("nothing here")

    def __dlpack__(self, **options: Any) -> Any:
        raise RuntimeError("nothing here")


class Negated(Foreign):
    """A view that is negated when its own library reads it."""

    def is_neg(self) -> bool:
        return True

    def resolve_neg(self) -> Foreign:
        return Foreign(-self.array)


def twice(x: Any) -> Any:
    return x * 2


def count_up(x: Any) -> Any:
    x += 1
    return x.sum()


@pytest.fixture(params=["kernel", "jit"])
def doubled(request: pytest.FixtureRequest) -> Call:
    """c = 2 a in float32, of any length."""
    if request.param == "jit":
        return lpx.jit(twice)
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    return lpx.build(te.compute((n,), lambda i: x[i] * 2.0, name="out"))


def floats(count: int = 6) -> Any:
    return np.arange(count, dtype=np.float32)


def test_result_is_of_the_caller_s_kind(doubled: Call) -> None:
    result = doubled(Foreign(floats()))
    assert isinstance(result, Foreign)
    np.testing.assert_array_equal(result.array, floats() * 2)
    out = np.empty(6, np.float32)
    assert doubled(Foreign(floats()), out=out) is out
    foreign = Foreign(np.empty(12, np.float32)[::2])
    assert doubled(floats(), out=foreign) is foreign
    np.testing.assert_array_equal(foreign.array, floats() * 2)
    assert type(doubled(floats())) is np.ndarray


def test_several_results_and_a_changed_argument() -> None:
    @lpx.jit
    def both(x: Any) -> Any:
        x[0] = 7
        return x * 2, x.sum()

    x = Foreign(floats())
    product, total = both(x)
    assert isinstance(product, Foreign)
    assert isinstance(total, Foreign)
    assert x.array[0] == 7
    np.testing.assert_array_equal(product.array, x.array * 2)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Recorded, r"x requires a gradient, and kernels record none(?s:.*)pass x.detach\(\)"),
        (Nowhere, "x lives on a device other than the CPU"),
        (Abstract, "x cannot be read as an array: nothing here"),
    ],
)
def test_what_cannot_be_taken(doubled: Call, kind: type[Foreign], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        doubled(kind(floats()))


def test_negated_views(doubled: Call) -> None:
    result = doubled(Negated(floats()))
    np.testing.assert_array_equal(np.from_dlpack(result), floats() * -2)
    with pytest.raises(ArgumentError, match=r"out is negated when it is read(?s:.*)pass out.resolve_neg\(\)"):
        doubled(floats(), out=Negated(floats()))


def test_outputs_that_cannot_be_written(doubled: Call) -> None:
    frozen = floats()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(doubled(frozen), floats() * 2)
    with pytest.raises(ArgumentError, match="out is read-only"):
        doubled(floats(), out=frozen)
    repeated = np.lib.stride_tricks.as_strided(floats(1), (6,), (0,), writeable=True)
    with pytest.raises(ArgumentError, match="out repeats elements in memory"):
        doubled(floats(), out=repeated)
    with pytest.raises(ArgumentError, match="x is read-only, and the function assigns to it"):
        lpx.jit(count_up)(frozen)
    np.testing.assert_array_equal(frozen, floats())


# --- PyTorch -------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_torch_tensors(torch: Any, doubled: Call) -> None:
    x = torch.arange(12, dtype=torch.float32)
    for given in (x, x[::2], x[:1].expand(4), x[:0], torch.nn.Parameter(x).detach()):
        result = doubled(given)
        assert isinstance(result, torch.Tensor)
        assert torch.equal(result, given * 2)
        result += 1  # its own memory, and writable
    out = torch.zeros(12)
    assert doubled(x, out=out) is out
    assert torch.equal(out, x * 2)
    strided = torch.zeros(24)[::2]
    doubled(x, out=strided)
    assert torch.equal(strided, x * 2)
    with torch.inference_mode():
        assert torch.equal(doubled(x), x * 2)


def test_torch_refusals(torch: Any, doubled: Call) -> None:
    x = torch.arange(6, dtype=torch.float32)
    for given, message in (
        (torch.nn.Parameter(x), "x requires a gradient"),
        (x.to("meta"), "x lives on a device other than the CPU"),
        (x.to_sparse(), "x cannot be read as an array"),
    ):
        with pytest.raises(ArgumentError, match=message):
            doubled(given)
    with pytest.raises(ArgumentError, match="out repeats elements in memory"):
        doubled(x, out=torch.zeros(1).expand(6))


def test_torch_negated_view(torch: Any, doubled: Call) -> None:
    z = torch.complex(floats_of(torch), floats_of(torch) + 1)
    negated = z.conj().imag
    assert negated.is_neg()
    assert torch.equal(doubled(negated), negated * 2)


def floats_of(torch: Any) -> Any:
    return torch.arange(6, dtype=torch.float32)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int8", "int64", "float8_e4m3fn"])
def test_torch_dtypes(torch: Any, dtype: str) -> None:
    x = torch.tensor([0.0, 1.0, -2.0, 3.0]).to(getattr(torch, dtype))
    double = lpx.jit(twice)
    result = double(x)
    assert result.dtype == x.dtype
    assert torch.equal(result.float(), x.float() * 2)
    matrix = torch.stack([x, x]).T
    assert torch.equal(double(matrix).float(), matrix.float() * 2)
    out = torch.empty_like(x)
    assert double(x, out=out) is out
    assert torch.equal(out.float(), x.float() * 2)


def test_torch_argument_that_is_changed(torch: Any) -> None:
    for x in (torch.ones(6), torch.ones(12)[::2], torch.ones(6, dtype=torch.bfloat16)):
        total = lpx.jit(count_up)(x)
        assert isinstance(total, torch.Tensor)
        assert torch.equal(x, torch.full_like(x, 2))


# --- JAX -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def jnp() -> Any:
    return pytest.importorskip("jax.numpy")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int32"])
def test_jax_arrays(jnp: Any, dtype: str) -> None:
    x = jnp.array([0, 1, 2, 3], dtype)
    result = lpx.jit(twice)(x)
    assert isinstance(result, type(x))
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(result, np.float32), np.asarray(x, np.float32) * 2)


def test_jax_arrays_never_change(jnp: Any, doubled: Call) -> None:
    x = jnp.arange(6, dtype="float32")
    with pytest.raises(ArgumentError, match="out is read-only"):
        doubled(floats(), out=x)
    with pytest.raises(ArgumentError, match="x is read-only, and the function assigns to it"):
        lpx.jit(count_up)(x)
    np.testing.assert_array_equal(np.asarray(x), floats())


def test_jax_tracers_are_refused(jnp: Any, doubled: Call) -> None:
    jax: Any = pytest.importorskip("jax")
    with pytest.raises(ArgumentError, match="x cannot be read as an array"):
        jax.jit(doubled)(jnp.arange(6, dtype="float32"))
