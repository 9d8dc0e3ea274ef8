"""The attempts of a fit: where each starts, the state that survives them, when to give up."""
