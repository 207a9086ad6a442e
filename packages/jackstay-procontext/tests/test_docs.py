"""docs/procontext.md: generated tables and examples."""

import importlib.util
import re
from pathlib import Path

import pytest

from procontext.config import load
from procontext.registry import Registry
from scripted import certificates
from scripted.places import ROOT

PAGE = (ROOT / "docs" / "procontext.md").read_text(encoding="utf-8")


def test_generated_tables_are_current() -> None:
    """tools/make_procontext_docs.py: settings, errors, commands, registry."""
    spec = importlib.util.spec_from_file_location("make_procontext_docs", ROOT / "tools" / "make_procontext_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(["--check"]) == 0
    with pytest.raises(SystemExit, match="there is no place for settings"):
        module.filled("nothing")


def test_settings_examples_are_valid(tmp_path: Path) -> None:
    sources, container = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "procontext.yaml").write_text(sources)
    (tmp_path / "docs").mkdir()
    certificates.make(tmp_path)[1].rename(tmp_path / "corp-ca.pem")
    file = str(tmp_path / "procontext.yaml")
    config = load(file, environment={"SDK_TOKEN": "x"})
    assert [source.id for source in config.sources] == ["intranet-sdk", "handbook"]
    (tmp_path / "procontext.yaml").write_text(container)
    config = load(file, environment={})
    assert config.server.allowed_hosts == ("docs.corp.example", "procontext:8080")


NAMES = (
    *("langchain[openai]>=0.3", "react@18", "numpy.linalg", "react-dom/client", "cv2", "fastapi", "vue 3"),
    *("import numpy as np", "pip install fastapi", "@types/react"),
)


def test_name_examples_resolve() -> None:
    registry = Registry()
    registry.load()
    for name in NAMES:
        assert registry.resolve(name)[0].relevance == 1.0, name


def test_undocumented_libraries_of_the_page() -> None:
    """The `docs_url` of these libraries is null."""
    registry = Registry()
    registry.load()
    for name in ("ws", "yup"):
        (match,) = registry.resolve(name)
        assert (match.matched_via, match.docs_url) == ("package_name", None)
        library = registry.get(match.library_id)
        assert library is not None
        assert library.llms_txt_url is None
