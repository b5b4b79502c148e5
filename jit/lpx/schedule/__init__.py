"""Schedules: programs transformed step by step, each step checked and recorded.

s = create_schedule(C)
i, j, r = s.loops(C)
i_o, i_i = s.split(i, factor=14)
s.parallel(i_o)
print(s), print(s.trace.as_python())
"""

from lpx.schedule.handles import BlockHandle, LoopHandle
from lpx.schedule.primitive import Primitive, primitive
from lpx.schedule.schedule import Schedule, create_schedule, replay
from lpx.schedule.session import BlockLike, Edit
from lpx.schedule.trace import Instruction, Trace
from lpx.schedule.values import IndexMap

__all__ = [
    "BlockHandle",
    "BlockLike",
    "Edit",
    "IndexMap",
    "Instruction",
    "LoopHandle",
    "Primitive",
    "Schedule",
    "Trace",
    "create_schedule",
    "primitive",
    "replay",
]
