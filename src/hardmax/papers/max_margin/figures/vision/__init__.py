"""Figures 6 and 7: a vision transformer on CIFAR-10, or what stands in for it."""
