"""From the moment this is imported, sockets of the process reach this machine only."""

import socket

LOCAL = ("127.0.0.1", "localhost", "::1")
_connect, _connect_ex = socket.socket.connect, socket.socket.connect_ex


class NetworkBlockedError(AssertionError):
    """A test, or a process that a test started, tried to leave this machine."""


def _require_local(sock: socket.socket, address) -> None:
    if sock.family != socket.AF_UNIX and address[0] not in LOCAL:
        raise NetworkBlockedError(f"a test tried to reach {address}")


def _guarded_connect(sock: socket.socket, address) -> None:
    _require_local(sock, address)
    _connect(sock, address)


def _guarded_connect_ex(sock: socket.socket, address) -> int:
    _require_local(sock, address)
    return _connect_ex(sock, address)


socket.socket.connect, socket.socket.connect_ex = _guarded_connect, _guarded_connect_ex
