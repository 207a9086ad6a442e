"""Normalisation: reference, 2.1, and the npm forms of the design's section 1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.resolve import canonical, normalise, squashed
from procontext.resolve._names import packages_above

# (what is typed, the name it means)
ROWS = [
    ("langchain", "langchain"),
    ("LangChain", "langchain"),
    ("  langchain-openai  ", "langchain-openai"),
    ("langchain[openai]>=0.3", "langchain"),
    ("langchain-openai>=0.3", "langchain-openai"),
    ("a==1", "a"),
    ("a ~= 1.0", "a"),
    ("a<2", "a"),
    ("a>2", "a"),
    ("a!=2", "a"),
    ("a^2", "a"),
    ("a>=1,<2", "a"),
    ("a; python_version < '3.9'", "a"),
    ("a @ https://example.com/a.whl", "a"),
    ("react@18", "react"),
    ("react@latest", "react"),
    ("@scope/pkg@^1", "@scope/pkg"),
    ("@scope/pkg", "@scope/pkg"),
    ('"numpy"', "numpy"),
    ("`numpy`", "numpy"),
    ("ＮｕｍＰｙ", "numpy"),
    ("import numpy", "numpy"),
    ("import numpy as np", "numpy"),
    ("import os, sys", "os"),
    ("from sklearn.linear_model import Ridge", "sklearn.linear_model"),
    ("seaborn as sns", "seaborn"),
    ("import React from 'react'", "react"),
    ('import { z } from "zod";', "zod"),
    ("import 'dotenv/config'", "dotenv/config"),
    ("const { readFile } = require('fs-extra')", "fs-extra"),
    ("await import('@scope/pkg')", "@scope/pkg"),
    ("pip install fastapi", "fastapi"),
    ("python -m pip install -U 'uvicorn[standard]>=0.30'", "uvicorn"),
    ("uv add --dev ruff", "ruff"),
    ("npm i -D @types/node@20", "@types/node"),
    ("pnpm add zod", "zod"),
    ("import", "import"),
    ("export", "export"),
    ("imports", "imports"),
    ("import-x as", "import-x as"),
    ("", ""),
    ("   ", ""),
    ("[extra]", ""),
    (">=1", ""),
]


@pytest.mark.parametrize(("typed", "name"), ROWS)
def test_a_query_is_stripped_to_the_name_it_means(typed: str, name: str) -> None:
    """Reference 2.1: extras and specifiers are stripped, the input lowercased and trimmed."""
    assert normalise(typed) == name


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    """A name that was normalised is one; nothing is ever raised."""
    once = normalise(text)
    assert normalise(once) == once
    assert not any(character in once for character in "[<>=!~^;")


@given(st.text(alphabet="abc-_. "))
def test_a_canonical_name_is_its_own(text: str) -> None:
    """PEP 503: runs of -, _ and . are one, and nothing stands at the ends."""
    assert canonical(canonical(text)) == canonical(text)
    assert squashed(canonical(text)) == squashed(text)


@pytest.mark.parametrize("name", ["next.js", "next-js", "next_js", "next js", "nextjs"])
def test_spellings_of_one_name_squash_to_one(name: str) -> None:
    """The design's promise: any name a developer would type."""
    assert squashed(name) == "nextjs"


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("numpy.linalg", ["numpy"]),
        ("google.cloud.storage", ["google.cloud", "google"]),
        ("react-dom/client", ["react-dom"]),
        ("@mui/material/button", ["@mui/material"]),
        ("@mui/material", []),
        ("web3.js", []),
        ("socket.io", []),
        ("numpy", []),
        ("a..b", []),
        ("node:fs", ["node"]),
        ("@types/react", ["react"]),
        ("@types/testing-library__react", ["@testing-library/react"]),
        ("vue 3", ["vue"]),
        ("pydantic v2.7", ["pydantic"]),
        ("3", []),
        ("/x", []),
    ],
)
def test_a_module_or_subpath_leads_to_its_packages(name: str, above: list[str]) -> None:
    """Import paths are names that developers type; a dot that belongs to a name is left alone."""
    assert list(packages_above(name)) == above
