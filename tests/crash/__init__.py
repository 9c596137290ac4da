"""The service is killed, loses its power and its disk, and must have lost nothing that it acknowledged."""
