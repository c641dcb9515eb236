"""`python -m hardmax` is the command `hardmax`."""

from hardmax.app.cli import main

main()
