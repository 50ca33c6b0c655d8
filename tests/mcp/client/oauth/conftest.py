"""Reading all certificates of the world takes longer than a sign-in; these servers have none, so one will do."""

from __future__ import annotations

from pathlib import Path

import certifi
import pytest


@pytest.fixture(autouse=True)
def one_certificate(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    end = "-----END CERTIFICATE-----\n"
    path = tmp_path_factory.getbasetemp() / "one.pem"
    if not path.exists():
        text = Path(certifi.where()).read_text(encoding="utf-8")
        path.write_text(text[text.index("-----BEGIN") : text.index(end)] + end, encoding="ascii")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
