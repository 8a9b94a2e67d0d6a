"""Corpora: files of any size in, embeddings out, on one machine or a cluster."""
