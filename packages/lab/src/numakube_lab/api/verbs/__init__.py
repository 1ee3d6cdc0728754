"""What clients do with objects: create, read, change, delete and watch them."""
