"""Texts that others wrote, made fit to be told and shown.

A module's author, and whatever an exception quotes, may put anything into a text. Half a character (a lone surrogate) has no
form in UTF-8 and would break a whole list; control and direction characters can make a terminal or a prompt show something
else than is there.

Pure. Above: the catalogue, approval. Below: nothing.
"""


def told(text: object) -> str:
    """The text as it can be sent: what is no text is its text, half a character a question mark."""
    return str(text).encode(errors="replace").decode()


def shown(text: object, keep: str = "") -> str:
    r"""The text as it may stand before a person's eyes: characters that are not seen are spelled out (`\x1b`, `\u202e`).

    `keep` are those that are wanted all the same, as a line's end.
    """
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode()
        for sign in told(text)
    )


__all__ = ["shown", "told"]
