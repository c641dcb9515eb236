"""Write docs/reference/cli, a page per command, from the program: python docs/_tools/command_pages.py."""

from __future__ import annotations

from pathlib import Path

from hardmax.app.cli.commands import COMMANDS, GROUPS, SECTIONS
from hardmax.app.cli.options import GLOBAL, Command, Parameter

FOLDER = Path(__file__).parents[1] / "reference" / "cli"


def pages() -> dict[str, str]:
    """Return the text of every page by the name of its file."""
    made = {f"{name.replace(' ', '-')}.md": page(name, command) for name, command in COMMANDS.items()}
    return {"index.md": index(), **made}


def index() -> str:
    """Return the page that lists all commands."""
    lines = [
        "# Commands",
        "",
        "Generated from the program. [The contract](../command-line.md) has the JSON and exit codes.",
    ]
    for section, names in SECTIONS.items():
        lines += ["", f"## {section}", "", "| command | |", "|---|---|"]
        for name in names:
            inner = [each for each in COMMANDS if each.startswith(f"{name} ")] if name in GROUPS else [name]
            lines += [
                f"| [`hardmax {each}`]({each.replace(' ', '-')}.md) | {COMMANDS[each].summary} |"
                for each in inner
            ]
    lines += ["", "```{toctree}", ":hidden:", ""]
    lines += [name.replace(" ", "-") for name in COMMANDS]
    return "\n".join([*lines, "```", ""])


def page(name: str, command: Command) -> str:
    """Return the page of one command: summary, examples, arguments, options."""
    arguments = [each for each in command.parameters if each.is_argument]
    options = [each for each in command.parameters if not each.is_argument]
    rows = [(each.flags, _text(command, each)) for each in options]
    rows += [(f"--{flag}", each["help"]) for flag, each in command.instead.items()]
    parts = [f"# hardmax {name}", command.summary, *([command.note] if command.note else [])]
    parts.append("```console\n" + "\n".join(command.examples) + "\n```")
    if arguments:
        parts.append(_table("argument", [(each.option, _text(command, each)) for each in arguments]))
    if rows:
        parts.append(_table("option", rows))
    parts.append(_table("global option", [*GLOBAL.items()]))
    parts.append(f"In Python: `{twin(command)}`.")
    return "\n\n".join(parts) + "\n"


def twin(command: Command) -> str:
    """Return the name of the function in Python."""
    module, _, name = command.function.removeprefix("results.").partition(":")
    if module == "audit":
        return "hm.torch.audit"  # the command names a function by its place
    homes = {
        "next": "hm.nexttoken.",
        "text": "hm.text.",
        "sweep": "hm.trials.",
        "playground.playing": "hm.playground.",
    }
    return homes.get(module.partition("_")[0], "hm.") + name


def _text(command: Command, each: Parameter) -> str:
    return command.spoken(each.text).replace("`", "")


def _table(head: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {head} | |", "|---|---|"]
    for name, text in rows:
        cells = (f"`{name}`".replace("|", "\\|"), text.replace("|", "\\|"))
        lines.append(f"| {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
