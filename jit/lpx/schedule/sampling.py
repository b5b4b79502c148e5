"""Sampling primitives: choices that a search makes, recorded in the trace.

Each takes `decision=` for a manual choice; else the next decision given to the schedule; else it draws from the
schedule's generator. What it returns keeps its origin when passed on unchanged, so a replay with another decision
carries through to the primitives that used it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import cast

from lpx.schedule import queries
from lpx.schedule.errors import ExtentError, OptionError
from lpx.schedule.handles import LoopHandle
from lpx.schedule.placement import legal_locations
from lpx.schedule.primitive import primitive
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.values import SampledInt, SampledStr


@primitive
def sample_tile(
    edit: Edit,
    loop: LoopHandle,
    parts: int,
    *,
    max_innermost: int = 64,
    exact: bool = True,
    decision: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Draw factors for splitting `loop` into `parts` loops: pass them on as `split(loop, factor=...)`.

    Returns the extents of the parts - 1 inner loops, outermost first; the last is at most `max_innermost`. With `exact`
    their product divides the extent, and every such choice is equally likely; without, they are powers of two, and the
    extent may be symbolic.

    requires: parts >= 2; a constant extent where `exact`.
    rewrite: none.
    """
    node = edit.loop(loop)
    if parts < 2:
        raise OptionError(f"parts={parts} leaves nothing to choose", hint="parts is at least 2")
    extent = queries.constant_value(node.extent)
    if exact and extent is None:
        raise ExtentError(f"loop {loop.name} has a symbolic extent", hint="pass exact=False", mark=node)
    given = decision if decision is not None else edit.session.next_decision()
    if given is None:
        factors = _draw(edit, extent if exact else None, parts, max_innermost)
    else:
        factors = _given_factors(given, extent if exact else None, parts, max_innermost)
    edit.decision = list(factors)
    return tuple(SampledInt(f) for f in factors)


def _draw(edit: Edit, extent: int | None, parts: int, max_innermost: int) -> tuple[int, ...]:
    if extent is not None:
        choices = inner_factors(max(extent, 1), parts, max_innermost)
        return choices[edit.session.random.randrange(len(choices))]
    powers = [1 << k for k in range(max(max_innermost, 1).bit_length())]
    return tuple(edit.session.random.choice(powers) for _ in range(parts - 1))


def _given_factors(given: object, extent: int | None, parts: int, max_innermost: int) -> tuple[int, ...]:
    if not isinstance(given, list | tuple) or not all(
        isinstance(f, int) and f >= 1 for f in cast("list[object]", given)
    ):
        raise OptionError(f"decision {given!r} is not a list of factors", hint=f"give {parts - 1} positive integers")
    factors = tuple(int(f) for f in cast("Sequence[int]", given))
    if len(factors) != parts - 1 or factors[-1] > max_innermost:
        raise OptionError(
            f"decision {factors} does not fit", hint=f"give {parts - 1} factors, the last at most {max_innermost}"
        )
    if extent is not None and max(extent, 1) % math.prod(factors) != 0:
        raise OptionError(
            f"decision {factors} does not divide the extent {extent}", hint="give divisors, or pass exact=False"
        )
    return factors


@functools.lru_cache(maxsize=1024)
def inner_factors(extent: int, parts: int, max_innermost: int) -> tuple[tuple[int, ...], ...]:
    """Every choice of parts - 1 factors whose product divides `extent`, the last at most `max_innermost`."""
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    choices: list[tuple[int, ...]] = [(d,) for d in divisors if d <= max(max_innermost, 1)]
    for _ in range(parts - 2):
        choices = [(d, *c) for c in choices for d in divisors if extent % (d * math.prod(c)) == 0]
    return tuple(choices)


@primitive
def sample_choice(
    edit: Edit,
    options: Sequence[int | str],
    *,
    probs: Sequence[float] | None = None,
    decision: int | None = None,
) -> int | str:
    """Draw one of `options`, with the given relative probabilities or equal ones. The decision is its position.

    requires: options are ints and strings, not bools.
    rewrite: none.
    """
    if not options or any(isinstance(o, bool) for o in options):
        raise OptionError(f"options {options!r} are not ints and strings", hint="write 0 and 1 for False and True")
    weights = [1.0] * len(options) if probs is None else list(probs)
    if len(weights) != len(options) or min(weights) < 0 or sum(weights) <= 0:
        raise OptionError(f"probs {weights} do not fit {len(options)} options")
    given = decision if decision is not None else edit.session.next_decision()
    position = edit.session.random.choices(range(len(options)), weights)[0] if given is None else given
    if not isinstance(position, int) or not 0 <= position < len(options):
        raise OptionError(f"decision {position!r} is not a position in {len(options)} options")
    edit.decision = position
    chosen = options[position]
    return SampledStr(chosen) if isinstance(chosen, str) else SampledInt(chosen)


@primitive
def sample_location(edit: Edit, block: BlockLike, *, decision: int | None = None) -> LoopHandle | str:
    """Draw where `compute_at(block, location)` may put a block: one of its consumer's loops, "root" or "inline".

    The decision is the depth of the loop in the nest of the block's first consumer, -1 for "root", -2 for "inline".

    requires: nothing; where no other place is legal, "root" is drawn.
    rewrite: none.
    """
    node = edit.block(block)
    places = legal_locations(edit.function, node)
    given = decision if decision is not None else edit.session.next_decision()
    depth = edit.session.random.choice(list(places)) if given is None else given
    if not isinstance(depth, int) or depth not in places:
        legal = ", ".join(f"{d} ({p if isinstance(p, str) else p.var.name})" for d, p in places.items())
        raise OptionError(f"decision {depth!r} is not a legal place of {node.name}", hint=f"legal are {legal}")
    edit.decision = depth
    place = places[depth]
    return SampledStr(place) if isinstance(place, str) else edit.handle(place.var)
