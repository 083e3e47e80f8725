"""The analyst's side: from a transcript to the data set that most plausibly produced it; never sees records."""
