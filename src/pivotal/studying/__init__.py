"""Studies: many questions, searches and seeds, one file of rows; on one machine or on Ray."""
