"""Builds what the admin panel remembers of tools and approvals, fed by the events of one server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.extend import ApprovalAsked, ApprovalSettled, CallFinished
from app.hub.approval.history import ApprovalHistory
from app.hub.masks import Masks
from app.observe.tool_records import ToolRecords
from app.protocol.secret_texts import masked_text
from app.services.client_secrets import ClientSecrets

if TYPE_CHECKING:
    from app.services.root import Services


def clean_text(services: Services) -> Callable[[str], str]:
    """What takes our secrets, and what looks like some, out of texts of tools."""
    secrets = ClientSecrets(
        lambda: services.config, lambda: services.key, lambda: services.found_plugins, services.auth_code
    )
    masks = Masks(secrets)
    return lambda text: masked_text(masks.text(text))


def tool_records(services: Services) -> ToolRecords:
    """Counts and faults of tools, from now on."""
    records = ToolRecords(time.time, clean_text(services))
    services.events.listen(records.observe, CallFinished)
    return records


def approval_history(services: Services) -> ApprovalHistory:
    """What came of approvals, from now on."""
    history = ApprovalHistory(time.time)
    services.events.listen(history.heard, ApprovalAsked, ApprovalSettled)
    return history
