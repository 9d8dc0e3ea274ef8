"""Rendezvous: where the sending and the receiving end of an edge meet within a task."""
