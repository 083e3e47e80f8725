"""Small changes to the source, for each of which some test must fail."""
