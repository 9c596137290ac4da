"""Predicting from a head, how sure that is, and snapshots."""
