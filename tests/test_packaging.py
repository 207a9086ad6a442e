"""Files around the three distributions are consistent: registry manifests, workflows, image, release checks."""

import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from argparse import ArgumentParser
from collections.abc import Collection
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from jackstay.cli import _serve

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import check_release  # noqa: E402  # a script in tools/, found by its directory

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SERVERS = ("jackstay-apcore", "jackstay-procontext")
MCP_NAME = re.compile(r"<!-- mcp-name: (\S+) -->")


def file_name(path: Path) -> str:
    return path.name


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(workflow: Any) -> list[str]:
    """The shell text of every step."""
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


def actions(workflow: Any) -> list[str]:
    return [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", makefile, re.MULTILINE))


def unknown_targets(workflow: Any) -> set[str]:
    """Targets that a workflow calls and the Makefile does not have."""
    called: set[str] = set()
    for text in commands(workflow):
        for words in re.findall(r"^\s*make +(.+)$", text, re.MULTILINE):
            called |= {word for word in words.split() if "=" not in word}
    return called - make_targets()


def excess_permissions(workflow: Any) -> list[str]:
    """Where a workflow has permissions for all of its jobs, or a job inherits what it does not declare."""
    jobs = [name for name, job in workflow["jobs"].items() if "permissions" not in job]
    return jobs if workflow.get("permissions") == {} else ["workflow", *jobs]


# --- the MCP registry -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", SERVERS)
def test_server_json_names_the_version_and_the_distribution(distribution: str) -> None:
    folder = ROOT / "packages" / distribution
    server = json.loads((folder / "server.json").read_text(encoding="utf-8"))
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (package,) = server["packages"]
    assert package["registryType"] == "pypi"
    assert package["identifier"] == project["name"] == distribution
    assert package["transport"] == {"type": "stdio"}
    assert server["version"] == package["version"] == check_release.declared_version(distribution)
    assert importlib.metadata.version(distribution) == server["version"]


@pytest.mark.parametrize("distribution", SERVERS)
def test_the_readme_proves_to_the_registry_who_owns_the_package(distribution: str) -> None:
    folder = ROOT / "packages" / distribution
    server = json.loads((folder / "server.json").read_text(encoding="utf-8"))
    assert MCP_NAME.findall((folder / "README.md").read_text(encoding="utf-8")) == [server["name"]]


# --- workflows --------------------------------------------------------------------------------------------------------


def test_there_are_workflows_for_tests_releases_and_documentation() -> None:
    assert {path.name for path in WORKFLOWS} >= {"tests.yml", "release.yml", "docs.yml"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=file_name)
def test_a_workflow_calls_only_make_targets_that_exist(path: Path) -> None:
    assert unknown_targets(load(path)) == set()


@pytest.mark.parametrize("path", WORKFLOWS, ids=file_name)
def test_a_workflow_calls_only_tools_that_exist(path: Path) -> None:
    called = {name for text in commands(load(path)) for name in re.findall(r"\btools/\w+(?:\.py)?", text)}
    assert [name for name in sorted(called) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=file_name)
def test_every_job_declares_its_permissions(path: Path) -> None:
    assert excess_permissions(load(path)) == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=file_name)
def test_every_action_is_pinned_to_a_commit(path: Path) -> None:
    assert [name for name in actions(load(path)) if not re.search(r"@[0-9a-f]{40}$", name)] == []


def test_the_same_action_has_the_same_commit_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for action in actions(load(path)):
            name, _, commit = action.partition("@")
            pins.setdefault(name, set()).add(commit)
    assert {name: commits for name, commits in pins.items() if len(commits) > 1} == {}


def test_the_tests_workflow_runs_every_step_of_the_local_ci() -> None:
    """`test-all` runs every Python that is installed; the workflow has a matrix instead."""
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    loops = re.findall(r"for target in ([a-z -]+); do", run)
    local = {"environment", *(word for words in loops for word in words.split())}
    text = "\n".join(commands(load(ROOT / ".github" / "workflows" / "tests.yml")))
    assert {target for target in local if not re.search(rf"\bmake {target}\b", text)} == set()


