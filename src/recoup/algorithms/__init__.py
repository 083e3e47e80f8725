"""The analyst's side: from the transcript so far to the next query; is never handed records."""
