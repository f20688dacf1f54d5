"""One micro-batch into changes of the tables, by the rules of the reference loader."""
