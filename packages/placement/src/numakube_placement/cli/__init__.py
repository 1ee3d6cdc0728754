"""Commands of placement by annotation."""
