"""The lock files: pinned, hashed, without addresses, and in step with pyproject."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
RUN = ROOT / "requirements" / "run.lock"
TEST = ROOT / "requirements" / "test.lock"
PEER = ROOT / "requirements" / "peer.lock"
LOCKS = (RUN, TEST, PEER)

# Put together here, because this file is searched as well.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("deb", "debian", "org"),
        ("proxy", "golang", "org"),
        ("static", "crates", "io"),
    )
)
INDEX_OPTIONS = re.compile(r"--(?:extra-)?index-url|--find-links|--trusted-host")


def entries(lock: Path) -> dict[str, tuple[Requirement, frozenset[str]]]:
    """The locked requirements by canonical name, each with its hashes; every line must be one of the known forms."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, tuple[Requirement, frozenset[str]]] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        words, *hashes = re.split(r"\s+--hash=", line.strip())
        requirement = Requirement(words)
        name = canonicalize_name(requirement.name)
        assert name not in found, f"{name} is locked twice in {lock.name}"
        found[name] = (requirement, frozenset(hashes))
    return found


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def group(name: str) -> Iterator[str]:
    for item in pyproject()["dependency-groups"][name]:
        if isinstance(item, str):
            yield item
        else:
            yield from group(item["include-group"])


def pinned_version(requirement: Requirement) -> Version:
    (specifier,) = requirement.specifier
    assert specifier.operator == "=="
    return Version(specifier.version)


def project_files() -> list[Path]:
    """What is checked in; in a checkout without git, as from an archive, everything that tools did not make."""
    if not (ROOT / ".git").exists():
        made = {".venv", "node_modules", "__pycache__"}
        return [path for path in ROOT.rglob("*") if path.is_file() and not made & set(path.relative_to(ROOT).parts)]
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    return [ROOT / name.decode() for name in listing.split(b"\0") if name]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_locked_package_has_one_version_and_hashes(lock: Path) -> None:
    locked = entries(lock)
    assert len(locked) > 20
    for name, (requirement, hashes) in locked.items():
        assert requirement.url is None, name
        assert pinned_version(requirement), name
        assert hashes, f"{name} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), name


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_index_and_no_place_on_a_disk(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert not INDEX_OPTIONS.search(text)
    assert "://" not in text


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [(RUN, ()), (RUN, ("build",)), (TEST, ("build", "dev"))],
    ids=["run.lock has the dependencies", "run.lock has the build backend", "test.lock has everything"],
)
def test_a_lock_covers_what_pyproject_asks_for(lock: Path, wanted: tuple[str, ...]) -> None:
    locked = entries(lock)
    texts = list(pyproject()["project"]["dependencies"])
    for name in wanted:
        texts += group(name)
    for text in texts:
        requirement = Requirement(text)
        entry, _ = locked[canonicalize_name(requirement.name)]
        assert pinned_version(entry) in requirement.specifier, text
        assert (entry.marker is None) == (requirement.marker is None), text


def test_tests_run_on_the_very_versions_that_the_server_runs_on() -> None:
    run, test = entries(RUN), entries(TEST)
    assert run.keys() < test.keys()
    for name, (requirement, hashes) in run.items():
        assert pinned_version(test[name][0]) == pinned_version(requirement), name
        assert test[name][1] == hashes, name


def test_the_build_backend_is_the_locked_one() -> None:
    required = pyproject()["build-system"]["requires"]
    assert set(required) <= set(group("build"))


def test_the_npm_lock_has_hashes_and_no_addresses() -> None:
    packages = json.loads((ROOT / "tests/external/package-lock.json").read_text(encoding="utf-8"))["packages"]
    fetched = {place: entry for place, entry in packages.items() if place}
    assert fetched
    for place, entry in fetched.items():
        assert entry["integrity"].startswith("sha512-"), place
        assert "resolved" not in entry, place


def test_no_file_names_a_package_registry() -> None:
    for path in project_files():
        text = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        for host in REGISTRY_HOSTS:
            assert host not in text, f"{path.relative_to(ROOT)} names {host}"
        if path != Path(__file__) and path.name != "Makefile":
            assert not re.search(r"--(?:extra-)?index-url[= ]\S", text), path.relative_to(ROOT)
