"""Typed records of the files that pivotal writes and reads back. Needs no torch."""
