"""Builds what a turn works with: its parts, its rules, and the ways in which other parts begin one."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from functools import partial

from app.chat.background import BackgroundTasks
from app.chat.native_format import NativeCallFormat
from app.chat.native_tools import NativeTools
from app.chat.prepare import Preparation
from app.chat.text_format import TextCallFormat
from app.chat.turn import TurnParts, TurnRules
from app.config.settings import Settings
from app.errors import both
from app.extend import CallFormat, Json, PhaseDone, Preprocessor, PromptExpanded
from app.observe.bus import EventBus
from app.observe.dumps import DebugDumps
from app.plugins.in_process_context import standing_in
from app.prompt.engine import PromptEngine
from app.services.ids import Ids
from app.services.in_force import InForce
from app.tools.offers import DoorRules, Offers, restricted_naming
from app.tools.rendering import ResultFormat
from app.tools.router import Router
from app.tools.schemas.check import SchemaError, check_of
from app.upstream.client import UpstreamClient

log = logging.getLogger(__name__)


def turn_parts(
    in_force: InForce,
    *,
    upstream: UpstreamClient,
    engine: PromptEngine,
    preprocessors: Sequence[Preprocessor],
    router: Router,
    events: EventBus,
    background: BackgroundTasks,
    dumps: DebugDumps,
    ids: Ids,
) -> TurnParts:
    """What a turn works with until its end, of the configuration of now."""
    zone = in_force.zone()
    return TurnParts(
        upstream=upstream,
        preparation=Preparation(
            engine,
            preprocessors,
            events,
            dumps.dump,
            phases_wanted=lambda: events.wanted(PhaseDone),
            prompts_wanted=lambda: events.wanted(PromptExpanded),
        ),
        call_tool=router.call,
        find_spec=router.find_spec,
        events=events,
        background=background,
        clock=time.time,
        zone=zone,
        new_id=ids.new_call,
        call_format=partial(call_format, ids, zone, native_tools(in_force, router)),
        dump=dumps.dump,
        standing=standing_in,
    )


def turn_rules(settings: Settings, *, stream: bool, private: bool = False) -> TurnRules:
    """The settings that hold for one turn; with ``private`` models see no secrets in results."""
    return TurnRules(
        max_tool_rounds=settings.max_vcp_loop_stream if stream else settings.max_vcp_loop_non_stream,
        max_calls=settings.max_tool_calls_per_round,
        eager=settings.eager_tools,
        password_wanted=settings.vcp_tool_code,
        keep_tools_on_disconnect=not settings.cancel_tools_on_disconnect,
        results=ResultFormat(settings.compat_profile, settings.tool_result_max_chars, private),
        native=settings.native_tools,
    )


def native_tools(in_force: InForce, router: Router) -> NativeTools:
    """Our tools as functions of the chat API, as the settings of now want them."""
    rules = in_force.following(lambda settings: DoorRules(settings.native_tools_allow, settings.native_tools_deny))
    return NativeTools(Offers(router.catalogue, rules, restricted_naming), lambda: in_force.settings.native_tools_max)


def call_format(ids: Ids, zone: tzinfo, native: NativeTools, rules: TurnRules) -> CallFormat:
    """How a model asks for tools in a turn with these rules."""
    text = TextCallFormat(ids.new_call, zone, rules.results, password_wanted=rules.password_wanted)
    if rules.native == "off":
        return text
    return NativeCallFormat(text, native, fault_of, ids.new_call, password_wanted=rules.password_wanted)


def fault_of(schema: Mapping[str, Json], value: Json) -> str:
    """What is wrong with the arguments of a function call, empty when nothing is.

    Under a schema that cannot be used the tool itself has to judge.
    """
    try:
        fault = check_of(schema).fault(value)
    except SchemaError as error:
        log.debug("arguments of a function call are not checked: %s", error)
        return ""
    return "" if fault is None else f"{both('参数不符合 schema', 'the arguments do not fit the schema')}: {fault}"
