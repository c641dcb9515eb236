"""Is a text realizable: one walk through its distinct sentences, and witnesses of what is not."""