def test_the_release_publishes_every_distribution() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    names = [path.parent.name for path in sorted((ROOT / "packages").glob("*/pyproject.toml"))]
    assert sorted(jobs["publish"]["strategy"]["matrix"]["distribution"]) == names == sorted(check_release.DISTRIBUTIONS)


def test_a_planted_unknown_target_and_planted_permissions_are_found() -> None:
    workflow = {"jobs": {"a": {"steps": [{"run": "make nonsense lint PYTHON=x\nmake test"}]}}}
    assert unknown_targets(workflow) == {"nonsense"}
    assert excess_permissions(workflow) == ["workflow", "a"]
    assert excess_permissions({**workflow, "permissions": {}}) == ["a"]


# --- the container image ----------------------------------------------------------------------------------------------


def test_the_image_has_a_supported_python() -> None:
    images = re.findall(r"^FROM python:(\d+\.\d+)-slim", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert len(images) == 2
    assert len(set(images)) == 1
    for path in (ROOT / "packages").glob("*/pyproject.toml"):
        classifiers = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["classifiers"]
        assert f"Programming Language :: Python :: {images[0]}" in classifiers


def test_the_image_copies_only_what_exists_and_is_not_ignored() -> None:
    """`.dockerignore` excludes everything and then includes paths again."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = re.findall(r"^COPY (?!--from)(\S+) ", dockerfile, re.MULTILINE)
    assert copied
    assert [name for name in copied if not (ROOT / name).exists() or f"!{name}" not in ignored] == []
    assert set(re.findall(r"\./packages/([a-z-]+)", dockerfile)) == set(check_release.DISTRIBUTIONS)


def test_the_image_does_not_run_as_root_and_is_checked_at_health() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    last_stage = dockerfile.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d*$", last_stage, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*\\\n.*/health", last_stage, re.MULTILINE)


def test_the_composed_services_are_reachable_from_this_machine_only() -> None:
    services = load(ROOT / "compose.yaml")["services"]
    assert [name for name, row in services.items() if "ports" in row] == ["nginx"]
    assert all(port.startswith("127.0.0.1:") for port in services["nginx"]["ports"])
    for name in ("server-1", "server-2"):
        assert any("/health" in word for word in services[name]["healthcheck"]["test"])
        assert f"server {name}:8000 max_fails=0;" in (ROOT / "examples/several_machines/nginx.conf").read_text()
        check_serve_command(services[name]["command"], services[name]["environment"])
    files = [volume.split(":")[0] for row in services.values() for volume in row.get("volumes", ())]
    assert [name for name in files if name.startswith(".") and not (ROOT / name).exists()] == []


def test_the_kubernetes_manifest_starts_the_server_with_its_variables() -> None:
    page = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
    (manifest,) = re.findall(r"```yaml\n(apiVersion: .*?)```", page, re.DOTALL)
    deployments = [row for row in yaml.safe_load_all(manifest) if row["kind"] == "Deployment"]
    assert len(deployments) == 2
    for row in deployments:
        (container,) = row["spec"]["template"]["spec"]["containers"]
        check_serve_command(container["args"], {item["name"] for item in container["env"]})


def check_serve_command(command: list[str], environment: Collection[str]) -> None:
    """The command has only options that exist, and its variables are set."""
    program, name, *arguments = command
    assert (program, name) == ("jackstay", "serve")
    parser = ArgumentParser(exit_on_error=False, allow_abbrev=False)
    _serve.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    _serve.http_options(parsed)
    assert parsed.backend in environment
    assert "REQUEST_STATE_SECRET" in environment


# --- release checks ---------------------------------------------------------------------------------------------------


def make_dist(folder: Path, version: str = "0.1.0") -> Path:
    """Write the six files of a release, with nothing in them except their metadata."""
    for distribution in check_release.DISTRIBUTIONS:
        stem = f"{distribution.replace('-', '_')}-{version}"
        text = f"Metadata-Version: 2.4\nName: {distribution}\nVersion: {version}\n".encode()
        (folder / distribution).mkdir(parents=True)
        with zipfile.ZipFile(folder / distribution / f"{stem}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}.dist-info/METADATA", text)
        with tarfile.open(folder / distribution / f"{stem}.tar.gz", "w:gz") as archive:
            member = tarfile.TarInfo(f"{stem}/PKG-INFO")
            member.size = len(text)
            archive.addfile(member, BytesIO(text))
    return folder


def make_source(folder: Path, version: str = "0.1.0", manifest: str = "0.1.0", changes: str = "0.1.0") -> Path:
    """Write the files that have a version, as the repository has them."""
    for distribution, package in check_release.DISTRIBUTIONS.items():
        source = folder / "packages" / distribution / "src" / package
        source.mkdir(parents=True)
        (source / "_version.py").write_text(f'"""The version."""\n\n__version__ = "{version}"\n', encoding="utf-8")
    server = {"version": manifest, "packages": [{"version": manifest}]}
    (folder / "packages" / "jackstay-apcore" / "server.json").write_text(json.dumps(server), encoding="utf-8")
    (folder / "CHANGELOG.md").write_text(f"# Changes\n\n## {changes} (2026-12-01)\n", encoding="utf-8")
    return folder


def test_a_complete_release_has_no_problems(tmp_path: Path) -> None:
    assert check_release.check_versions("v0.1.0", make_source(tmp_path / "source")) == []
    assert check_release.check_files(make_dist(tmp_path / "dist"), "0.1.0") == []


@pytest.mark.parametrize(
    ("tag", "source", "expected"),
    [
        ("0.1.0", {}, "it must be v and the version"),
        ("v0.2.0", {"manifest": "0.2.0", "changes": "0.2.0"}, "jackstay: the source has version 0.1.0"),
        ("v0.1.0", {"manifest": "0.0.9"}, "server.json has version ['0.0.9']"),
        ("v0.1.0", {"changes": "Unreleased"}, "CHANGELOG.md has no section for 0.1.0"),
        ("v0.1.0", {"changes": "0.1.01"}, "CHANGELOG.md has no section for 0.1.0"),
    ],
)
def test_a_version_that_differs_is_found(tmp_path: Path, tag: str, source: dict[str, str], expected: str) -> None:
    problems = check_release.check_versions(tag, make_source(tmp_path, **source))
    assert any(expected in problem for problem in problems), problems


def test_a_missing_extra_or_wrong_file_is_found(tmp_path: Path) -> None:
    dist = make_dist(tmp_path / "dist")
    (dist / "jackstay" / "jackstay-0.1.0.tar.gz").unlink()
    (dist / "jackstay-apcore" / "jackstay_apcore-0.0.9.tar.gz").touch()
    wrong = make_dist(tmp_path / "other", "0.2.0") / "jackstay-procontext" / "jackstay_procontext-0.2.0.tar.gz"
    name = "jackstay_procontext-0.1.0"
    with (
        tarfile.open(wrong) as archive,
        tarfile.open(dist / "jackstay-procontext" / f"{name}.tar.gz", "w:gz") as new,
    ):
        member = tarfile.TarInfo(f"{name}/PKG-INFO")
        content = archive.extractfile("jackstay_procontext-0.2.0/PKG-INFO")
        assert content is not None
        body = content.read()
        member.size = len(body)
        new.addfile(member, BytesIO(body))
    problems = check_release.check_files(dist, "0.1.0")
    assert len(problems) == 3
    assert "the metadata has jackstay-procontext 0.2.0" in problems[2]


def test_the_command_reports_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_release.main(["--tag", "v9.9.9", str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) >= 2 * len(check_release.DISTRIBUTIONS)


def test_nothing_has_the_old_name_of_the_project() -> None:
    old = "moor" + "ing"
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
    assert names
    found = [name for name in names if old in name.lower() or old.encode() in (ROOT / name).read_bytes().lower()]
    assert found == []
