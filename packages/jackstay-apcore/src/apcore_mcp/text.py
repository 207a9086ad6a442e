"""Sanitizing of untrusted strings, such as descriptions of modules and messages of exceptions.

A lone surrogate cannot be encoded as UTF-8 and would break a whole list. Control and direction characters could change
what a terminal or a prompt shows.
"""


def to_utf8(text: object) -> str:
    """Return the value as a str that can be encoded as UTF-8; lone surrogates become question marks."""
    return str(text).encode(errors="replace").decode()


def escape_unprintable(text: object, keep: str = "") -> str:
    r"""Return the value as a str with unprintable characters escaped (`\x1b`, `\u202e`), except those in `keep`."""
    return "".join(
        character if character.isprintable() or character in keep else character.encode("unicode_escape").decode()
        for character in to_utf8(text)
    )


__all__ = ["escape_unprintable", "to_utf8"]
