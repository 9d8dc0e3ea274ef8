"""Graphs as messages: GraphDef and MetaGraphDef, written and read."""
