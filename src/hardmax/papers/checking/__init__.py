"""Every statement of the papers as a check on the data at hand, and what a check is made of."""
