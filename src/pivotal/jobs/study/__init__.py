"""Studies: many questions, searches and seeds, with one file of results, on one machine or on Ray.

`recipe` reads what to run, and `job` runs it. The rows are records (`pivotal.records.study`) and need no torch.
"""
