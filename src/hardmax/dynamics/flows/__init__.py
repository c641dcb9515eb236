"""What a flow is made of: the field it follows, one extrapolated step, and the clock of arc length."""
