"""Running graphs: sessions, fetches, feeds."""
