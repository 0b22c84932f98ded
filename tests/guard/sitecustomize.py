"""Python imports this at its start where the folder is on PYTHONPATH: in every process that the tests start."""

import loopback_only  # noqa: F401 - importing it is what it does
