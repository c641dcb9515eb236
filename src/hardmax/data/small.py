from hardmax.data.named import example as named  # noqa: F401
