"""JSON forms of the data types."""

import msgspec

from procontext.models import Library, Match, Packages


def test_match_as_json() -> None:
    match = Match("langchain", "LangChain", ("python",), "https://docs.langchain.com", "package_name", 1.0)
    assert msgspec.json.decode(msgspec.json.encode(match)) == {
        "library_id": "langchain",
        "name": "LangChain",
        "languages": ["python"],
        "docs_url": "https://docs.langchain.com",
        "matched_via": "package_name",
        "relevance": 1.0,
    }


def test_library_omits_defaults() -> None:
    """This keeps the registry file small."""
    library = Library(id="a", name="A", packages=Packages(pypi=("a",)))
    written = msgspec.json.encode(library)
    assert b"docs_url" not in written
    assert b"headers" not in written
    assert msgspec.json.decode(written, type=Library) == library
