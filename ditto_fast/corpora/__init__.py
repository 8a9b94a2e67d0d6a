"""Corpora: files of any size in, embeddings out, on one machine or a cluster."""

from ditto_fast.corpora.encode import encode_corpus
from ditto_fast.corpora.search import Hit, search_corpus

__all__ = ["Hit", "encode_corpus", "search_corpus"]
