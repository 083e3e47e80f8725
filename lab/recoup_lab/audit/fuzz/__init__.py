"""Spoilt files for every loader: each must end in a typed error, or in a value."""
