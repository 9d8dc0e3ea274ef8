"""How all tasks come to run at once: with which resources, in which slots, what to do if not."""
