"""The versioned store, and the journal that keeps it across restarts."""
