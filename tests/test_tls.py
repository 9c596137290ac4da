"""`--tls auto`: an authority that can vouch for this machine alone, and what a device needs to trust it."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

for module in ("apsw", "fastapi", "uvicorn", "httpx", "typer"):
    pytest.importorskip(module)
x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography, which the extra tls has")

import httpx  # noqa: E402
from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError  # noqa: E402

from service_under_test import COMMAND, environment, running  # noqa: E402
from xlda.service import certificates  # noqa: E402
from xlda.service.certificates import Certificates  # noqa: E402

ADDRESSES = ["192.168.7.5", "203.0.113.9"]


@pytest.fixture
def machine(monkeypatch):
    """A machine with two addresses, of which one is not of a local network."""
    found = list(ADDRESSES)
    monkeypatch.setattr(certificates, "lan_addresses", lambda host: list(found))
    monkeypatch.setattr(socket, "gethostname", lambda: "Shop-PC")
    return found


def leaf_of(made):
    return x509.load_pem_x509_certificates(made.leaf.read_bytes())[0]


def names_of(leaf):
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def assert_is_for(made, name):
    """What a program checks that knows the authority."""
    try:
        subject = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    verifier = PolicyBuilder().store(Store([made.authority])).build_server_verifier(subject)
    verifier.verify(leaf_of(made), [])


def test_the_leaf_is_for_all_names_and_addresses(tmp_path, machine):
    made = Certificates(tmp_path / "tls", "0.0.0.0", ["shop.example"])
    leaf = leaf_of(made)
    own = {"localhost", "shop-pc", "shop-pc.local", "shop.example", "127.0.0.1", "::1", *ADDRESSES}
    assert names_of(leaf) == own
    for name in own:
        assert_is_for(made, name)
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc <= timedelta(days=397)
    for file in (tmp_path / "tls").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == (0o600 if file.suffix == ".key" else 0o644)


def test_the_authority_can_vouch_for_nothing_else(tmp_path, machine):
    made = Certificates(tmp_path / "tls", "0.0.0.0")
    extension = made.authority.extensions.get_extension_for_class(x509.NameConstraints)
    assert extension.critical
    basic = made.authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)
    foreign = [x509.DNSName("bank.example"), x509.IPAddress(ipaddress.ip_address("198.51.100.1"))]
    for name in foreign:
        made._make_leaf([name])  # as somebody could who has its key
        with pytest.raises(VerificationError):
            assert_is_for(made, str(name.value))
    made._make_leaf([x509.DNSName("other.local")])
    assert_is_for(made, "other.local")  # so that this is no accident


def test_it_is_made_anew_when_it_must_and_not_before(tmp_path, machine, monkeypatch):
    made = Certificates(tmp_path / "tls", "0.0.0.0")
    authority, first = made.fingerprint, leaf_of(made)
    again = Certificates(tmp_path / "tls", "0.0.0.0")
    assert again.fingerprint == authority
    assert leaf_of(again) == first
    machine.append("10.1.2.3")
    assert made.renew_if_due()
    assert "10.1.2.3" in names_of(leaf_of(made))
    assert not made.renew_if_due()
    machine.remove("10.1.2.3")
    assert not made.renew_if_due()  # one that is gone does no harm
    machine.append("198.51.100.7")  # another one that is not local: the authority may not vouch for it
    assert not made.renew_if_due()

    class Later(datetime):
        days = 340

        @classmethod
        def now(cls, zone=None):
            return datetime.now(zone) + timedelta(days=cls.days)

    monkeypatch.setattr(certificates, "datetime", Later)
    assert not made.renew_if_due()
    Later.days = 370
    assert made.renew_if_due()
    assert leaf_of(made).not_valid_after_utc > datetime.now(UTC) + timedelta(days=700)
    assert made.fingerprint == authority
    Later.days = 3400
    assert Certificates(tmp_path / "tls", "0.0.0.0").fingerprint != authority
    assert_signed_by_itself(made)


def assert_signed_by_itself(made):
    """The leaf is of the authority that is there now."""
    leaf_of(made).verify_directly_issued_by(made.authority)


def test_a_leaf_that_was_half_written_is_made_again(tmp_path, machine):
    made = Certificates(tmp_path / "tls", "0.0.0.0")
    made.leaf.unlink()
    key = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    made.leaf_key.write_bytes(key.private_bytes(*form))
    again = Certificates(tmp_path / "tls", "0.0.0.0")
    again.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # which checks that the two belong together
    assert again.authority.fingerprint(hashes.SHA256()).hex(":").upper() == made.fingerprint


def test_a_service_is_reached_by_who_trusts_its_authority(tmp_path):
    with running(tmp_path / "shop.xlda", "--tls", "auto") as service:
        assert service.url.startswith("https://127.0.0.1:")
        said = "".join(service.lines)
        trust = re.search(r"come to trust it: (http://\S+/)trust", said)
        while trust is None:
            said = "".join(service.lines)
            trust = re.search(r"come to trust it: (http://\S+/)trust", said)
        plain = f"http://127.0.0.1:{re.search(r':([0-9]+)/$', trust[1])[1]}"
        authority = httpx.get(f"{plain}/v1/authority", trust_env=False)
        assert authority.headers["content-type"] == "application/x-x509-ca-cert"
        context = ssl.create_default_context(cadata=authority.text)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{service.url}v1/model", trust_env=False)
        with httpx.Client(verify=context, base_url=service.url, trust_env=False) as http:
            assert http.get("v1/model").json()["seq"] == 0
            assert http.get("v1/authority").content == authority.content
            for page in (http.get("trust").text, httpx.get(f"{plain}/trust", trust_env=False).text):
                assert 'href="v1/authority"' in page
                assert all(name in page for name in ("iPhone", "Android", "Windows", "macOS", "Linux"))
                fingerprint = re.search(r"<code>([0-9A-F:]{95})</code>", page)[1]
                assert f"authority: {fingerprint}" in "".join(service.lines)
        for path, status in (("/v1/model", 404), ("/page/index.html", 404), ("/", 200)):
            assert httpx.get(plain + path, trust_env=False).status_code == status
        assert (
            httpx.get(f"{plain}/trust", headers={"host": "evil.example"}, trust_env=False).status_code == 403
        )
        assert httpx.post(f"{plain}/trust", trust_env=False).status_code == 405
        assert service.end() == 0
        assert "Traceback" not in "".join(service.lines), "".join(service.lines)


def test_without_the_package_it_says_what_to_install(tmp_path):
    blocked = "import sys; sys.modules['cryptography'] = None; import importlib.util as u; f = u.find_spec\n"
    blocked += "u.find_spec = lambda name, *a: None if name == 'cryptography' else f(name, *a)\n"
    command = [sys.executable, "-c", blocked + COMMAND, "serve", "shop.xlda", "--tls", "auto"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert re.fullmatch(r"xlda: `--tls auto` needs cryptography: pip install .*\[tls\]'?\n", done.stderr)
    assert list(tmp_path.iterdir()) == []
