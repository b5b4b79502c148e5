"""Rewrites of graphs, one file each, and the list of those that every imported model goes through."""

from lpx.graph.nodes import Graph
from lpx.graph.rewrites.fold_constants import fold_constants
from lpx.graph.rewrites.fold_scales import fold_scales
from lpx.graph.rewrites.merge_additions import merge_additions
from lpx.target import Target


def simplify(graph: Graph, target: Target) -> Graph:
    """All rewrites in order. What the first two leave as arithmetic on constants, the last one computes."""
    return fold_constants(merge_additions(fold_scales(graph)), target)
