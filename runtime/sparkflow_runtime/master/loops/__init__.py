"""Step loops: many steps in one call, in this process or another."""
