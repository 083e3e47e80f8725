"""Private algorithms that hold the records and release only a model: there is no transcript to infer from."""
