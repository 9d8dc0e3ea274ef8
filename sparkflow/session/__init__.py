"""Running graphs: sessions, what they fetch, what they are fed."""
