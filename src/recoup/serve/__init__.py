"""A curator as a service on one table (extra `recoup[serve]`); nothing of the core imports it."""
