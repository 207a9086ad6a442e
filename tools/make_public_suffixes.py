"""Generate `procontext/fetch/public_suffixes.txt` from a wheel of the PyPI package `publicsuffixlist`.

pip download --no-deps -d /tmp publicsuffixlist
python tools/make_public_suffixes.py /tmp/publicsuffixlist-*.whl
"""

import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

TARGET = (
    Path(__file__).parent.parent
    / "packages"
    / "jackstay-procontext"
    / "src"
    / "procontext"
    / "fetch"
    / "public_suffixes.txt"
)
MEMBER = "publicsuffixlist/public_suffix_list.dat"

# A list with fewer rules is truncated; the complete list has about ten thousand.
MIN_RULES = 8000


def in_ascii(rule: str) -> str:
    """Return a rule with each label in ASCII, as in a URL."""
    labels = rule.removeprefix("!").split(".")
    written = ".".join(
        label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}" for label in labels
    )
    return f"!{written}" if rule.startswith("!") else written


def rules(text: str) -> Iterator[str]:
    """Return the rules of the list, without comments."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("//"):
            yield in_ascii(line.split()[0].lower())


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with zipfile.ZipFile(arguments[0]) as wheel:
        text = wheel.read(MEMBER).decode("utf-8")
    version = re.search(r"^// VERSION: (\S+)", text, re.MULTILINE)
    found = list(rules(text))
    if version is None or len(found) < MIN_RULES:
        date = "no version" if version is None else f"version {version[1]}"
        print(f"{arguments[0]} is not the complete list: {len(found)} rules, {date}", file=sys.stderr)
        return 1
    head = [
        f"// Public suffix list, {version[1].replace('_', ' ')}; from {Path(arguments[0]).name}",
        "// https://publicsuffix.org/list/ under the Mozilla Public License 2.0, https://mozilla.org/MPL/2.0/",
        "// Comments left out, names in ASCII; made by tools/make_public_suffixes.py",
    ]
    TARGET.write_text("\n".join([*head, *found]) + "\n", encoding="ascii")
    print(f"{TARGET.name}: {len(found)} rules of {version[1]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
