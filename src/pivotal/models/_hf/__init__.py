"""What `pivotal.models.transformers` is made of."""
