"""Sessions that survive failures, and loops of steps in them."""
