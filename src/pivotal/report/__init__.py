"""Tables, figures and pages of runs and studies. They are made from folders, without a model or torch."""
