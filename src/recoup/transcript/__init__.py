"""What was released: the terms, the rounds, and the file that keeps them."""
