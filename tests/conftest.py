"""No test reaches the network: sockets connect to this machine only."""

import socket

import pytest

LOCAL = ("127.0.0.1", "localhost", "::1")


class NetworkBlockedError(AssertionError):
    """A test tried to leave this machine."""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    connect = socket.socket.connect

    def guarded(self, address):
        if self.family != socket.AF_UNIX and address[0] not in LOCAL:
            raise NetworkBlockedError(f"a test tried to reach {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
