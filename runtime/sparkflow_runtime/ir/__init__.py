"""The typed graph that passes transform and the compiler reads."""
