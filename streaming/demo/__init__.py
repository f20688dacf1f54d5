"""`coordinator-state demo`: live consumer groups, and both sides' answers."""
