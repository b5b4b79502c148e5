"""The reference interpreter: any function of any stage, on NumPy arrays. Slow, obviously right, the oracle of tests."""

from lpx.ir.interpreter.run import interpret as interpret
