"""Maximum entropy, below every algorithm: rows, solver, support and measure, from rounds and public terms alone."""
