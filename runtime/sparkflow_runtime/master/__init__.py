"""Receives graphs from clients; prunes, optimises, places and partitions them for the workers."""
