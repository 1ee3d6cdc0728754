"""Rules about nodes that several plugins share, for one node and for many at once."""
