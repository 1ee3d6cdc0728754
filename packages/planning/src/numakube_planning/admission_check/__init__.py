"""The admission check: lets queued work start only when all of its pods fit, aligned."""
