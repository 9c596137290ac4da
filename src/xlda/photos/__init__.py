"""Photos: which there are, their pixels, their embeddings. Needs the extra `images`."""

from xlda.photos.decoding import BadImage, open_photo
from xlda.photos.embedding import embed_photos
from xlda.photos.finding import Photo, find_photos
from xlda.photos.parquet import EmbeddingWriter, embed_to_parquet, embedding_info
from xlda.photos.repeats import repeated_photos
from xlda.photos.source import photo_source

__all__ = [
    "BadImage",
    "EmbeddingWriter",
    "Photo",
    "embed_photos",
    "embed_to_parquet",
    "embedding_info",
    "find_photos",
    "open_photo",
    "photo_source",
    "repeated_photos",
]
