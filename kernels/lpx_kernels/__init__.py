"""The kernel library of lpx: tensor expressions, schedules and references, written in lpx's public names only."""
