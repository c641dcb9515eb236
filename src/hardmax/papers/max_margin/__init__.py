"""Paper B, Max-Margin Token Selection in Attention Mechanism."""
