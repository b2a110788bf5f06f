"""What a server that speaks TLS encrypts with. Event loop, or before it.

HSTS is never sent. Once it is on, a browser lets nobody pass by a certificate that it does not know: a
self-signed one would lock people out. And it would bind every other port of this machine's name too.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from web.errors import StartFailed


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, as files; `fingerprint` is its SHA-256 as browsers show it."""

    certificate: Path
    key: Path
    fingerprint: str


class Tls:
    """What connections are encrypted with. `context` stays the same when the certificate is renewed."""

    def __init__(self, current: Certificate) -> None:
        """Raises `StartFailed` where the two files cannot be used together."""
        self.current = current
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.use(current)

    @property
    def fingerprint(self) -> str:
        """Of the present certificate."""
        return self.current.fingerprint

    def use(self, certificate: Certificate) -> None:
        """Show this one to whoever connects from now on."""
        _load(self.context, certificate.certificate, certificate.key)
        self.current = certificate


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        # A key with a passphrase would make OpenSSL ask for it in the terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise StartFailed(f"{key} is not the key of {certificate}.") from None
        raise StartFailed(f"{key} holds no private key that can be used without a passphrase.") from None
    except OSError as error:
        raise StartFailed(f"{certificate} or {key} cannot be read ({error.strerror}).") from None
