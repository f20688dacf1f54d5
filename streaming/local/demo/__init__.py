"""`coordinator-state demo`: live consumer groups, and the answers of both sides."""
