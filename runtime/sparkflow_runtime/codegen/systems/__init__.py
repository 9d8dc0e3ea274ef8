"""Systems of linear equations and factors of small matrices."""
