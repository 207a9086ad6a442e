"""F-002: annotations as hints and as words."""

import pytest
from apcore import ModuleAnnotations

from apcore_mcp.adapters import AnnotationMapper

mapper = AnnotationMapper()


@pytest.mark.parametrize(
    ("declared", "hints"),
    [
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
    ],
)
def test_annotations_are_the_four_hints(
    declared: ModuleAnnotations | None, hints: tuple[bool, bool, bool, bool]
) -> None:
    """F-002; for None the seed's values, spelled out, for direct callers."""
    made = mapper.to_mcp_annotations(declared)
    assert hints == (
        made.read_only_hint,
        made.destructive_hint,
        made.idempotent_hint,
        made.open_world_hint,
    )


@pytest.mark.parametrize(
    ("declared", "suffix"),
    [
        (None, ""),
        (ModuleAnnotations(), ""),
        (ModuleAnnotations(readonly=True), "\n\n[Annotations: readonly=true]"),
        (
            ModuleAnnotations(idempotent=True, requires_approval=True, open_world=False),
            "\n\n[Annotations: idempotent=true, requires_approval=true, open_world=false]",
        ),
        (ModuleAnnotations(streaming=True), ""),
    ],
)
def test_the_suffix_says_only_what_is_off_its_default(
    declared: ModuleAnnotations | None, suffix: str
) -> None:
    """F-002, F-011: the exact text."""
    assert mapper.to_description_suffix(declared) == suffix


def test_approval_is_required_only_where_it_is_declared() -> None:
    """F-002."""
    assert not mapper.has_requires_approval(None)
    assert not mapper.has_requires_approval(ModuleAnnotations())
    assert mapper.has_requires_approval(ModuleAnnotations(requires_approval=True))
