"""Check a release before it is published: the same version everywhere, and exactly the expected files.

`tools/check_wheel.py` checks that the wheels work; this tool checks their versions and names. The release workflow
calls it with the pushed tag and a directory that has one directory of built files for each distribution.
"""

import argparse
import json
import re
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each distribution, and the import package in it.
DISTRIBUTIONS = {"jackstay": "jackstay", "jackstay-apcore": "apcore_mcp", "jackstay-procontext": "procontext"}


def declared_version(distribution: str, root: Path = ROOT) -> str:
    """Return the version in the source of a distribution."""
    path = root / "packages" / distribution / "src" / DISTRIBUTIONS[distribution] / "_version.py"
    found = re.search(r'^__version__ = "([^"]+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f'{path}: no line __version__ = "..."')
    return found[1]


def check_versions(tag: str, root: Path = ROOT) -> list[str]:
    """Compare the tag with every place that has the version; return one line for each difference."""
    version = tag.removeprefix("v")
    problems = [] if tag.startswith("v") else [f"the tag is {tag!r}; it must be v and the version, such as v0.1.0"]
    for distribution in DISTRIBUTIONS:
        found = declared_version(distribution, root)
        if found != version:
            problems.append(f"{distribution}: the source has version {found}, the tag has {version}")
        manifest = root / "packages" / distribution / "server.json"
        if manifest.exists():
            server = json.loads(manifest.read_text(encoding="utf-8"))
            found_in_manifest = {server["version"], *(package["version"] for package in server["packages"])}
            if found_in_manifest != {version}:
                problems.append(
                    f"{distribution}: server.json has version {sorted(found_in_manifest)}, the tag has {version}"
                )
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[?v?{re.escape(version)}\b", changes, re.MULTILINE):
        problems.append(f"CHANGELOG.md has no section for {version}; rename 'Unreleased' and add its date")
    return problems


def metadata(path: Path) -> str:
    """Return the core metadata of a wheel or a source distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            return wheel.read(name).decode()
    with tarfile.open(path) as archive:
        member = archive.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        if member is None:
            raise ValueError(f"{path.name}: PKG-INFO is not a file")
        return member.read().decode()


def check_files(dist: Path, version: str) -> list[str]:
    """Check that every distribution has one wheel and one source distribution of this version, and nothing else."""
    problems = []
    for distribution in DISTRIBUTIONS:
        stem = f"{distribution.replace('-', '_')}-{version}"
        expected = {f"{stem}.tar.gz", f"{stem}-py3-none-any.whl"}
        # build writes a .gitignore into the directory.
        found = {path.name for path in (dist / distribution).glob("*") if path.name != ".gitignore"}
        if found != expected:
            problems.append(f"{dist / distribution} has {sorted(found)}; expected {sorted(expected)}")
            continue
        for name in sorted(expected):
            headers = HeaderParser().parsestr(metadata(dist / distribution / name))
            if (headers["Name"], headers["Version"]) != (distribution, version):
                problems.append(
                    f"{name}: the metadata has {headers['Name']} {headers['Version']}; "
                    f"expected {distribution} {version}"
                )
    return problems


def main(arguments: list[str] | None = None) -> int:
    """Print every problem and return 1, or return 0."""
    parser = argparse.ArgumentParser(description="Check versions and files before a release is published.")
    parser.add_argument("--tag", required=True, help="the pushed tag, such as v0.1.0")
    parser.add_argument("dist", type=Path, help="the directory with one directory for each distribution")
    options = parser.parse_args(arguments)
    problems = check_versions(options.tag) + check_files(options.dist, options.tag.removeprefix("v"))
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{2 * len(DISTRIBUTIONS)} files of version {options.tag.removeprefix('v')} are ready to publish.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
