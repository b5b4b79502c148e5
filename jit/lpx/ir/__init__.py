"""Loop-nest IR: nodes, traversal, text, verifier, reference interpreter."""

from lpx.ir import printer as printer  # so that `str(node)` works wherever nodes are made
