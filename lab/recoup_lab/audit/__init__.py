"""Attacks on Recoup itself: what an attacker who knows all but one record can tell, as evidence that anyone can run."""
