"""Addresses of this machine, at which others on the local network can reach it."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys

AT_ANY = ("0.0.0.0", "::")
SOMEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))  # nobody has these
SIOCGIFADDR = 0x8915  # Linux: the address of an interface


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, as only itself can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def lan_addresses(host: str = AT_ANY[0]) -> list[str]:
    """Addresses for others of a service that listens at `host`, the likeliest first; no name is looked up."""
    if is_loopback(host):
        return []
    if host not in AT_ANY:
        return [host]
    found = [*_of_routes(), *_of_interfaces()]
    return [text for text in dict.fromkeys(found) if _is_for_others(text)]


def url_of(scheme: str, host: str, port: int, path: str = "") -> str:
    """Where it is, as a link.

    >>> url_of("https", "fd00::7", 8765), url_of("http", "192.168.1.5", 80, "/shop")
    ('https://[fd00::7]:8765/', 'http://192.168.1.5:80/shop/')
    """
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}/"


def _of_routes() -> list[str]:
    """Those by which this machine would send something elsewhere; nothing is sent."""
    found = []
    for family, far in SOMEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                found.append(str(probe.getsockname()[0]))
        except OSError:
            pass
    return found


def _of_interfaces() -> list[str]:
    """Those of all interfaces, where the system tells."""
    if not sys.platform.startswith("linux"):
        return []
    import fcntl

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            found.append(socket.inet_ntoa(answer[20:24]))
    return found


def _is_for_others(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)
