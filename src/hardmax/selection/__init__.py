"""Selections: which token each input attends to, which ones compete with it, and which attract."""

from hardmax.selection.selected import Selection, selected_tokens

__all__ = ["Selection", "selected_tokens"]
