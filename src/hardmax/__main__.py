"""`python -m hardmax` is the command `hardmax`."""

from hardmax.cli import main

main()
