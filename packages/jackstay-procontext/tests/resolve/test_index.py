"""Order of matching stages, ranking, and fuzzy matches."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Indel

from procontext.models import Library, Packages
from procontext.registry import BUNDLED
from procontext.registry._document import read_document
from procontext.resolve import Index, max_edits
from procontext.resolve._index import _FuzzyIndex, bit_changes, letters


def library(
    id: str,
    name: str = "",
    pypi: tuple[str, ...] = (),
    npm: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Library:
    return Library(id=id, name=name or id.title(), packages=Packages(pypi, npm), aliases=aliases)


INDEX = Index(
    [
        library("langchain", "LangChain", ("langchain", "langchain-openai"), ("langchain", "@langchain/core")),
        library("fastapi", "FastAPI", ("fastapi",)),
        library("redis-py", "redis-py", ("redis",)),
        library("redis", "node-redis", (), ("redis",)),
        library("next", "Next.js", (), ("next",), ("nextjs",)),
        library("scikit-learn", "scikit-learn", ("scikit-learn",), (), ("sklearn",)),
        library("django", "Django", ("Django",)),
        library("flask", "Flask", ("flask",)),
        library("one-alias", "One", (), (), ("both",)),
        library("other-alias", "Other", (), (), ("both",)),
        library("both-ways", "Both Ways", (), (), ("aws",)),
        library("aws", "AWS", ("aws",)),
    ]
)


def found(query: str) -> list[tuple[str, str, float]]:
    return [(match.library_id, match.matched_via, match.relevance) for match in INDEX.resolve(query)]


EXACT_MATCHES: list[tuple[str, list[tuple[str, str, float]]]] = [
    ("langchain-openai>=0.3", [("langchain", "package_name", 1.0)]),
    ("@langchain/core@^1", [("langchain", "package_name", 1.0)]),
    ("Scikit_Learn", [("scikit-learn", "package_name", 1.0)]),
    ("one-alias", [("one-alias", "library_id", 1.0)]),
    ("one alias", [("one-alias", "library_id", 1.0)]),
    ("sklearn", [("scikit-learn", "alias", 1.0)]),
    ("Next.js", [("next", "alias", 1.0)]),
    ("next js", [("next", "alias", 1.0)]),
    ("node redis", [("redis", "alias", 1.0)]),
    ("fastapi.testclient", [("fastapi", "package_name", 1.0)]),
    ("xyzzy-nonexistent", []),
    ("", []),
    (">=1", []),
]


def test_first_stage_with_matches_is_used() -> None:
    """The stages are package names, ids and aliases."""
    for query, expected in EXACT_MATCHES:
        assert found(query) == expected, query


def test_package_name_takes_precedence_over_alias() -> None:
    assert found("aws") == [("aws", "package_name", 1.0)]


def test_all_matches_of_a_stage_are_ranked() -> None:
    """One package name can be on PyPI and npm. The library with the same id is first."""
    assert [row[0] for row in found("redis")] == ["redis", "redis-py"]
    assert [row[0] for row in found("both")] == ["one-alias", "other-alias"]


def test_documented_fuzzy_score() -> None:
    assert found("fasapi") == [("fastapi", "fuzzy", 0.92)]


def test_typos_are_matched() -> None:
    for query in ["djagno", "djngo", "djanngo", "djnago"]:
        assert found(query)[0][:2] == ("django", "fuzzy"), query


OTHER_PACKAGES: list[str] = [
    "aw",
    "awz",
    "fastapi-users",
    "flask-login",
    "langchain-openai-extras",
    "aiomysql",
    "dj",
]


def test_other_packages_are_not_matched() -> None:
    """A wrong library is worse than none. Names under four characters match exactly only."""
    for query in OTHER_PACKAGES:
        assert found(query) == [], query


def test_different_short_word_is_another_package() -> None:
    index = Index([library("react-flow"), library("vue-router")])
    assert index.resolve("react-foo") == []
    assert [match.library_id for match in index.resolve("react-folw")] == ["react-flow"]
    assert [match.library_id for match in index.resolve("veu-router")] == ["vue-router"]
    assert [match.library_id for match in index.resolve("vue-rotuer")] == ["vue-router"]


def test_at_most_five_matches_best_first() -> None:
    index = Index([library(f"package-{letter}{letter}name") for letter in "abcdefgh"] + [library("package-namex")])
    matches = index.resolve("package-name")
    assert len(matches) == 5
    assert matches[0].library_id == "package-namex"
    assert [match.relevance for match in matches] == sorted((m.relevance for m in matches), reverse=True)


def test_missing_word_is_another_package() -> None:
    """`react-native-ui` is not a misspelt `react-native`, although it is only three characters longer."""
    assert Index([library("react-native")]).resolve("react-native-ui") == []
    assert Index([library("react")]).resolve("react-ui") == []
    assert Index([library("native-react-u")]).resolve("native-react-ui")[0].library_id == "native-react-u"


FIRST_LETTERS: list[tuple[str, bool]] = [
    ("rypto", True),
    ("ccrypto", True),
    ("vrypto", True),
    ("rcypto", True),
    ("bcrypt", False),
    ("vrypti", False),
]


def test_separator_and_other_letters_are_another_package() -> None:
    """A word more is no typing error, unless it is a part of the name: `cel-python` is not CPython."""
    index = Index([library("cpython"), library("scikit-learn")])
    assert index.resolve("cel-python") == []
    assert [match.library_id for match in index.resolve("c-pythn")] == ["cpython"]
    assert [match.library_id for match in index.resolve("scikitlern")] == ["scikit-learn"]


def test_typo_in_the_first_letter_must_be_the_only_one() -> None:
    """`bcrypt` is not crypto, although they differ in only two letters."""
    for query, is_found in FIRST_LETTERS:
        assert bool(Index([library("crypto")]).resolve(query)) is is_found, query


def test_appended_characters_are_another_package() -> None:
    """`async` is not asyncpg, and `relay` is not ray."""
    for query in ["async", "asyncpgs2", "relay", "asyn"]:
        assert Index([library("asyncpg"), library("ray")]).resolve(query) == [], query


SPELLINGS: list[tuple[str, list[str]]] = [
    ("winstonjs", ["winston"]),
    ("winston.js", ["winston"]),
    ("Winston JS", ["winston"]),
    ("flaskjs", []),
    ("angularjs", []),
    ("angular.js", []),
    ("@types/winston", ["winston"]),
    ("@types/scope__pkg", ["scoped"]),
    ("node:fs/promises", ["node"]),
    ("winston 3", ["winston"]),
    ("flask v3.0.1", ["flask"]),
    ("import flask", ["flask"]),
    ("import winston from 'winston'", ["winston"]),
    ("pip install 'flask[async]>=3'", ["flask"]),
]


def test_spellings_of_a_name(subtests: pytest.Subtests) -> None:
    """A name may have the suffix js or a version, or be in a types package or a line of code."""
    index = Index(
        [
            library("winston", npm=("winston",)),
            library("angular", npm=("@angular/core",)),
            library("scoped", npm=("@scope/pkg",)),
            library("node"),
            library("flask", pypi=("flask",)),
        ]
    )
    for query, expected in SPELLINGS:
        with subtests.test(query=query):
            assert [match.library_id for match in index.resolve(query)] == expected


@given(st.text(max_size=600))
def test_any_query_is_valid(query: str) -> None:
    """No query raises, and fuzzy matches stay above the threshold of 70 %."""
    for match in INDEX.resolve(query):
        assert 0.7 <= match.relevance <= 1.0
        assert (match.relevance == 1.0) == (match.matched_via != "fuzzy") or match.relevance > 0.99


@given(st.text(alphabet="abcdxyz-", min_size=4, max_size=20), st.integers(0, 19))
def test_one_edit_changes_at_most_one_bit(name: str, position: int) -> None:
    """Otherwise the bit sets would exclude names within the allowed edits."""
    shorter = name[: position % len(name)] + name[position % len(name) + 1 :]
    assert (letters(name) ^ letters(shorter)).bit_count() <= 1


def test_library_with_similar_names_is_returned_once() -> None:
    """The match has the score of the best name."""
    (match,) = Index([library("streamlit", pypi=("streamlits",))]).resolve("streamlitt")
    assert (match.library_id, match.relevance) == ("streamlit", 0.95)


def test_typo_with_separator_is_matched() -> None:
    assert Index([library("nextauth")]).resolve("next-autj") != []


def test_scan_and_lookup_find_the_same_names(subtests: pytest.Subtests) -> None:
    """A few bit sets are scanned, many are looked up. No name within the distance is left out."""
    names = [f"{a}{b}{c}{d}" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx" for d in "yz01"]
    positions: dict[int, list[int]] = {}
    for position, name in enumerate(names):
        positions.setdefault(letters(name), []).append(position)
    bits = letters("aiqy")
    for edits in [0, 1, 2, 3]:
        with subtests.test(edits=edits):
            found = _FuzzyIndex(names, [], {4: positions}).candidates(bits, 4, edits)
            expected = [
                position
                for other, same in positions.items()
                if (other ^ bits).bit_count() <= edits // 2 * 2  # names of the same length have an even distance
                for position in same
            ]
            assert sorted(found) == sorted(expected) != []
            near = {position for position, name in enumerate(names) if Indel.distance("aiqy", name) <= edits}
            assert near <= set(found)
            assert len(bit_changes(edits)) == [1, 17, 137, 697][edits]


def test_max_edits() -> None:
    """Short names allow fewer edits; a query has at most 500 characters."""
    assert [max_edits(length) for length in (4, 5, 8, 9, 500, 501)] == [1, 2, 2, 3, 3, 0]


def test_index_is_a_collection() -> None:
    """An index has `get`, iteration and `repr`."""
    assert INDEX.get("fastapi") is not None
    assert INDEX.get("nothing") is None
    assert len(list(INDEX)) == len(INDEX) == 12
    assert repr(INDEX) == "<Index of 12 libraries>"


def test_exact_name_does_not_import_rapidfuzz() -> None:
    """rapidfuzz is imported with the first name without an exact match."""
    program = (
        "import sys; from procontext.models import Library; from procontext.resolve import Index\n"
        "index = Index([Library(id='fastapi', name='FastAPI')]); assert index.resolve('fastapi')\n"
        "assert 'rapidfuzz' not in sys.modules; index.warm(); assert 'rapidfuzz' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)


FORMS = {
    "SQLAlchemy (>=2.0,<3.0)": "sqlalchemy",
    '"react": "^18.2.0"': "react",
    '  "@tanstack/react-query": "~5.0",': "tanstack-query",
    "git+https://github.com/psf/requests.git@main": "requests",
    "SQLAlchemy-2.0.3-cp311-cp311-manylinux_2_17_x86_64.whl": "sqlalchemy",
    "requests-2.31.0.tar.gz": "requests",
    "npm:react": "react",
    "pkg:pypi/django@4.2": "django",
    "@fullcalendar/react": "fullcalendar",
    "@tiptap/starter-kit": "tiptap",
    "@storybook/react": "storybook",
    "@vitejs/plugin-react": "vite",
    "lodash-es": "lodash",
    "react docs": "react",
    "OpenAI SDK": "openai",
    "python requests library": "requests",
    "Next.js 14 app router": "next",
    "np": "numpy",
    "mongo": "pymongo",
    "conda install -c conda-forge pandas": "pandas",
    "uvx ruff": "ruff",
    "npx create-next-app@latest my-app": "next",
    "- name: pandas": "pandas",
    "serde": "serde",
    'serde = { version = "1", features = ["derive"] }': "serde",
    "use serde::Serialize;": "serde",
    "cargo add clap": "clap",
    "pkg:cargo/serde": "serde",
    "rust serde": "serde",
    "github.com/spf13/cobra v1.8.0": "cobra",
    "go get github.com/stretchr/testify@v1.9.0": "testify",
    'import "github.com/spf13/viper"': "viper",
    "go cobra": "cobra",
    "org.apache.commons:commons-lang3:3.12.0": "commons-lang3",
    "implementation 'com.google.guava:guava:33.0'": "guava",
    'testImplementation("com.google.guava:guava")': "guava",
    "<artifactId>commons-io</artifactId>": "commons-io",
    "gem 'rack', '~> 3.0'": "rack",
    "require 'nokogiri'": "nokogiri",
    "gem install sinatra": "sinatra",
    "ruby on rails": "rails",
    "activerecord": "rails",
    '<PackageReference Include="Newtonsoft.Json" Version="13.0.1" />': "newtonsoft-json",
    "using Newtonsoft.Json;": "newtonsoft-json",
    "dotnet add package Serilog": "serilog",
    "csv": "python",  # and a crate and a gem
    "redis": "redis",
}


def test_forms_of_known_names() -> None:
    document = read_document(BUNDLED.read_bytes(), "bundled")
    index = Index(document.libraries, document.undocumented)
    for query, expected in FORMS.items():
        assert [match.library_id for match in index.resolve(query)][:1] == [expected], query
    for query in (
        "ujson",
        "json5",
        "aenum",
        "locket",
        "tomli",
        "jsonn",
        "scapy",
        "oauthlib",
        "triton",
        "bleak",
        "pydub",
    ):
        assert [match for match in index.resolve(query) if match.matched_via == "fuzzy"] == [], query
