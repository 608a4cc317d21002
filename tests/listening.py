"""What a process and its descendants listen at, as Linux tells it."""

import contextlib
import ipaddress
import re
import shutil
import socket
import subprocess
from pathlib import Path

LISTENING = "0A"  # a state of a socket in /proc/net/tcp


def process_tree(process: int) -> list[int]:
    """Returns the process and its descendants."""
    tree = [process]
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            for child in path.read_text().split():
                tree += process_tree(int(child))
    return tree


def listening_addresses(process: int) -> list[str]:
    """Returns the addresses at which the process and its descendants listen."""
    links = []
    for member in process_tree(process):
        for path in Path(f"/proc/{member}/fd").glob("*"):
            with contextlib.suppress(OSError):
                links.append(str(path.readlink()))
    sockets = {int(match[1]) for match in map(re.compile(r"socket:\[(\d+)\]").fullmatch, links) if match}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == LISTENING and int(rest[5]) in sockets:
                words = bytes.fromhex(local.partition(":")[0])  # words of 32 bits, each with its lowest byte first
                address = b"".join(words[start : start + 4][::-1] for start in range(0, len(words), 4))
                found.append(str(ipaddress.ip_address(address)))
    return found


def reachable_addresses(process: int) -> list[str]:
    """Returns those of `listening_addresses` that are not of the loopback interface."""

    def is_loopback(text: str) -> bool:
        address = ipaddress.ip_address(text)
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback

    return [address for address in listening_addresses(process) if not is_loopback(address)]


def with_named_address() -> list[str]:
    """Returns a command prefix under which the name of this machine is its address in the network, as on most servers.

    In a container the name is often that of the loopback interface, which would hide a library that listens there.
    Empty where this machine has no network or no namespaces.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return []
        address = probe.getsockname()[0]
    prefix = ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c", f'hostname {address} && exec "$@"', "sh"]
    if shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
        return prefix
    return []
