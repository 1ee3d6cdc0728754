"""Wire types: only the fields we read or write, as frozen msgspec Structs. Pure."""
