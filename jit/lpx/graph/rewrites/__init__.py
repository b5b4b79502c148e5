"""Rewrites of graphs, one file each, and the list of those that every imported model goes through."""

from lpx.graph.nodes import Graph
from lpx.graph.rewrites.fold_constants import fold_constants
from lpx.target import Target


def simplify(graph: Graph, target: Target) -> Graph:
    """All rewrites in order."""
    return fold_constants(graph, target)
