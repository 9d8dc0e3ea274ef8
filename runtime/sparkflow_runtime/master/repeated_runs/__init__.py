"""Runs that a client elsewhere repeats: one frame there and one back, without gRPC."""
