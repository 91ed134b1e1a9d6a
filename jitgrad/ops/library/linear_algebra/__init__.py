"""Linear algebra: products of matrices, solvers, decompositions."""
