"""Loop-nest IR: nodes, traversal, text, verifier, reference interpreter."""
