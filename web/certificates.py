"""Where a server's certificate comes from: given files, or one that it makes itself. Any thread.

It is imported only where something is encrypted: `cryptography` takes a while.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from web.errors import StartFailed
from web.tls import Certificate

LIFE = timedelta(days=397)
RENEW_BEFORE = timedelta(days=30)
EARLIER = timedelta(days=1)
"""Clocks in a house differ: what was made just now must not lie in a device's future."""
FOLDER = "tls"
ALWAYS = ("localhost", "127.0.0.1", "::1")


class OwnCertificate:
    """A self-signed certificate in the data folder, for this machine's names and addresses."""

    def __init__(self, data_dir: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._folder = data_dir / FOLDER
        self._clock = clock

    def for_names(self, names: Iterable[str]) -> Certificate:
        """The kept one while it has all these names and has not nearly ended, else a new one.

        Raises `StartFailed` where it cannot be written.
        """
        wanted = {*ALWAYS, *names}
        certificate, key = self._folder / "certificate.pem", self._folder / "key.pem"
        try:
            kept = _read_pair(certificate, key)
            if kept is None or not self._is_good(kept, wanted):
                kept = self._make(certificate, key, wanted)
        except (OSError, ValueError) as error:
            raise StartFailed(f"No certificate could be kept in {self._folder}: {error}.") from None
        return Certificate(certificate, key, fingerprint_of(kept))

    def _is_good(self, kept: x509.Certificate, wanted: set[str]) -> bool:
        return wanted <= _names(kept) and self._clock() < kept.not_valid_after_utc - RENEW_BEFORE

    def _make(self, certificate: Path, key: Path, names: set[str]) -> x509.Certificate:
        secret = ec.generate_private_key(ec.SECP256R1())
        made = _sign(secret, names, self._clock())
        self._folder.mkdir(mode=0o700, exist_ok=True)
        pem = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _write(key, pem, 0o600)
        _write(certificate, made.public_bytes(Encoding.PEM), 0o644)
        return made


def given_certificate(certificate: Path, key: Path) -> Certificate:
    """The owner's own files. Raises `StartFailed`, with one sentence that says what is wrong with them."""
    for path in (certificate, key):
        try:
            path.read_bytes()
        except OSError as error:
            raise StartFailed(f"{path} cannot be read ({error.strerror}).") from None
    try:
        read = _read(certificate)
    except ValueError:
        raise StartFailed(f"{certificate} holds no certificate in PEM form.") from None
    now = datetime.now(UTC)
    if now >= read.not_valid_after_utc:
        raise StartFailed(f"{certificate} expired on {read.not_valid_after_utc:%Y-%m-%d}: renew it.")
    if now < read.not_valid_before_utc:
        raise StartFailed(f"{certificate} is not valid before {read.not_valid_before_utc:%Y-%m-%d}.")
    return Certificate(certificate, key, fingerprint_of(read))


def fingerprint_of(certificate: x509.Certificate) -> str:
    """SHA-256 of the whole certificate, in pairs of digits."""
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def _sign(key: ec.EllipticCurvePrivateKey, names: set[str], now: datetime) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Ondol")])
    public = key.public_key()
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(public)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, sorted(names))), critical=False)
        # No authority: a device that is made to trust it trusts this server, and nothing that its key signs.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(authority, critical=False)
    )
    return builder.sign(key, hashes.SHA256())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in found}


def _read_pair(certificate: Path, key: Path) -> x509.Certificate | None:
    """None unless the two files belong together: a start may have been cut short between them."""
    try:
        read = _read(certificate)
        secret = load_pem_private_key(key.read_bytes(), None)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return read if secret.public_key() == read.public_key() else None


def _read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def _write(path: Path, content: bytes, mode: int) -> None:
    """Never readable by more people than it will be, and whole or not there."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
