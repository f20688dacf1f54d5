"""What the tables answer and what the broker answers, and the comparison of the two."""
