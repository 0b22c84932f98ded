"""Reference trainers that run under an availability trace (extra ``trainers``: torch, transformers)."""
