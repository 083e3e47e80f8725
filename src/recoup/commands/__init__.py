"""The commands of `recoup`, one a file; each imports what it needs when it runs, so that help stays quick."""
