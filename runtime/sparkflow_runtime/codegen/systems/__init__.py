"""Systems of linear equations and factorisations of small matrices."""
