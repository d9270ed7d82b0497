"""What is written to disk and read back, one typed record each. Needs no torch."""
