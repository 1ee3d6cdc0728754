"""What commands share: their options, the objects that they name, and how they print."""
