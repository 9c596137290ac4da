"""Layers from and for other libraries, one file each, named for what it needs; the core imports none."""
