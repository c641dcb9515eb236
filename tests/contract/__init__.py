"""What hardmax does, by behavior, in words that outlive its names: only `names.py` depends on the version."""
