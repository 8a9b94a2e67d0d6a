"""Ditto sentence embeddings (diagonal attention pooling, EMNLP 2023), fast."""

from importlib.metadata import version

from ditto_fast.encoder import FastEncoder
from ditto_fast.heads import Head

__all__ = ["FastEncoder", "Head"]
__version__ = version("ditto-fast")
