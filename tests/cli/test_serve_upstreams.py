"""A start whose model APIs have names and no API_URL."""

from __future__ import annotations

from pathlib import Path

from tests.program import started


def test_a_start_with_named_upstreams_alone_needs_no_demo_model_and_shows_no_key(tmp_path: Path) -> None:
    lines = (
        "Upstream_home_URL=http://127.0.0.1:9",
        "Upstream_home_Key=sk-secret",
        "Upstream_bad_URL=http://user:sk-secret@host",
    )
    (tmp_path / "config.env").write_text("\n".join(lines), encoding="utf-8")
    with started("serve", "--port", "0", cwd=tmp_path) as program:
        assert program.stop() == 0
        banner, log = program.banner, program.logged
    assert "demo model" not in banner
    assert "config.env:3: Upstream_bad_URL: the upstream is left out" in log
    assert "sk-secret" not in banner + log
