"""Studies: many questions, searches and seeds, one file of rows; on one machine or on Ray.

`recipe` says what is run and `job` runs it; `rows` is what comes out, and can be read with no torch about.
"""
