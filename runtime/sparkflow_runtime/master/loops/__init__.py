"""Step loops: many steps with one call, in this process or another."""
