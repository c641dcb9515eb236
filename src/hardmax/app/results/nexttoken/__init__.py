"""What the `ntp` commands say: sentences checked, learned, drawn and continued."""
