"""How fast it is, measured: every figure is a ratio within one run, on generated records."""
