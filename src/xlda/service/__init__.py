"""What `xlda serve` runs: a model that learns while it serves, and loses nothing."""
