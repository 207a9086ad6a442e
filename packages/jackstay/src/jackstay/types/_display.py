"""How things are shown to people, and who is speaking: icons, annotations, names of implementations.

Above: nearly every body that has a name. Below: `_body`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from jackstay.types._body import Body, Maybe, Number

# Who said it, or whom it is for. Closed where it says who speaks; open in `Annotations.audience`.
Role: TypeAlias = Literal["user", "assistant"]


class Icon(Body, frozen=True):
    """A picture to show (2025-11-25). `src` is an http(s) or data URI of the peer's choosing: do not trust it."""

    src: str
    mime_type: Maybe[str] = None
    # Each "48x48" or "any". Until 2025-11-25 was final some peers sent one string; that is refused.
    sizes: Maybe[Sequence[str]] = None
    # "light" or "dark"; open.
    theme: Maybe[str] = None


class Annotations(Body, frozen=True, kw_only=True):
    """Hints for using or showing an object. In 2024-11-05 without a name of its own."""

    # Roles, open: an unknown one concerns nobody here.
    audience: Maybe[Sequence[str]] = None
    # From 0, optional, to 1, required.
    priority: Maybe[Number] = None
    # ISO 8601, since 2025-06-18.
    last_modified: Maybe[str] = None


class Implementation(Body, frozen=True):
    """The program at one end. For display: what it says of itself proves nothing."""

    name: str
    version: str
    # Since 2025-06-18.
    title: Maybe[str] = None
    # Since 2025-11-25.
    description: Maybe[str] = None
    website_url: Maybe[str] = None
    icons: Maybe[Sequence[Icon]] = None
