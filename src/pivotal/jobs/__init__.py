"""The jobs find, compare, certify and study. Each writes a folder; find, compare and study resume from it."""
