"""Kills, races, full disks: afterwards nothing is lost, half-written or overspent."""
