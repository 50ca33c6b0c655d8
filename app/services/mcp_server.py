"""Our MCP server: made when somebody first wants it, since the SDK costs half a second and 30 MB to import."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from app.config.snapshot import Config
from app.errors import both
from app.extend import ApprovalAsked, ApprovalSettled, Event, Json, Reloaded
from app.hub.approval.guard import Approvals
from app.hub.approval.request import fitted
from app.hub.masks import Masks
from app.observe.bus import EventBus
from app.services.in_force import InForce
from app.tools.offers import DoorRules, Offers
from app.tools.router import Router
from app.tools.schemas.check import SchemaError, SchemaFault, check_of

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

FORM_CHARS = 3_000
"""About so many characters of a call's arguments stand in the form of its client."""

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
    import app.mcp.sdk
    import app.mcp.server.door  # noqa: F401 - loaded ahead, in a thread


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
    approvals: Approvals | None = None,
    secrets: Callable[[], Iterable[str]] = tuple,
) -> McpDoor:
    """The server's tools as an MCP server.

    ``rules`` say which tools are shown, those of ``MCPAllow`` and ``MCPDeny`` where they are not given. ``asker`` says
    who sent a request. Clients are asked about their own calls that wait for one of ``approvals``, and never told
    ``secrets`` in log lines.
    """
    from app.mcp.server.approvals import ApprovalQuestions
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
        validate=fault_of,
        resources=resources,
        prompts=prompts,
        instructions=INSTRUCTIONS,
        asker=asker or (lambda _request: Asker()),
        expander=OperatorValues(in_force).expander,
        clean=Masks(secrets).value,
        private=(lambda: False) if approvals is None else approvals.private,
    )

    def reloaded(_event: Event) -> None:
        door.tools_changed()  # other rules may show other tools, other values make other descriptions

    events.listen(reloaded, Reloaded)
    if approvals is not None:
        questions = ApprovalQuestions(approvals.answer, _shown_by(approvals))
        events.listen(questions.heard, ApprovalAsked, ApprovalSettled)
    return door


def _shown_by(approvals: Approvals) -> Callable[[str], Mapping[str, Json] | None]:
    def shown(request_id: str) -> Mapping[str, Json] | None:
        pending = approvals.find(request_id)
        # Each argument has its share of the room: a long one must not push what it is followed by out of sight.
        return None if pending is None else fitted(pending.arguments, FORM_CHARS)

    return shown


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


def fault_of(schema: Mapping[str, Json], value: Json) -> SchemaFault | None:
    """What is wrong with a value; nothing where the schema itself cannot be used: then the tool has to judge."""
    try:
        check = check_of(schema)
    except SchemaError:
        return None
    return check.fault(value)
