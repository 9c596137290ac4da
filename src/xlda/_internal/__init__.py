"""What the other packages stand on, and nobody outside needs: arrays, threads, interrupts, files."""
