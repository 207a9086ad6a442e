"""Normalization of names."""

from hypothesis import given
from hypothesis import strategies as st

from procontext.resolve import canonical, normalise, strip_separators
from procontext.resolve._names import parent_packages

# (query, name)
QUERIES = [
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


def test_normalise() -> None:
    for query, name in QUERIES:
        assert normalise(query) == name, query


@given(st.text())
def test_normalise_is_idempotent(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert not any(character in once for character in "[<>=!~^;")


@given(st.text(alphabet="abc-_. "))
def test_canonical_is_idempotent(text: str) -> None:
    """PEP 503: runs of -, _ and . are equal."""
    assert canonical(canonical(text)) == canonical(text)
    assert strip_separators(canonical(text)) == strip_separators(text)


def test_strip_separators() -> None:
    for name in ["next.js", "next-js", "next_js", "next js", "nextjs"]:
        assert strip_separators(name) == "nextjs", name


PARENTS: list[tuple[str, list[str]]] = [
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
]


def test_parent_packages() -> None:
    """A dot that belongs to a name is not a separator."""
    for name, parents in PARENTS:
        assert list(parent_packages(name)) == parents, name
