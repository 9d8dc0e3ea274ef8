"""Passes: pure functions from graph to graph that a master applies before it runs a step."""
