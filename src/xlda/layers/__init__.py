"""Fully connected layers: what they are, the files they are in, and how a classifier takes over from one."""
