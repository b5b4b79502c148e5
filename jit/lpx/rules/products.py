"""The default schedule of a contraction: in blocks where that pays, else in tiles."""

from __future__ import annotations

from lpx.rules import blocked, tiled
from lpx.rules.contraction import recognise
from lpx.rules.dots import DotsPlan
from lpx.rules.facts import extent_of, facts_of, follower
from lpx.rules.resident import ResidentPlan
from lpx.rules.skinny import SkinnyPlan
from lpx.schedule.schedule import Schedule
from lpx.target import CpuMachine


def apply(schedule: Schedule, name: str, machine: CpuMachine) -> str:
    """Schedule one block as a contraction; what was done, or "" where it is none."""
    contraction = recognise(facts_of(schedule.function)[name])
    if contraction is None:
        return ""
    for form in (ResidentPlan, SkinnyPlan, DotsPlan):
        few_rows = form(schedule, contraction, machine)
        if few_rows.suits():
            return few_rows.apply()
    fused = follower(schedule.function, name)
    plan = tiled.TiledPlan(schedule, contraction, tiled.choose_tiles(contraction, machine), fused, machine)
    if not plan.packs_columns() or not blocked.suits(contraction):
        return plan.apply()
    blocks = blocked.choose_blocks(contraction, machine)
    if blocks.depth < extent_of(contraction.inner[0].extent):
        fused = ""  # a pass over the result costs less than tiles that stay in registers for all of a long sum
    return blocked.BlockedPlan(schedule, contraction, blocks, fused, machine).apply()
