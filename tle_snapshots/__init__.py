"""Frozen element sets, one folder a snapshot, never edited after they were committed."""
