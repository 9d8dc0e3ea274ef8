"""Tables of embeddings that grow with the ids they see."""
