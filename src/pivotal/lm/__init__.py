"""Language models of your own: trained here, imported from elsewhere, assessed."""
