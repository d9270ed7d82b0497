"""The jobs find, certify and study. Each writes a folder; find and study resume from it."""
