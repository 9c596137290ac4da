"""How sure an answer is, and what is unknown: measured on samples that were kept and taken out again."""
