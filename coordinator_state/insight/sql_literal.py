"""Text that a client chose, as a literal in a query that people read and run."""

from __future__ import annotations


def sql_literal(text: str) -> str:
    r"""The literal of a text in DuckDB's SQL, with unprintable characters by their numbers.

    >>> print(sql_literal("it's"), sql_literal("red\x1b[31m"), sql_literal(""))
    'it''s' ('red' || chr(27) || '[31m') ''
    """
    parts: list[str] = []
    printable = ""
    for character in text:
        if character.isprintable():
            printable += character.replace("'", "''")
            continue
        parts += [f"'{printable}'"] if printable else []
        parts.append(f"chr({ord(character)})")
        printable = ""
    if printable or not parts:
        parts.append(f"'{printable}'")
    return parts[0] if len(parts) == 1 else f"({' || '.join(parts)})"
