"""The version of the package; the data carry their own (see ``CHANGELOG.md``)."""

__version__ = "0.1.0"
