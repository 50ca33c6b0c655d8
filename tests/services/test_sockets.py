"""What is served over WebSockets follows the settings of now."""

from __future__ import annotations

from pathlib import Path

from app.config.snapshot import load
from tests.hub.tool_clients.wire_tool_clients import CONFIG, UPSTREAM, registered, tool_client
from tests.server import run, running


def test_a_time_limit_that_is_reloaded_holds_for_tools_of_clients_that_are_here_already(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, UPSTREAM, config=CONFIG) as server, tool_client(server) as owner:
            await registered(owner)
            services = server.services
            spec = services.router.find_spec("roll")
            assert spec is not None and spec.timeout == services.settings.tool_socket_seconds
            services.apply(load(tmp_path, {**services.config.environ, "ToolSocketSeconds": "7"}))
            spec = services.router.find_spec("roll")
            assert spec is not None and spec.timeout == 7

    run(main())
