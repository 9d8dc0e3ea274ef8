"""Repeated runs of a remote client: one frame each way, without gRPC."""
