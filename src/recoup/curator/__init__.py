"""The curator's side of the wall: the only folder that may see records."""
