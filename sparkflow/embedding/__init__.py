"""Embeddings in tables that add rows for new ids and evict those of ids no longer looked up."""
