"""Partitioning by device: cuts the graph, then bundles, lends and narrows what is sent."""
