"""Tells connected clients what happens; the events of the server are the only source (spec 5.8, 6.2, 6.3, 6.5, 7.1).

Nothing is made for nobody: a message is built when a client, or an away device, is there for it, and then once for all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import tzinfo

from app.errors import both
from app.extend import (
    BackgroundResult,
    CallFinished,
    Clock,
    DiaryWritten,
    Door,
    Event,
    Informed,
    Json,
    Pushed,
    Reloaded,
    TaskFinished,
    ToolPush,
)
from app.hub.clients import ClientType, Message, encoded
from app.hub.hub import Hub, pushed_to
from app.hub.log.notices import Notices
from app.hub.log.replay import LogReplay
from app.hub.masks import Masks
from app.observe.digests import without_base64
from app.protocol import hub_messages as wire
from app.protocol.timestamps import iso_millis
from app.tools.rendering import cut_text, result_object

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Longest message to clients. In a longer one digests stand for pictures; if that is not enough it is not sent."""

RELOADED_CHARS = 2000

HEARD = (BackgroundResult, CallFinished, DiaryWritten, Informed, Pushed, Reloaded, TaskFinished)
"""The kinds of events that clients are told of."""

_LOG = (ClientType.VCP_LOG,)


class LogFeed:
    """Makes messages of events. ``masks`` take out secrets of notices and ``push_masks`` those of pushes, which may
    show addresses of pictures with their key. ``max_chars`` gives the longest content of a notice.
    """

    def __init__(
        self,
        hub: Hub,
        replay: LogReplay,
        *,
        clock: Clock,
        zone: Callable[[], tzinfo],
        max_chars: Callable[[], int],
        masks: Masks,
        push_masks: Masks,
    ) -> None:
        self._hub = hub
        self._replay = replay
        self._clock = clock
        self._zone = zone
        self._max_chars = max_chars
        self._masks = masks
        self._push_masks = push_masks

    def hear(self, event: Event) -> None:
        """Tell of one event; quick, and never raises. An event that is no JSON is logged and told to nobody."""
        try:
            self._tell_of(event)
        except (TypeError, ValueError, RecursionError) as error:
            log.warning("%s is told to no client: %s", type(event).__name__, type(error).__name__)

    def _tell_of(self, event: Event) -> None:
        match event:
            case CallFinished():
                self._call(event)
            case TaskFinished() if self._wanted(_LOG):
                self._send(self._notices().of_task(event, self._now()), _LOG)
            case DiaryWritten() if not event.muted and self._wanted(_LOG):
                told = wire.daily_note_created(event.maid, event.date, event.file_path, event.message)
                self._send(self._clean(told), _LOG)
            case BackgroundResult() if event.push is not None:
                message_type = event.push.message_type or wire.CALLBACK_NOTIFICATION
                self._push(message_type, event.body, event.push.target_client_type)
            case Pushed():
                self._push(event.message_type, event.data, event.target_client_type)
            case Informed() if self._wanted((ClientType.VCP_INFO,)):
                self._send(self._clean(event.message), (ClientType.VCP_INFO,))
            case Reloaded() if self._wanted((ClientType.ADMIN_PANEL,)):
                told = wire.plugins_reloaded(self._masks.text(_reloaded(event)))
                self._send(told, (ClientType.ADMIN_PANEL,))
            case _:
                pass

    def _call(self, event: CallFinished) -> None:
        """One notice for a call, and what its tool wants to be pushed (P70: neither once its turn was interrupted).

        A scheduled call has its notice when its task has ended, which knows more.
        """
        if event.muted:
            return
        if event.context.door is not Door.SCHEDULE and self._wanted(_LOG):
            self._send(self._notices().of_call(event, self._now()), _LOG)
        push = _push_of(event)
        if push is not None and self._wanted(pushed_to(push.target_client_type)):
            message_type = push.message_type or wire.tool_push_type(event.call.tool)
            data = result_object(event.call, event.result, self._now())
            self._push(message_type, data, push.target_client_type)

    def _push(self, message_type: str, data: Json, target: str | None) -> None:
        kinds = pushed_to(target)
        if not self._wanted(kinds):
            return
        if message_type in wire.NOT_FOR_PLUGINS:
            log.warning("a plugin's push of type %s is not sent: this type is the server's own", message_type)
            return
        message = wire.push(message_type, data)
        encoded_message = encoded(message)
        if self._push_masks.suspects(encoded_message):
            message = self._push_masks.value(message)
            encoded_message = encoded(message)
        if len(encoded_message) > MAX_MESSAGE_BYTES:
            encoded_message = encoded(without_base64(message))
        self._send(encoded_message, kinds)

    def _clean(self, message: Message) -> Message:
        cleaned: Message = self._masks.value(without_base64(message))
        return cleaned

    def _notices(self) -> Notices:
        return Notices(self._masks, self._max_chars())

    def _now(self) -> str:
        return iso_millis(self._clock(), self._zone())

    def _wanted(self, kinds: Sequence[ClientType]) -> bool:
        """Whether there is anybody of these types to tell something, now or when they are back."""
        for kind in kinds:
            if self._hub.count(kind):
                return True
        return ClientType.VCP_LOG in kinds and self._replay.wanted()

    def _send(self, message: Message | bytes, kinds: Sequence[ClientType]) -> None:
        data = message if isinstance(message, bytes) else encoded(message)
        if len(data) > MAX_MESSAGE_BYTES:
            log.warning("a message of %d bytes for clients is too long and not sent", len(data))
            return
        self._hub.broadcast(data, kinds)
        if ClientType.VCP_LOG in kinds:
            self._replay.keep(data)


def _push_of(event: CallFinished) -> ToolPush | None:
    """What a call pushes: one of the chat loop that ran and succeeded, if its manifest says so (5.8).

    A call that a guard answered, such as one that was put off, did not run.
    """
    if event.spec is None or event.context.door not in (Door.STREAM, Door.NON_STREAM):
        return None
    return event.spec.push if event.result.ok and event.begun else None


def _reloaded(event: Reloaded) -> str:
    parts, problems = " | ".join(event.parts) or "-", " | ".join(event.problems)
    told = both(f"已重新加载：{parts}", f"reloaded: {parts}")
    if problems:
        told += f"; {both('未生效', 'not in force')}: {problems}"
    return cut_text(told, RELOADED_CHARS)
