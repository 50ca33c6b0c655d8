"""Builds what holds tool calls until a person has decided about them."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.config.approval_rules import ApprovalFile
from app.extend import ApprovalAsked, ApprovalSettled
from app.hub.approval.feed import ApprovalFeed
from app.hub.approval.guard import Approvals
from app.hub.hub import Hub
from app.hub.masks import Masks
from app.observe.bus import EventBus
from app.services.client_feed import ClientSecrets
from app.services.in_force import InForce


def approvals(
    in_force: InForce,
    hub: Hub,
    events: EventBus,
    new_id: Callable[[str], str],
    secrets: ClientSecrets,
) -> Approvals:
    """The guard, with its rules from the home and its questions to VCPLog clients, which do not see ``secrets``."""
    rules = ApprovalFile(in_force.home, time.monotonic)
    guard = Approvals(rules.rules, events, clock=time.time, new_id=new_id)
    feed = ApprovalFeed(hub, guard, clock=time.time, zone=in_force.zone, clean=Masks(secrets).value)
    events.listen(feed.heard, ApprovalAsked, ApprovalSettled)
    return guard
