"""Tables, figures and the page of a run. Everything here reads run folders only: no model, no torch."""
