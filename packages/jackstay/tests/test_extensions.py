"""The declaration of an extension."""

from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.extensions import Extension, check_extensions


def test_an_extension_has_an_identifier_and_settings() -> None:
    extension = Extension("com.example/counts", settings={"max": 10})
    assert (extension.identifier, extension.settings) == ("com.example/counts", {"max": 10})
    assert repr(extension) == "<Extension com.example/counts>"


@pytest.mark.parametrize("identifier", ["", "counts", "/counts", "com.example/", "com example/counts", 3])
def test_an_identifier_has_a_prefix_and_a_name(identifier: Any) -> None:
    with pytest.raises(UsageError, match="identifier must be"):
        Extension(identifier)


def test_settings_are_json_and_since_is_a_revision() -> None:
    with pytest.raises(UsageError):
        Extension("com.example/counts", settings={"x": object()})  # type: ignore[dict-item]  # not JSON
    with pytest.raises(UsageError, match="since must be one of"):
        Extension("com.example/counts", since="2020-01-01")


def test_a_name_is_registered_once() -> None:
    extension = Extension("com.example/counts")

    @extension.method("counts/get")
    async def get(ctx: Any, params: Any) -> dict[str, int]:
        return {}

    with pytest.raises(UsageError, match="'counts/get' is registered twice"):
        extension.method("counts/get")(get)
    with pytest.raises(UsageError, match="expected a name as str"):
        extension.intercept(get)  # type: ignore[arg-type]  # without parentheses


def test_extensions_have_distinct_identifiers() -> None:
    one, other = Extension("com.example/counts"), Extension("com.example/counts")
    assert check_extensions(one) == check_extensions([one]) == (one,)
    with pytest.raises(UsageError, match="passed twice"):
        check_extensions([one, other])
    with pytest.raises(UsageError, match="must be Extension objects"):
        check_extensions(["com.example/counts"])
