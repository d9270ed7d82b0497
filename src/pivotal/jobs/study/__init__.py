"""Studies: many questions, searches and seeds, one file of rows; on one machine or on Ray.

`recipe` says what is run and `job` runs it. The rows are records (`pivotal.records.study_rows`), which need no torch.
"""
