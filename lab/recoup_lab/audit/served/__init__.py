"""A served curator under attack: kills, races, spoilt requests, and neighbours whose replies must be alike."""
