"""The demo: live consumer groups, and the answers of tables and broker side by side."""
