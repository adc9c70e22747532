"""Signatures of webhooks, as https://www.standardwebhooks.com has them: HMAC-SHA256 over id, time and body.

Any library of that scheme verifies them. Nothing here knows where the secret is kept.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Final

PREFIX: Final = "whsec_"
"""The prefix of every secret, by which people and scanners recognise it."""


def new_key() -> bytes:
    """Return 32 random bytes to sign with."""
    return secrets.token_bytes(32)


def encode_secret(key: bytes) -> str:
    """Return a secret in the receivers' form."""
    return PREFIX + base64.b64encode(key).decode()


def signed(secret: str, delivery: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers that prove where a delivery comes from, and when it was sent."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    digest = hmac.digest(key, b"%s.%d.%s" % (delivery.encode(), at, body), hashlib.sha256)
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
