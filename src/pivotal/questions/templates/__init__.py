"""Phenomena as template files: a YAML file with word lists and sentence patterns, which is expanded to pairs."""
