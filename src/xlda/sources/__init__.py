"""Embeddings and labels from arrays and files, in bounded memory."""

from xlda.sources.source import FORMATS, Batch, Position, Source, SourceError, open_source

__all__ = ["FORMATS", "Batch", "Position", "Source", "SourceError", "open_source"]
