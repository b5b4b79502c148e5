"""Default schedules: programs recognised by their algebra, and an analytic choice of tiles for each kind."""
