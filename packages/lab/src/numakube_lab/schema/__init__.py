"""What the types of the API look like: built-in ones from tables, others from their schemas."""
