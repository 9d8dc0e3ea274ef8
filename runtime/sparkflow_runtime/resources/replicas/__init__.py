"""How replicas wait for each other: rounds of gradients, bounded staleness."""
