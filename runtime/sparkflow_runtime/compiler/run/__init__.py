"""Running a program in other ways than by its plan: at once, on a stream, traced."""
