"""Embeddings in tables that grow with the ids they see, and forget those they see no more."""
