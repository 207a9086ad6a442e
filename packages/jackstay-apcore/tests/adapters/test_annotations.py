"""Annotations as MCP hints and as a description suffix."""

import pytest
from apcore import ModuleAnnotations

from apcore_mcp.adapters import AnnotationMapper

mapper = AnnotationMapper()


HINTS: list[tuple[ModuleAnnotations | None, tuple[bool, bool, bool, bool]]] = [
    (None, (False, False, False, True)),
    (ModuleAnnotations(), (False, False, False, True)),
    (ModuleAnnotations(readonly=True), (True, False, False, True)),
    (ModuleAnnotations(destructive=True), (False, True, False, True)),
    (ModuleAnnotations(idempotent=True), (False, False, True, True)),
    (ModuleAnnotations(open_world=False), (False, False, False, False)),
    (
        ModuleAnnotations(readonly=True, destructive=True, idempotent=True, open_world=False),
        (True, True, True, False),
    ),
]


def test_to_mcp_annotations(subtests: pytest.Subtests) -> None:
    """Missing annotations have the defaults of apcore."""
    for declared, hints in HINTS:
        with subtests.test(declared=declared):
            made = mapper.to_mcp_annotations(declared)
            assert hints == (
                made.read_only_hint,
                made.destructive_hint,
                made.idempotent_hint,
                made.open_world_hint,
            )


SUFFIXES: list[tuple[ModuleAnnotations | None, str]] = [
    (None, ""),
    (ModuleAnnotations(), ""),
    (ModuleAnnotations(readonly=True), "\n\n[Annotations: readonly=true]"),
    (
        ModuleAnnotations(idempotent=True, requires_approval=True, open_world=False),
        "\n\nREQUIRES APPROVAL. A person approves each call before it runs."
        "\n\n[Annotations: idempotent=true, requires_approval=true, open_world=false]",
    ),
    (ModuleAnnotations(streaming=True), "\n\n[Annotations: streaming=true]"),
    (
        ModuleAnnotations(cacheable=True, cache_ttl=60, cache_key_fields=("a", "b"), pagination_style="offset"),
        "\n\n[Annotations: cacheable=true, cache_ttl=60, cache_key_fields=[a,b], pagination_style=offset]",
    ),
    (ModuleAnnotations(extra={"mcp_cost": "high", "mcp_n": 1, "other": "x"}), "\n\ncost: high"),
]


def test_to_description_suffix() -> None:
    for declared, suffix in SUFFIXES:
        assert mapper.to_description_suffix(declared) == suffix, declared


def test_has_requires_approval() -> None:
    assert not mapper.has_requires_approval(None)
    assert not mapper.has_requires_approval(ModuleAnnotations())
    assert mapper.has_requires_approval(ModuleAnnotations(requires_approval=True))
