"""What can be asked: bounded per-record maps as values, each with its sensitivities."""
