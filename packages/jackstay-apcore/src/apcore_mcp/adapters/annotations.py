"""Annotations of apcore modules as MCP tool annotations, and as a suffix of a description.

`readonly`, `destructive`, `idempotent` and `open_world` are the four hints of MCP. `requires_approval` has no hint; the
router enforces it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from apcore_mcp.compat.results import Hints

if TYPE_CHECKING:
    from apcore import ModuleAnnotations  # type: ignore[import-untyped]  # apcore ships no types

# The defaults of apcore; these values are omitted from the suffix.
DEFAULTS: Final = {
    "readonly": False,
    "destructive": False,
    "idempotent": False,
    "requires_approval": False,
    "open_world": True,
}


# Annotations without an equivalent in MCP, with their defaults.
_MORE: Final = {
    "streaming": False,
    "cacheable": False,
    "cache_ttl": 0,
    "cache_key_fields": None,
    "paginated": False,
    "pagination_style": "cursor",
}


# What models read about annotations that are set.
_WARNINGS: Final = {
    "destructive": "WARNING: DESTRUCTIVE. It can delete or overwrite data; confirm with the user first.",
    "requires_approval": "REQUIRES APPROVAL. A person approves each call before it runs.",
}


# All defaults, by the name that apcore-mcp has for them.
DEFAULT_ANNOTATIONS: Final[Mapping[str, Any]] = {**DEFAULTS, **_MORE}


class DeclaredAnnotations(Protocol):
    """The part of apcore's `ModuleAnnotations` that is read here."""

    @property
    def readonly(self) -> bool:
        """Whether the module only reads."""

    @property
    def destructive(self) -> bool:
        """Whether the module may destroy data."""

    @property
    def idempotent(self) -> bool:
        """Whether a repeated call has no further effect."""

    @property
    def requires_approval(self) -> bool:
        """Whether a user must approve each call."""

    @property
    def open_world(self) -> bool:
        """Whether the module interacts with external systems."""


class AnnotationMapper:
    """Maps the annotations of modules. Does not raise."""

    def to_mcp_annotations(self, annotations: "DeclaredAnnotations | ModuleAnnotations | None") -> Hints:
        """Return the four hints; for None, the defaults of apcore. (A server omits the hints instead.)"""
        declared = annotations if annotations is not None else _NoAnnotations()
        return Hints(
            read_only_hint=declared.readonly,
            destructive_hint=declared.destructive,
            idempotent_hint=declared.idempotent,
            open_world_hint=declared.open_world,
        )

    def to_description_suffix(self, annotations: "DeclaredAnnotations | ModuleAnnotations | None") -> str:
        r"""Return `\n\n[Annotations: readonly=true, ...]` with the values that are not defaults, or "".

        Sentences for models come first, if the module is destructive or needs approval.
        """
        if annotations is None:
            return ""
        values = {name: bool(getattr(annotations, name, default)) for name, default in DEFAULTS.items()}
        parts = [f"{name}={str(value).lower()}" for name, value in values.items() if value != DEFAULTS[name]]
        for name in _MORE:
            value = getattr(annotations, name, None)
            if value and value != _MORE[name]:
                shown = f"[{','.join(value)}]" if isinstance(value, list | tuple) else str(value)
                parts.append(f"{name}={shown.lower() if value is True else shown}")
        extra = getattr(annotations, "extra", None)
        lines = [
            f"{key.removeprefix('mcp_')}: {value}"
            for key, value in sorted(extra.items() if isinstance(extra, Mapping) else ())
            if key.startswith("mcp_") and isinstance(value, str)
        ]
        block = f"[Annotations: {', '.join(parts)}]" if parts else ""
        warnings = "\n".join(text for name, text in _WARNINGS.items() if values[name])
        shown = "\n".join(part for part in (block, *lines) if part)
        return "".join(f"\n\n{part}" for part in (warnings, shown) if part)

    def has_requires_approval(self, annotations: "DeclaredAnnotations | ModuleAnnotations | None") -> bool:
        """Return whether a user must approve each call."""
        return annotations is not None and annotations.requires_approval is True


class _NoAnnotations:
    readonly = DEFAULTS["readonly"]
    destructive = DEFAULTS["destructive"]
    idempotent = DEFAULTS["idempotent"]
    requires_approval = DEFAULTS["requires_approval"]
    open_world = DEFAULTS["open_world"]


__all__ = ["DEFAULTS", "DEFAULT_ANNOTATIONS", "AnnotationMapper", "DeclaredAnnotations"]
