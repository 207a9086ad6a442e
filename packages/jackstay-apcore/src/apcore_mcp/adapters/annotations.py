"""What a module says of its behaviour, in the words of MCP, and as a suffix of a description for those who have no words.

apcore's `readonly`, `destructive`, `idempotent` and `open_world` are MCP's four hints. `requires_approval` has no hint: it
is held to by the router, not told.

Pure: must never know a registry or a server. Above: the catalogue, the factory, the exports. Below: `jackstay.types`.
"""

from typing import TYPE_CHECKING, Final, Protocol

from jackstay.types import ToolAnnotations

if TYPE_CHECKING:
    from apcore import ModuleAnnotations  # type: ignore[import-untyped]  # apcore ships no types

# As apcore has them; a value that is one of these says nothing.
DEFAULTS: Final = {
    "readonly": False,
    "destructive": False,
    "idempotent": False,
    "requires_approval": False,
    "open_world": True,
}


class Declared(Protocol):
    """The part of apcore's `ModuleAnnotations` that is read here."""

    @property
    def readonly(self) -> bool:
        """It only reads."""

    @property
    def destructive(self) -> bool:
        """It may destroy something."""

    @property
    def idempotent(self) -> bool:
        """Twice is once."""

    @property
    def requires_approval(self) -> bool:
        """A person must agree to each call."""

    @property
    def open_world(self) -> bool:
        """It reaches out of this process."""


class AnnotationMapper:
    """Maps what modules declare. Nothing here raises."""

    def to_mcp_annotations(self, annotations: "Declared | ModuleAnnotations | None") -> ToolAnnotations:
        """The four hints. None gives apcore's defaults, spelled out; a server leaves the hints out instead."""
        declared = annotations if annotations is not None else _Nothing()
        return ToolAnnotations(
            read_only_hint=declared.readonly,
            destructive_hint=declared.destructive,
            idempotent_hint=declared.idempotent,
            open_world_hint=declared.open_world,
        )

    def to_description_suffix(self, annotations: "Declared | ModuleAnnotations | None") -> str:
        r"""`\n\n[Annotations: readonly=true, ...]` with the values that are off their defaults; empty if none is."""
        if annotations is None:
            return ""
        values = {name: bool(getattr(annotations, name, default)) for name, default in DEFAULTS.items()}
        said = [f"{name}={str(value).lower()}" for name, value in values.items() if value != DEFAULTS[name]]
        return f"\n\n[Annotations: {', '.join(said)}]" if said else ""

    def has_requires_approval(self, annotations: "Declared | ModuleAnnotations | None") -> bool:
        """True if a person must agree to each call."""
        return annotations is not None and annotations.requires_approval is True


class _Nothing:
    readonly = DEFAULTS["readonly"]
    destructive = DEFAULTS["destructive"]
    idempotent = DEFAULTS["idempotent"]
    requires_approval = DEFAULTS["requires_approval"]
    open_world = DEFAULTS["open_world"]


__all__ = ["DEFAULTS", "AnnotationMapper", "Declared"]
