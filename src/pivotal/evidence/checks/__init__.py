"""The checks behind a verdict. Each module makes one of them."""
