"""Verifies webhooks of the training service, which are signed as in the Standard Webhooks specification 1.0.0."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from ._errors import TrainingError

#: By how many seconds a webhook's time may differ from this machine's clock.
TOLERANCE_SECONDS = 300.0
_PREFIX = "whsec_"


class WebhookError(TrainingError):
    """A webhook that the service did not send, that was changed, or that is too old."""

    code = "Webhook"


def verify_webhook(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> dict[str, Any]:
    """Returns the content of a webhook, if the service signed it with the rule's secret.

    Raises `WebhookError` otherwise. A receiver also remembers the header `webhook-id` for as long as `tolerance`, because a webhook
    whose answer was lost is sent again.
    """
    found = {name.lower(): value for name, value in headers.items()}
    identifier, timestamp, signatures = (found.get(f"webhook-{part}", "") for part in ("id", "timestamp", "signature"))
    if not (identifier and timestamp.isdecimal() and signatures):
        raise WebhookError("a header of a signed webhook is missing", reason="NotSigned")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise WebhookError("the webhook is too old, or a clock is wrong", reason="TooOld")
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise WebhookError("the secret is not that of a webhook", reason="WrongSecret") from error
    signed = f"{identifier}.{timestamp}.".encode() + body
    wanted = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    versions = [one.removeprefix("v1,") for one in signatures.split(" ") if one.startswith("v1,")]
    # Every signature is compared, so that the time says nothing.
    if not any([hmac.compare_digest(wanted, one) for one in versions]):  # noqa: C419
        raise WebhookError("the webhook is not signed with this secret", reason="WrongSignature")
    content = json.loads(body)
    if not isinstance(content, dict):
        raise WebhookError("the webhook's content is not an object", reason="WrongContent")
    return content
