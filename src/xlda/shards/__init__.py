"""A classifier with more classes than one machine can hold: shards, each with classes of its own."""

from xlda.shards.shard import ClassShard
from xlda.shards.sharded import ShardedXLDA, shard_of

__all__ = ["ClassShard", "ShardedXLDA", "shard_of"]
