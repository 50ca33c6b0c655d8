"""An administrator who also puts files there behind the server's back, and uses all methods."""

from __future__ import annotations

from pathlib import Path

from tests.web.admin.administrators import Administrator
from tests.web.asgi import Answered


class Writer(Administrator):
    """Paths are whole addresses, below ``/admin_api`` and ``/AdminPanel`` alike."""

    def __init__(self, home: Path, *config: str) -> None:
        super().__init__(home, *config, prefix="")

    async def ask(self, method: str, path: str, *headers: tuple[str, str], data: bytes = b"") -> Answered:
        return await self._ask(method, path, headers, data)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path
