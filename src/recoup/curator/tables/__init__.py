"""Tables of any kind, read block by block as columns of doubles."""
