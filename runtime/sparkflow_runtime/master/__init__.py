"""Takes graphs from clients, prunes, optimises, places, partitions, and has workers run them."""
