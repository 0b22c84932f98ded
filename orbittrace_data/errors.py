"""The two kinds of failure that a person is told about in one sentence.

Modules subclass these beside their own subject, so an error carries the values it is about.
"""


class OrbitTraceError(Exception):
    """Anything that this package refuses or fails at; ``exit_code`` is the command line's."""

    exit_code = 1


class InputError(OrbitTraceError, ValueError):
    """What was given cannot be used: the sentence says what, what is allowed and what to do."""

    exit_code = 2


class FailedError(OrbitTraceError, RuntimeError):
    """The input was fine but the work failed (a digest does not hold, a server said no)."""

    exit_code = 1
