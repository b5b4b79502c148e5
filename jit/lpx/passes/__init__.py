"""Passes from scheduled to flat loop-nest IR: one file each, and one pipeline list."""
