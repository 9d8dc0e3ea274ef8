"""Attempts of one fit: where each begins, what lives through all of them, when to stop trying."""
