"""Build the three distributions, install them into an empty environment, and use them there.

The wheel is built from the source archive, so that both are tested. Without options, `jackstay` is installed alone and
must not install its siblings; with `--all`, it is installed with every extra, and all three commands are used.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
# Each distribution, and the import package in it.
DISTRIBUTIONS = {"jackstay": "jackstay", "jackstay-apcore": "apcore_mcp", "jackstay-procontext": "procontext"}

# The installed distributions after an installation without extras.
EXPECTED_INSTALLED = {"jackstay", "msgspec"}
PREINSTALLED = {"pip", "setuptools", "wheel"}


class Use(NamedTuple):
    """One command: its arguments, the expected exit code, and text in its output."""

    arguments: tuple[str, ...]
    code: int
    output: str


USES = (
    Use(("jackstay", "--version"), 0, "jackstay "),
    Use(("jackstay", "--help"), 0, "states"),
    *(Use(("jackstay", "states", "--format", form), 0, "") for form in ("table", "mermaid", "dot")),
    *(Use(("jackstay", "states", name), 0, "") for name in ("client", "server", "exchange")),
    Use(("jackstay", "nonsense"), 2, "nonsense"),
    Use(("python", "-m", "jackstay", "--version"), 0, "jackstay "),
)


ECHO = str(ROOT / "examples" / "echo.py")
MODULES = str(ROOT / "examples" / "apcore_demo" / "extensions")
USES_WITH_EVERYTHING = (
    Use(("jackstay", "call", "echo", "text=hello", "--", "python", ECHO), 0, "hello"),
    Use(("apcore-mcp", "--extensions-dir", MODULES, "--check"), 0, " served, 0 skipped"),
    Use(("apcore-mcp", "--extensions-dir", MODULES, "--export", "openai"), 0, '"function"'),
    Use(("procontext", "resolve", "beautifulsoup4"), 0, "beautifulsoup4"),
    Use(("procontext", "--version"), 0, "procontext "),
)


class CheckFailedError(Exception):
    """A check of a distribution failed; the message describes the problem."""


def main() -> int:
    """Build, install and use the distributions. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Build the wheel, install it into an empty environment, use it.")
    parser.add_argument("--all", action="store_true", help="install with every extra")
    has_everything = parser.parse_args().all
    try:
        with tempfile.TemporaryDirectory(prefix="jackstay-wheel-") as folder:
            wheels = []
            for distribution, package in DISTRIBUTIONS.items():
                archive, wheel = build(distribution, Path(folder) / "dist" / distribution)
                check_archive(archive)
                check_wheel(wheel, distribution, package)
                wheels.append(str(wheel))
            wanted = [f"{wheels[0]}[all]", *wheels[1:]] if has_everything else wheels[:1]
            binaries = install(wanted, Path(folder) / "environment")
            if not has_everything:
                check_installed(binaries)
            packages = list(DISTRIBUTIONS.values())[: len(wanted)]
            for package in packages:
                check_import(binaries, package)
            uses = USES_WITH_EVERYTHING if has_everything else USES
            for use in uses:
                check_use(binaries, use)
    except CheckFailedError as failure:
        print(f"The check failed: {failure}", file=sys.stderr)
        return 1
    how = "with every extra" if has_everything else "without extras"
    print(
        f"{len(wheels)} wheels built, {len(wanted)} installed {how}, {len(packages)} packages imported, {len(uses)} "
        f"commands run."
    )
    return 0


def run(arguments: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program outside the import paths of the repository, with a timeout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = os.pathsep.join((str(Path(arguments[0]).parent), environment.get("PATH", os.defpath)))
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=600, check=False, cwd=folder, env=environment
    )


