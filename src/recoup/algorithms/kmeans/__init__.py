"""Private k-means: the paper's iteration, the grid, both in turn, and the adaptive default."""
