"""Certificates of our own, for --tls auto: an authority that can vouch for this machine alone, and a leaf.

The authority is made once, and whoever trusts it trusts all that it signs: so it is constrained to names of
this machine and to addresses of local networks, and its key never leaves the service's folder. The leaf has
the names and addresses of this moment, and is made anew when these change or it nears its end.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from xlda._internal.files import replaced
from xlda.service.addresses import lan_addresses

AUTHORITY_DAYS, LEAF_DAYS = 3650, 397
NEAR_THE_END = timedelta(days=30)
CLOCKS_DIFFER = timedelta(days=1)
LOCAL = (  # networks whose addresses nobody else has
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "127.0.0.0/8",
    "fc00::/7",
    "fe80::/10",
    "::1/128",
)
ANYBODY, OWNER = 0o644, 0o600

Name: TypeAlias = x509.DNSName | x509.IPAddress


class Certificates:
    """The authority and the leaf in a folder, made where they are not there."""

    def __init__(self, folder: Path, host: str, names: Sequence[str] = ()) -> None:
        self.folder, self._host, self._names = folder, host, names
        self.leaf, self.leaf_key = folder / "leaf.pem", folder / "leaf.key"
        self._authority, self._authority_key = folder / "authority.pem", folder / "authority.key"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._make_authority_if_due()
        self.renew_if_due()

    @property
    def authority(self) -> x509.Certificate:
        """What others are to trust."""
        return x509.load_pem_x509_certificate(self._authority.read_bytes())

    def authority_pem(self) -> bytes:
        """The same as a file that systems take."""
        return self._authority.read_bytes()

    @property
    def fingerprint(self) -> str:
        """What tells it from one that somebody else has slipped in: SHA-256."""
        digest: bytes = self.authority.fingerprint(hashes.SHA256())
        return digest.hex(":").upper()

    def renew_if_due(self) -> bool:
        """Make a new leaf where the last one is not for all names of now, or nears its end; whether so."""
        wanted = self._own_names()
        if self._is_fine(wanted):
            return False
        self._make_leaf(wanted)
        return True

    def load_into(self, context: ssl.SSLContext) -> None:
        """Have connections that come from now on use the leaf."""
        context.load_cert_chain(self.leaf, self.leaf_key)

    # -- the authority

    def _make_authority_if_due(self) -> None:
        if self._authority.exists() and self._authority_key.exists():
            if self.authority.not_valid_after_utc > datetime.now(UTC) + timedelta(days=LEAF_DAYS):
                return
            self.leaf.unlink(missing_ok=True)  # which the old one has signed
        key = ec.generate_private_key(ec.SECP256R1())
        host = socket.gethostname()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"xlda on {host}"[:64])])
        now = datetime.now(UTC)
        permitted = [x509.DNSName(one) for one in ("localhost", "local", host.lower(), *self._dns_names())]
        networks = [*map(ipaddress.ip_network, LOCAL), *map(ipaddress.ip_network, self._other_addresses())]
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCKS_DIFFER)
            .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.NameConstraints([*dict.fromkeys(permitted), *map(x509.IPAddress, networks)], None),
                critical=True,
            )
        )
        _write_key(self._authority_key, key)
        _write_certificate(self._authority, [builder.sign(key, hashes.SHA256())])

    def _dns_names(self) -> list[str]:
        """Names that it was told of: those that are no addresses."""
        return [name.lower() for name in self._names if not _is_address(name) and name.isascii()]

    def _other_addresses(self) -> list[str]:
        """Its addresses that are not of a local network."""
        local = [ipaddress.ip_network(network) for network in LOCAL]
        found = [ipaddress.ip_address(text) for text in self._addresses()]
        return [str(one) for one in found if not any(one in network for network in local)]

    def _addresses(self) -> list[str]:
        told = [name for name in (*self._names, self._host) if _is_address(name)]
        found = [*lan_addresses(self._host), *told, "127.0.0.1", "::1"]
        return [text for text in dict.fromkeys(found) if not ipaddress.ip_address(text).is_unspecified]

    # -- the leaf

    def _own_names(self) -> list[Name]:
        """All names and addresses of now that the authority may vouch for."""
        host = socket.gethostname().lower()
        names = [x509.DNSName(one) for one in ("localhost", host, f"{host}.local", *self._dns_names())]
        addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in self._addresses()]
        extension = self.authority.extensions.get_extension_for_class(x509.NameConstraints)
        permitted = extension.value.permitted_subtrees or []
        every: list[Name] = [*dict.fromkeys(names), *addresses]
        return [name for name in every if any(_is_within(name, one) for one in permitted)]

    def _is_fine(self, wanted: Iterable[Name]) -> bool:
        if not self.leaf.exists() or not self.leaf_key.exists():
            return False
        leaf = x509.load_pem_x509_certificate(self.leaf.read_bytes())
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        ends_soon = leaf.not_valid_after_utc < datetime.now(UTC) + NEAR_THE_END
        not_begun = leaf.not_valid_before_utc > datetime.now(UTC)  # it was made with another clock
        return not ends_soon and not not_begun and set(wanted) <= set(names)

    def _make_leaf(self, names: Sequence[Name]) -> None:
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        authority = self.authority
        signing = serialization.load_pem_private_key(self._authority_key.read_bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        start = now - CLOCKS_DIFFER
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=False, crl_sign=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        leaf = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "xlda")]))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=LEAF_DAYS))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
            )
            .sign(signing, hashes.SHA256())
        )
        self.leaf.unlink(missing_ok=True)  # so that a start that is ended here finds none, and not half of it
        _write_key(self.leaf_key, key)
        _write_certificate(self.leaf, [leaf, authority])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_within(name: Name, permitted: x509.GeneralName) -> bool:
    """Whether a name is one of those that a constraint allows."""
    if isinstance(name, x509.DNSName):
        allowed = permitted.value if isinstance(permitted, x509.DNSName) else None
        return allowed is not None and (name.value == allowed or name.value.endswith(f".{allowed}"))
    network = permitted.value if isinstance(permitted, x509.IPAddress) else None
    if not isinstance(network, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return False
    return ipaddress.ip_address(str(name.value)) in network


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write(path, key.private_bytes(*form), OWNER)


def _write_certificate(path: Path, chain: Sequence[x509.Certificate]) -> None:
    _write(path, b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain), ANYBODY)


def _write(path: Path, content: bytes, mode: int) -> None:
    with replaced(path, mode) as unfinished:
        unfinished.write_bytes(content)
