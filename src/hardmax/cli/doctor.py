"""`hardmax doctor`: is this installation sound?"""

from hardmax.cli.output import Output, command


@command
def doctor(out: Output) -> int:
    """Examine the installation, and compile what is not yet compiled.

    Example: hardmax doctor --json
    """
    from hardmax.answers import diagnosis

    return out.show(diagnosis.examine())
