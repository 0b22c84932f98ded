"""Croissant metadata."""

CROISSANT_NAME = "croissant.json"
