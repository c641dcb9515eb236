"""What every package needs and no user asks for: refusals, files, arrays, notebooks, processes."""