def run_checked(arguments: list[str], folder: Path | None = None) -> str:
    """Run a program that must succeed, and return its output."""
    done = run(arguments, folder)
    if done.returncode != 0:
        raise CheckFailedError(f"{' '.join(arguments)} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(distribution: str, folder: Path) -> tuple[Path, Path]:
    """Build the source archive, and the wheel from it."""
    run_checked(
        [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--outdir",
            str(folder),
            str(ROOT / "packages" / distribution),
        ]
    )
    archives, wheels = list(folder.glob("*.tar.gz")), list(folder.glob("*.whl"))
    if len(archives) != 1 or len(wheels) != 1:
        raise CheckFailedError(f"built {archives} and {wheels}, not one of each")
    return archives[0], wheels[0]


def check_archive(archive: Path) -> None:
    """Check that the source archive is complete and contains no local files."""
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    wanted = {"LICENSE", "README.md", "pyproject.toml"}
    if not wanted <= names:
        raise CheckFailedError(f"{archive.name} lacks {sorted(wanted - names)}")
    unwanted = [name for name in names if name.startswith((".venv", ".git/", ".ci", "dist"))]
    if unwanted:
        raise CheckFailedError(f"{archive.name} contains {unwanted[:5]}")


def check_wheel(wheel: Path, distribution: str, package: str) -> None:
    """Check that the wheel contains every source file, and nothing but the packages and their metadata."""
    with zipfile.ZipFile(wheel) as opened:
        packed = set(opened.namelist())
        metadata = next(name for name in packed if name.endswith(".dist-info/METADATA"))
        text = opened.read(metadata).decode()
    folder = metadata.partition("/")[0]
    source = ROOT / "packages" / distribution / "src"
    sources = {
        str(path.relative_to(source))
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if not sources <= packed:
        raise CheckFailedError(f"{wheel.name} lacks {sorted(sources - packed)}")
    foreign = {name.partition("/")[0] for name in packed} - {package, folder}
    if foreign:
        raise CheckFailedError(f"{wheel.name} would also install {sorted(foreign)}")
    for line in ("License-Expression: Apache-2.0", "License-File: LICENSE", "Requires-Python: >=3.11"):
        if line not in text.splitlines():
            raise CheckFailedError(f"the metadata of {wheel.name} does not contain {line!r}")
    if f"{folder}/licenses/LICENSE" not in packed:
        raise CheckFailedError(f"{wheel.name} does not contain the licence")


def install(wheels: list[str], environment: Path) -> Path:
    """Create an environment with only these wheels; return the folder of its programs."""
    venv.create(environment, with_pip=True)
    binaries = environment / ("Scripts" if os.name == "nt" else "bin")
    run_checked(
        [
            str(binaries / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *wheels,
        ]
    )
    return binaries


def check_installed(binaries: Path) -> None:
    """Check that only declared dependencies are installed, and that they are compatible."""
    python = str(binaries / "python")
    rows = json.loads(run_checked([python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]))
    installed = {row["name"].lower() for row in rows} - PREINSTALLED
    if installed != EXPECTED_INSTALLED:
        expected = sorted(EXPECTED_INSTALLED)
        raise CheckFailedError(f"without extras, {sorted(installed)} was installed, not {expected}")
    run_checked([python, "-m", "pip", "check"])


# The modules that no extra has: agent frameworks, which adapters import, and aiohttp for `http(client=...)`.
WITHOUT_EXTRA = (
    "PIL agents aiohttp autogen_agentchat autogen_core crewai google langchain_core llama_index mcp pydantic"
    " pydantic_ai pydantic_core semantic_kernel smolagents strands"
)


def check_import(binaries: Path, package: str) -> None:
    """Import every module from the new environment.

    A module of an extra may lack the libraries of that extra, and nothing else.
    """
    code = (
        f"import importlib, pkgutil, {package} as package\n"
        "from jackstay.errors import UsageError\n"
        "from jackstay.extras import EXTRAS\n"
        f"libraries = {{name for names in EXTRAS.values() for name in names}} | {set(WITHOUT_EXTRA.split())}\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    try:\n"
        "        importlib.import_module(module.name)\n"
        "    except (ModuleNotFoundError, UsageError) as error:\n"
        "        missing = error if isinstance(error, ModuleNotFoundError) else error.__cause__\n"
        "        if not isinstance(missing, ModuleNotFoundError) or missing.name.partition('.')[0] not in libraries:\n"
        "            raise\n"
        "for name in package.__all__:\n"
        "    try:\n"
        "        getattr(package, name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        if error.name.partition('.')[0] not in libraries:\n"
        "            raise\n"
        "print(package.__file__)\n"
    )
    where = run_checked([str(binaries / "python"), "-I", "-W", "error", "-c", code], binaries.parent).strip()
    if binaries.parent.resolve() not in Path(where).resolve().parents:
        raise CheckFailedError(f"{package} was imported from {where}")


def check_use(binaries: Path, use: Use) -> None:
    """Run a command, and check its exit code and output."""
    done = run([str(binaries / use.arguments[0]), *use.arguments[1:]], binaries.parent)
    output = done.stdout + done.stderr
    command = " ".join(use.arguments)
    if done.returncode != use.code:
        raise CheckFailedError(f"`{command}` exited with {done.returncode}, not {use.code}:\n{output}")
    if use.output not in output or not output.strip() or "Traceback" in output:
        raise CheckFailedError(f"`{command}` printed:\n{output}")


if __name__ == "__main__":
    sys.exit(main())
