"""Synchronization of replicas: rounds of gradients, bounded staleness."""
