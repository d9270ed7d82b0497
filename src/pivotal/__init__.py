"""Find the few units of a language model that decide a phenomenon, prove it, and hand them over."""

__version__ = "0.1.0"
