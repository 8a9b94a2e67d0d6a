"""Ditto embeddings inside other libraries: one module a library, imported by its own name; identity.py serves them."""
