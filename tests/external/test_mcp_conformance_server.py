"""The conformance suites of the Model Context Protocol against a real server with their fixtures (mcp.md section 5)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.external.key_proxy import keyed
from tests.program import started

pytestmark = pytest.mark.external

HERE = Path(__file__).parent
FIXTURES = HERE / "conformance"
NODE = HERE / "node_modules" / ".bin" / "node"
LEGACY = HERE / "node_modules" / "conformance-legacy"
MODERN = HERE / "node_modules" / "conformance-modern"

RUNS: Mapping[str, tuple[Path, Sequence[str]]] = {
    "0.1.16": (LEGACY, ("--expected-failures", str(FIXTURES / "expected-0.1.16.yaml"))),
    "2025-11-25": (MODERN, ("--requirements", "2025-11-25", "--timeout", "50000")),
    "2026-07-28": (MODERN, ("--requirements", "2026-07-28", "--timeout", "50000")),
}

ALL_SECONDS = 240
"""Longest time for all suites; it takes a tenth of that where nothing else runs."""

Check = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """What one suite said: its exit code, its words, and the checks of each scenario."""

    code: int
    said: str
    checks: Mapping[str, Sequence[Check]]

    def failed(self) -> dict[str, list[str]]:
        """The scenarios with checks that failed, and what these say."""
        failures = {
            name: [f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] == "FAILURE"]
            for name, checks in self.checks.items()
        }
        return {name: failed for name, failed in failures.items() if failed}

    def warned(self) -> set[str]:
        """The checks that found something which only should be otherwise."""
        return {check["id"] for checks in self.checks.values() for check in checks if check["status"] == "WARNING"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Run]]:
    """All suites at the same time against one server; they cannot send a key, so a proxy adds it."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(FIXTURES / "Plugin", home / "Plugin")
    with (
        started("serve", "--port", "0", cwd=home, longest=ALL_SECONDS) as server,
        keyed(server.base_url.removesuffix("/v1") + "/mcp", server.key) as url,
        ThreadPoolExecutor() as threads,
    ):
        folders = {name: tmp_path_factory.mktemp("results") for name in RUNS}
        running = {name: threads.submit(suite, name, url, folder) for name, folder in folders.items()}
        yield {name: run.result() for name, run in running.items()}


def suite(name: str, url: str, folder: Path) -> Run:
    package, words = RUNS[name]
    done = subprocess.run(
        (str(NODE), str(package / "dist" / "index.js"), "server", "--url", url, "-o", str(folder), *words),
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=ALL_SECONDS,
    )
    checks = {
        re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name): json.loads(file.read_text(encoding="utf-8"))
        for file in folder.glob("*/checks.json")
    }
    return Run(done.returncode, done.stdout + done.stderr, checks)


def required(revision: str) -> list[str]:
    """The scenarios of a server that the suite counts for this revision."""
    text = (MODERN / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8")
    section = re.search(r"^server:\n((?:  - .*\n)+)", text, re.MULTILINE)
    assert section is not None
    return re.findall(r"- (\S+)", section[1])


def test_the_older_suite_is_passed_but_for_the_scenario_that_breaks_a_rule_itself(runs: Mapping[str, Run]) -> None:
    """MCP-42: a header that names another revision than the session's is refused, and one scenario sends one."""
    run = runs["0.1.16"]
    assert run.code == 0, run.said[-5000:]
    assert len(run.checks) == 30
    assert set(run.failed()) == {"server-sse-multiple-streams"}
    assert run.warned() == set()


@pytest.mark.parametrize(("revision", "scenarios"), [("2025-11-25", 30), ("2026-07-28", 37)])
def test_every_scenario_that_a_revision_requires_is_passed(
    runs: Mapping[str, Run], revision: str, scenarios: int
) -> None:
    run = runs[revision]
    assert run.code == 0, run.said[-5000:]
    names = required(revision)
    assert len(names) == scenarios
    assert [name for name in names if not run.checks.get(name)] == []
    assert {name: said for name, said in run.failed().items() if name in names} == {}


def test_what_is_run_beside_it_fails_only_where_an_extension_is_meant_that_is_not_offered(
    runs: Mapping[str, Run],
) -> None:
    """Scenarios without score: schemas, headers that tools declare, and streams that are taken up again pass too."""
    assert runs["2025-11-25"].failed() == {}
    assert [name for name in runs["2026-07-28"].failed() if not name.startswith("tasks-")] == []
    for name in ("json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"):
        assert runs["2026-07-28"].checks[name], name
    assert runs["2025-11-25"].checks["server-session-lifecycle"]
