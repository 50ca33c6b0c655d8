"""Our MCP server: made when somebody first wants it, since the SDK costs half a second and 30 MB to import."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from app.config.snapshot import Config
from app.errors import both
from app.extend import Event, Json, Reloaded
from app.observe.bus import EventBus
from app.services.in_force import InForce
from app.tools.offers import DoorRules, Offers
from app.tools.router import Router

if TYPE_CHECKING:  # at run time only functions import these
    from app.mcp.server.door import Asker, McpDoor
    from app.mcp.server.prompts import PromptShelf
    from app.mcp.server.resources import ResourceShelf

INSTRUCTIONS = both(
    "这里的每个插件、分布式节点和上游 MCP 服务器的功能都是一个工具。名称形如 插件、插件.命令 或 服务器.工具；"
    "工具列表会随插件与节点的增减而变化。某些工具要等人批准后才会运行。",
    "Each plugin, each tool of a far node and of an MCP server behind this one is a tool here. Names are like Plugin, "
    "Plugin.command or server.tool; the list changes as plugins and nodes come and go. Some tools wait for a person's "
    "approval before they run.",
)
"""What a client's model is told of this server."""

_OPERATOR_VALUE = re.compile(r"\{\{(Port|(?:Tar|Var)[^{}\r\n]*)\}\}")


class McpServing:
    """The MCP server of a process, a ``Lifecycle``: nothing of it is there before ``door`` is asked for.

    ``make`` makes the door. All fronts of the process share the one door.
    """

    def __init__(self, make: Callable[[], McpDoor]) -> None:
        self._make = make
        self._door: McpDoor | None = None
        self._making = asyncio.Lock()

    async def door(self) -> McpDoor:
        """The door, which has been started."""
        async with self._making:
            if self._door is None:
                await asyncio.to_thread(_import_sdk)
                door = self._make()
                await door.start()
                self._door = door
            return self._door

    async def start(self) -> None:
        """Nothing is to be done before somebody comes."""

    def health(self) -> str:
        """Nothing can be wrong with it."""
        return ""

    async def stop(self) -> None:
        """End the calls and subscriptions of all clients."""
        if self._door is not None:
            door, self._door = self._door, None
            await door.stop()


def _import_sdk() -> None:
    import app.mcp.server.door  # noqa: F401 - half a second, in a thread and before anything is made


def mcp_door(
    in_force: InForce,
    events: EventBus,
    router: Router,
    *,
    new_id: Callable[[str], str],
    rules: Callable[[], DoorRules] | None = None,
    resources: ResourceShelf | None = None,
    prompts: PromptShelf | None = None,
    asker: Callable[[Any], Asker] | None = None,
) -> McpDoor:
    """The server's tools as an MCP server.

    ``rules`` say which tools are shown, those of ``MCPAllow`` and ``MCPDeny`` where they are not given. ``asker`` says
    who sent a request.
    """
    from app.mcp.server.door import Asker, McpDoor, McpDoorRules

    def door_rules() -> McpDoorRules:
        settings = in_force.settings
        return McpDoorRules(
            max_running=settings.mcp_max_running,
            max_running_per_client=settings.mcp_max_running_per_client,
            command_enum=settings.mcp_command_enum,
            question_seconds=settings.mcp_question_seconds,
            password_wanted=settings.vcp_tool_code,
        )

    shown = rules or (lambda: DoorRules(in_force.settings.mcp_allow, in_force.settings.mcp_deny))
    door = McpDoor(
        offers=Offers(router.catalogue, shown),
        call_tool=router.call,
        events=events,
        changed=router.changed,
        rules=door_rules,
        new_id=new_id,
        clock=time.time,
        validate=_Checks().fault,
        resources=resources,
        prompts=prompts,
        instructions=INSTRUCTIONS,
        asker=asker or (lambda _request: Asker()),
        expander=OperatorValues(in_force).expander,
    )

    def reloaded(_event: Event) -> None:
        door.tools_changed()  # other rules may show other tools, other values make other descriptions

    events.listen(reloaded, Reloaded)
    return door


class OperatorValues:
    """Puts the port and the variables into descriptions of tools on this machine (D31).

    Keys are never put in: who lists tools is not always who may see pictures, so ``{{Image_Key}}`` stays as written.
    Variables whose value names a file stay too.
    """

    def __init__(self, in_force: InForce) -> None:
        self._in_force = in_force
        self._made_of: tuple[Config, int] | None = None
        self._expand: Callable[[str], str] = str

    def expander(self) -> Callable[[str], str]:
        """The function of now; another one as soon as a value is another."""
        config, port = self._in_force.config, self._in_force.port()
        if self._made_of is None or self._made_of[0] is not config or self._made_of[1] != port:
            values = {"Port": str(port)}
            values.update((name, text) for name, text in config.families.variables if not text.endswith(".txt"))
            self._made_of = config, port
            self._expand = _expanding(values)
        return self._expand


def _expanding(values: Mapping[str, str]) -> Callable[[str], str]:
    return lambda text: _OPERATOR_VALUE.sub(lambda found: values.get(found[1], found[0]), text)


class _Fault:
    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason


class _Checks:
    """Checks of values against schemas, without the network; a schema that is none checks nothing."""

    def fault(self, schema: Mapping[str, Json], value: Json) -> _Fault | None:
        try:
            jsonschema_rs.Draft202012Validator(dict(schema), offline=True).validate(value)
        except jsonschema_rs.ValidationError as error:
            steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            return _Fault(f"${steps}"[:300], error.message[:300])
        except ValueError:
            return None
        return None
