"""The devices under test: a new engine joins the whole suite here."""

from __future__ import annotations

from importlib.util import find_spec

DEVICES = ["numpy:cpu", *(["torch:cpu"] if find_spec("torch") else [])]
