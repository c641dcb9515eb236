"""Printed sentences that have no check of their own, each as a claim with a proof where it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PRINTED: dict[str, Callable[..., Any]] = {}
