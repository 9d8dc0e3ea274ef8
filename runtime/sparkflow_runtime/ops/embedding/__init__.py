"""Embedding tables that grow with the ids they see."""
