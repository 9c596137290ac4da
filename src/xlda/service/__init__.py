"""What `xlda serve` runs."""
