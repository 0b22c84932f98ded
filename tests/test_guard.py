"""The suite cannot leave this machine, and neither can the processes that it starts."""

import socket
import subprocess
import sys

import pytest
from loopback_only import NetworkBlockedError

OUTSIDE = ("192.0.2.1", 80)  # RFC 5737: documentation only, never assigned


@pytest.mark.parametrize("connect", ["connect", "connect_ex"])
def test_this_process(connect):
    with socket.socket() as sock, pytest.raises(NetworkBlockedError):
        getattr(sock, connect)(OUTSIDE)


def test_child_processes():
    code = f"import socket; socket.create_connection({OUTSIDE!r})"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.returncode == 1
    assert "NetworkBlockedError" in child.stderr
