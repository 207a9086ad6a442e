"""Display information: icons, annotations, and names of implementations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from jackstay.types._body import Body, Maybe, Number

# The author of a message. Closed here; open in `Annotations.audience`.
Role: TypeAlias = Literal["user", "assistant"]


class Icon(Body, frozen=True):
    """An icon (2025-11-25). `src` is an http(s) or data URI chosen by the peer: do not trust it."""

    src: str
    mime_type: Maybe[str] = None
    # Each "48x48" or "any". One string, as in drafts of 2025-11-25, is rejected.
    sizes: Maybe[Sequence[str]] = None
    # "light" or "dark"; open.
    theme: Maybe[str] = None


class Annotations(Body, frozen=True, kw_only=True):
    """Hints for using or displaying an object."""

    # Roles; open.
    audience: Maybe[Sequence[str]] = None
    # From 0 (optional) to 1 (required).
    priority: Maybe[Number] = None
    # ISO 8601, since 2025-06-18.
    last_modified: Maybe[str] = None


class Implementation(Body, frozen=True):
    """Name and version of a client or server. For display only: it is not verified."""

    name: str
    version: str
    # Since 2025-06-18.
    title: Maybe[str] = None
    # Since 2025-11-25.
    description: Maybe[str] = None
    website_url: Maybe[str] = None
    icons: Maybe[Sequence[Icon]] = None
