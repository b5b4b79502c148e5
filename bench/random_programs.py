"""Programs drawn at random: contractions, reductions and elementwise steps over tensors with named axes.

    random_programs.draw(seed=3).source

is the text of a function `program(xp, x0, x1, x2)`, in words that NumPy, PyTorch and jax.numpy share. Each step reads
the result of the one before, so that none can be left out; numbers stay near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lpx.cli.comparison.program import Function
from lpx.records import record

SIZES = (24, 32, 64, 96, 100, 128, 192, 256)
AXES = "ijkl"
INPUTS = 3
STEPS = 5
LARGEST = 1 << 21
"""Elements of a tensor."""

MOST_PRODUCTS = 1 << 28
"""Multiplications of a contraction."""

UNARY = (
    "xp.tanh({0})",
    "xp.exp(-xp.abs({0}))",
    "xp.sqrt(xp.abs({0}) + 0.5)",
    "xp.clip({0} * 1.5 - 0.25, -1.0, 1.0)",
    "{0} / (1.0 + xp.exp(-{0}))",
    "xp.where({0} > 0, {0}, {0} * 0.125)",
    "xp.log(1.0 + {0} * {0})",
)
BINARY = ("{0} * {1} + 0.5", "{0} - {1}", "xp.maximum({0}, {1})", "({0} + {1}) / (1.0 + xp.abs({1}))")
REDUCTIONS = ("xp.sum({0}, axis={1}) * {2}", "xp.amax({0}, axis={1})", "xp.mean({0} * {0}, axis={1})")


@record
class Drawn:
    """A program as text and as a function, and the shapes of its inputs."""

    source: str
    function: Function
    shapes: tuple[tuple[int, ...], ...]


@record
class _Tensor:
    """A name in the program, and the letters of its axes."""

    name: str
    axes: str


class _Draft:
    """A program while it is written down."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.size = {axis: int(self.rng.choice(SIZES)) for axis in AXES}
        self.inputs = [_Tensor(f"x{n}", self._letters(n)) for n in range(INPUTS)]
        self.lines: list[str] = []
        self.last = self.inputs[0]

    def _letters(self, n: int) -> str:
        """Two or three axes; the first input has the most."""
        count = 3 if n == 0 else 2
        return "".join(self.rng.permutation(list(AXES))[:count])

    def elements(self, axes: str) -> int:
        return math.prod(self.size[axis] for axis in axes)

    def write(self, text: str, axes: str) -> None:
        """One more line, which makes a tensor."""
        self.last = _Tensor(f"t{len(self.lines)}", axes)
        self.lines.append(f"    {self.last.name} = {text}")

    def pick(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def contract(self) -> None:
        """Sum over an axis that the last tensor has in common with an input."""
        x = self.last
        fitting = {y: how for y in self.inputs if y is not x and (how := self._contraction(x, y))}
        if not fitting:
            self.map()
            return
        y = self.pick(list(fitting))
        summed, left = fitting[y]
        factor = self.elements(summed) ** -0.5
        self.write(f'xp.einsum("{x.axes},{y.axes}->{left}", {x.name}, {y.name}) * {factor:.4f}', left)

    def _contraction(self, x: _Tensor, y: _Tensor) -> tuple[str, str] | None:
        """The axis to sum over and those that are left; None where that is too much or nothing."""
        common = [axis for axis in x.axes if axis in y.axes]
        every = x.axes + "".join(axis for axis in y.axes if axis not in x.axes)
        if not common or len(every) < 2 or self.elements(every) > MOST_PRODUCTS:
            return None
        left = every.replace(common[-1], "")
        return None if self.elements(left) > LARGEST else (common[-1], left)

    def map(self) -> None:
        """One function of each element."""
        self.write(self.pick(UNARY).format(self.last.name), self.last.axes)

    def combine(self) -> None:
        """Together with an input whose axes the last tensor has, broadcast over the others."""
        x = self.last
        fitting = [y for y in self.inputs if set(y.axes) <= set(x.axes)]
        if not fitting:
            self.map()
            return
        y = self.pick(fitting)
        order = [y.axes.index(axis) for axis in x.axes if axis in y.axes]
        name = y.name if order == sorted(order) else f"{y.name}.T"  # inputs with two axes, or in the same order
        where = ", ".join(":" if axis in y.axes else "None" for axis in x.axes)
        self.write(self.pick(BINARY).format(x.name, f"{name}[{where}]"), x.axes)

    def reduce(self) -> None:
        """One axis less, where two are left."""
        x = self.last
        if len(x.axes) < 3:
            self.combine()
            return
        axis = int(self.rng.integers(len(x.axes)))
        factor = f"{self.size[x.axes[axis]] ** -0.5:.4f}"
        self.write(self.pick(REDUCTIONS).format(x.name, axis, factor), x.axes[:axis] + x.axes[axis + 1 :])

    def normalise(self) -> None:
        """Softmax along one axis, scaled."""
        x, axis = self.last, int(self.rng.integers(len(self.last.axes)))
        self.write(f"xp.exp({x.name} - xp.amax({x.name}, axis={axis}, keepdims=True))", x.axes)
        e, scale = self.last.name, self.size[x.axes[axis]] ** 0.5
        self.write(f"{e} / xp.sum({e}, axis={axis}, keepdims=True) * {scale:.4f}", x.axes)


STEP: tuple[Callable[[_Draft], None], ...] = (
    _Draft.contract,
    _Draft.map,
    _Draft.combine,
    _Draft.reduce,
    _Draft.normalise,
)


def draw(seed: int) -> Drawn:
    """The program of a seed; it begins with a contraction."""
    draft = _Draft(seed)
    draft.contract()
    while len(draft.lines) < STEPS:
        draft.pick(STEP)(draft)
    names = ", ".join(x.name for x in draft.inputs)
    source = "\n".join([f"def program(xp, {names}):", *draft.lines, f"    return {draft.last.name}", ""])
    scope: dict[str, Any] = {}
    exec(compile(source, f"<random program {seed}>", "exec"), scope)
    shapes = tuple(tuple(draft.size[axis] for axis in x.axes) for x in draft.inputs)
    return Drawn(source, scope["program"], shapes)
