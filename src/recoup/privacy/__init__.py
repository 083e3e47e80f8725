"""The numbers that protect people: prices, noise, private selection, and the ledger that counts them."""
