"""The five revisions: the features of each, from the changelogs of the specification."""

from jackstay.protocol._versions import ASSUMED_VERSION, REVISIONS, VERSIONS, Era, Revision, newest

H, M = Era.HANDSHAKE, Era.STATELESS

# One row per feature, one value per revision, oldest first.
COLUMNS = [
    ("era", (H, H, H, H, M)),
    ("has_batches", (False, True, False, False, False)),
    ("has_streamable_http", (False, True, True, True, True)),
    ("has_sessions", (False, True, True, True, False)),
    ("has_version_header", (False, False, True, True, True)),
    ("has_method_headers", (False, False, False, False, True)),
    ("has_resumable_streams", (False, True, True, True, False)),
    ("has_polling", (False, False, False, True, False)),
    ("has_server_requests", (True, True, True, True, False)),
    ("omits_unreadable_id", (False, False, False, True, True)),
    ("disconnect_cancels", (False, False, False, False, True)),
    ("has_result_type", (False, False, False, False, True)),
    ("has_structured_output", (False, False, True, True, True)),
    ("resource_not_found", (-32002, -32002, -32002, -32002, -32602)),
]


def test_the_features_of_each_revision(subtests):
    for column, cells in COLUMNS:
        with subtests.test(column=column, cells=cells):
            assert tuple(getattr(row, column) for row in REVISIONS.values()) == cells


def test_every_feature_is_tested():
    assert {"name", *(row[0] for row in COLUMNS)} == set(Revision.__struct_fields__)


def test_there_are_five_revisions_in_order_of_age():
    assert VERSIONS == ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    assert list(VERSIONS) == sorted(VERSIONS)
    assert all(row.name == name for name, row in REVISIONS.items())


def test_the_assumed_version_is_the_first_with_streamable_http():
    assert ASSUMED_VERSION == "2025-03-26"


NEWEST = [
    (VERSIONS, H, "2025-11-25"),
    (VERSIONS, M, "2026-07-28"),
    (("2024-11-05", "2025-06-18"), H, "2025-06-18"),
    (("2025-06-18", "2024-11-05"), H, "2025-06-18"),
    (("2024-11-05",), M, None),
    (("2026-07-28",), H, None),
    ((), H, None),
    (("2099-01-01", "nonsense", ""), M, None),
    (("2099-01-01", "2026-07-28"), M, "2026-07-28"),
]


def test_the_newest_known_version_of_an_era(subtests):
    for versions, era, expected in NEWEST:
        with subtests.test(versions=versions, era=era, expected=expected):
            assert newest(versions, era) == expected
