"""Default schedules: programs recognised by their algebra, and an analytic choice of tiles for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpx.lazy import attributes

if TYPE_CHECKING:
    from lpx.rules.default import DefaultSchedule as DefaultSchedule
    from lpx.rules.default import default_schedule as default_schedule
else:
    _HOME = "lpx.rules.default"
    __getattr__ = attributes(__name__, {"DefaultSchedule": _HOME, "default_schedule": _HOME})
