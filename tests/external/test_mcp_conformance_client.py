"""Our client under the official conformance tool, the older one and the one of the newest revision."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.external.conformance.client import scenarios

pytestmark = pytest.mark.external

MODULES = Path(__file__).with_name("node_modules")
SECONDS = 300
"""Longest run of the tool, on a machine that has much else to do."""

EXTENSIONS = {
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/enterprise-managed-authorization",
    "auth/cross-app-access-complete-flow",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
}
"""Ways of signing in without a person, which nobody has to have."""

WRONG_FIXTURE = "auth/2025-03-26-oauth-metadata-backcompat"
"""The older tool's metadata name another issuer than the one they are found at; the newer one wants that refused."""


@pytest.fixture(autouse=True)
def no_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scenario is a server of ours that would read those of the whole world; the tool has none."""
    folder = tmp_path / "certificates"
    folder.mkdir()
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))


@pytest.mark.parametrize(
    ("tool", "words", "known", "least"),
    [
        ("modern", ("--requirements", "2026-07-28"), EXTENSIONS, 33),
        ("modern", ("--requirements", "2025-11-25"), EXTENSIONS, 19),
        ("modern", ("--suite", "backcompat"), set(), 2),
        ("legacy", ("--suite", "all"), {*EXTENSIONS, WRONG_FIXTURE}, 22),
    ],
)
def test_the_conformance_tool_is_content_with_our_client(
    tmp_path: Path, tool: str, words: tuple[str, ...], known: set[str], least: int
) -> None:
    """MCP-1, 30, 50 to 58, 73 to 79: at least so many scenarios pass, and none fails but the known ones."""

    async def main() -> None:
        async with scenarios(tmp_path) as (command, told):
            process = await asyncio.create_subprocess_exec(
                str(MODULES / ".bin" / "node"),
                str(MODULES / f"conformance-{tool}" / "dist" / "index.js"),
                *("client", "--command", command, "--timeout", str(SECONDS * 1000), "--verbose", *words),
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            try:
                output, _ = await asyncio.wait_for(process.communicate(), SECONDS)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        text = output.decode("utf-8", "replace").partition("=== SUITE SUMMARY ===")[2]
        met = dict(re.findall(r"^[✓✗] (\S+): \d+ passed, (\d+) failed", text, re.MULTILINE))
        failed = {name for name, count in met.items() if count != "0"}
        assert failed <= known, text + "\n".join(told)
        assert len(met) - len(failed) >= least, text

    asyncio.run(main())
