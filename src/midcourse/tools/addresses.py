"""Check the hosts of requests: names are resolved once, every address is checked, and a checked one is used.

A server that fetches what a model asks for is inside its owner's network. So nothing but public addresses is reached
unless that is allowed, in any spelling of an address, and when a name resolves to another one later.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from midcourse.errors import InvalidInput, MidcourseError

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# All that is given out of IPv6 for the public internet.
_GIVEN_OUT: Final = ipaddress.IPv6Network("2000::/3")
# Beside what this interpreter knows, which differs between its versions.
_NOT_PUBLIC: Final = tuple(
    ipaddress.ip_network(one)
    for one in (
        "100.64.0.0/10",  # behind a provider's translation; clouds serve machines their secrets there
        "168.63.129.16/32",  # Azure's own services, on every machine
        "192.0.0.0/24",  # protocols; Oracle's cloud serves machines their secrets there
        *("192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24"),  # answered by the next handler
        "192.88.99.0/24",  # relays of tunnels
        "198.18.0.0/15",  # measurements
        "2001::/23",  # protocols, and tunnels whose other end is not in the address alone
        *("2001:db8::/32", "3fff::/20"),  # examples
        "2620:4f:8000::/48",  # answered by the next handler
    )
)


def refused(url: str, why: str) -> InvalidInput:
    return InvalidInput(f"The request to {url} is refused: {why}.", code="address_refused", field="url", url=url)


def check_host(host: str, url: str, allowed: Sequence[str] | None) -> None:
    """Refuse a host that is not on the list, if there is one. ``*.example.com`` stands for everything below it."""
    name = host.rstrip(".").lower()
    for one in () if allowed is None else allowed:
        pattern = one.rstrip(".").lower()
        if name == pattern or (pattern.startswith("*.") and name.endswith(pattern[1:])):
            return
    if allowed is not None:
        raise refused(url, f"'{host}' is not among the hosts that are allowed ({', '.join(allowed) or 'none'})")


async def addresses_of(host: str, port: int, url: str, *, allow_private: bool) -> tuple[str, ...]:
    """Return the addresses of a host, to connect to as they are: a second resolution may give others.

    Raises:
        InvalidInput: one of them is not public.
        MidcourseError: there are none.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise MidcourseError(
            f"The host '{host}' of {url} cannot be found ({error}). Check the name.", code="host_not_found", url=url
        ) from error
    addresses = tuple(dict.fromkeys(str(one[4][0]) for one in found))
    for address in addresses:
        if not allow_private and not is_public(address):
            spelled = address if address == host else f"{host} ({address})"
            raise refused(
                url, f"{spelled} is not a public address; web(allow_private=True) allows the addresses of this network"
            )
    return addresses


def is_public(address: str) -> bool:
    """Return True if an address is on the public internet, also when it is wrapped in another."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:  # a scope that this Python does not know: certainly not public
        return False
    if any(parsed in network for network in _NOT_PUBLIC):
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if inner is None and parsed in _NAT64:
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(str(inner))
        if parsed not in _GIVEN_OUT:
            return False
    return parsed.is_global and not (
        parsed.is_multicast
        or parsed.is_private
        or parsed.is_loopback
        or parsed.is_link_local
        or parsed.is_reserved
        or parsed.is_unspecified
    )
