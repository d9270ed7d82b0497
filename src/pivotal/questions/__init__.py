"""What is asked of a model: minimal pairs, where they come from, and how they are split. Needs no torch."""
