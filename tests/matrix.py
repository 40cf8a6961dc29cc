"""The devices under test: a new engine joins the whole suite here."""

from __future__ import annotations

DEVICES = ["numpy:cpu"]
