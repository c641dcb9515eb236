"""Laws of a training by steps: thresholds of its rate, what they foretell, what a run proves."""
