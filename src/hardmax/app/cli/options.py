"""Commands made from functions: options from the signature, their help from `Args:`, both written once.

A keyword of the function becomes an option, a positional parameter an argument, and a `Literal` a choice. The
first sentence of a parameter in `Args:` is its help; further sentences are about Python only.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from hardmax import __version__
from hardmax._lib.compiling import Compiled
from hardmax._lib.terminal import DONE
from hardmax.app.results.session import Session, current

METAVARS = {"int": "N", "float": "X", "path": "FILE", "str": "NAME", "mapping": "NAME=JSON"}
# What a parameter is called on the command line, unless its command says otherwise.
METAVARS_BY_NAME = {
    "address": "ADDRESS",
    "ids": "ID",
    "model": "MODEL",
    "on": "FILE",
    "page": "OUT.html",
    "plot": "OUT.svg",
    "seconds": "SECONDS",
}
OPTIONS_BY_NAME = {"rng": "--seed"}
HELP = {"help_option_names": ["-h", "--help"]}
WIDEST = 90  # columns of a help page
NAMES = 24  # columns of an option; the text of a longer one is below it


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function as the command line has it."""

    name: str
    option: str  # "--seed", or "FILE" of an argument
    kind: str  # bool, int, float, path, str, mapping
    many: bool
    choices: tuple[str, ...]
    default: Any
    metavar: str
    help: str
    is_spread: bool = False  # the function takes its values one by one

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def is_argument(self) -> bool:
        """Whether it has a place instead of a name."""
        return not self.option.startswith("-")

    @property
    def flags(self) -> str:
        """The spelling in a help page, as ``--limit N``."""
        if self.kind == "bool":
            return f"{self.option}/--no-{self.option[2:]}" if self.default is True else self.option
        return self.option if self.is_argument else f"{self.option} {self.metavar}"

    @property
    def text(self) -> str:
        """The help with the default value."""
        if self.is_required and not self.is_argument:
            return f"{self.help} [required]"
        if self.is_required or self.default in (None, "") or isinstance(self.default, bool):
            return self.help
        default = f"{self.default:g}" if isinstance(self.default, float) else self.default
        return f"{self.help} [default: {default}]"

    def annotated(self, *, optional: bool = False) -> inspect.Parameter:
        """Return the parameter as typer reads it; with ``optional`` none is required."""
        annotation: Any = {"bool": bool, "int": int, "float": float}.get(self.kind, str)
        annotation = Literal[self.choices] if self.choices else annotation
        annotation = list[annotation] if self.many else annotation
        default = None if optional and self.is_required else self.default
        if default is not inspect.Parameter.empty and not isinstance(default, bool):
            annotation = annotation | None
        if self.is_argument:
            info: Any = typer.Argument(metavar=self.option)
        elif self.kind == "bool":
            info = typer.Option(self.flags)
        else:
            info = typer.Option(self.option, metavar=self.metavar)
        return _keyword(self.name, Annotated[annotation, info], default)

    def value(self, value: Any) -> Any:
        """Return a value of the command line as the function takes it."""
        if self.kind == "mapping":
            return _mapping(self.option, value or ())
        return (value or None) if self.many else value


def _keyword(name: str, annotation: Any, default: Any = False) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


@dataclass(frozen=True)
class Command:
    """A command: the function behind it, and the few facts that its signature lacks."""

    function: str  # "module:name" below hardmax.app
    examples: Sequence[str]
    names: Mapping[str, str] = field(default_factory=dict)  # parameter -> option, or ARGUMENT
    metavars: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    note: str = ""
    # flag -> the function to call with the options that both share, its help, and in `words` the parameter
    # that receives the arguments
    instead: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def call(self) -> Callable[..., Any]:
        """The function."""
        return _load(self.function)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.call) or "").partition("\n")[0]

    @property
    def parameters(self) -> list[Parameter]:
        """The arguments and options, in the order of the signature."""
        helps = arguments_of(inspect.getdoc(self.call) or "")
        signature = inspect.signature(self.call).parameters.values()
        is_variable = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature)
        parameters = []
        for parameter in signature:
            name, annotation = parameter.name, str(parameter.annotation)
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or name in self.hidden:
                continue
            has_option = self.names.get(name, "").startswith("--") or name == "out"
            is_argument = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not has_option
            if "Callable" in annotation and not is_argument:
                continue
            kind, many, choices = kind_of(annotation)
            spread = is_variable and is_argument
            metavar = "|".join(choices) or METAVARS.get(kind, "")
            metavar = {**METAVARS_BY_NAME, **self.metavars}.get(name, metavar)
            option = metavar if is_argument else f"--{name.replace('_', '-')}"
            option = {**OPTIONS_BY_NAME, **self.names}.get(name, option)
            facts = (name, option, kind, many or spread, choices, parameter.default, metavar)
            parameters.append(Parameter(*facts, helps.get(name, ""), spread))
        return parameters

    def spoken(self, message: str) -> str:
        """Return a message of the function with options instead of parameters: `flow=True` is --flow."""
        for parameter in self.parameters:
            name, option = re.escape(parameter.name), parameter.option
            message = re.sub(rf"`?\b{name}=True\b`?", option, message)
            message = re.sub(rf"`{name}=([^`]*)`", rf"{option} \1", message)
            message = re.sub(rf"`{name}`", option, message)
            message = re.sub(rf"^{name}(?= must |\[|: )", option, message)
        return message

    def run(self, out: Session, values: dict[str, Any]) -> int:
        """Call the function with the options and print its result; return the exit code."""
        function, words, options = self._chosen(values)
        token = current.set(out)
        try:
            result = function(*words, **options)
        finally:
            current.reset(token)
        if result is None:
            return DONE
        if out.shown is None:
            out.show(result)
        if result.interruption:
            raise KeyboardInterrupt(result.interruption)
        return int(result.exit_code)

    def _chosen(self, values: dict[str, Any]) -> tuple[Callable[..., Any], Sequence[Any], dict[str, Any]]:
        """Return the function to call, the arguments of a variable number, and the others."""
        flags = [name for name in self.instead if values.pop(name)]
        options = {parameter.name: parameter.value(values[parameter.name]) for parameter in self.parameters}
        if not flags:
            for parameter in self.parameters:
                if parameter.is_required and options[parameter.name] is None:
                    alternatives = " or ".join(f"--{name}" for name in self.instead)
                    raise ValueError(f"missing argument {parameter.option}, or {alternatives}")
            spread = [parameter.name for parameter in self.parameters if parameter.is_spread]
            return self.call, options.pop(spread[0]) if spread else (), options
        instead = self.instead[flags[0]]
        function = _load(instead["function"])
        accepted = inspect.signature(function).parameters
        shared: dict[str, Any] = {}
        for parameter in self.parameters:
            value = options[parameter.name]
            if parameter.name in accepted:
                shared[parameter.name] = value
            elif parameter.is_argument and "words" in instead and value:
                shared[instead["words"]] = " ".join(value)
            elif value not in (None, parameter.default):
                raise ValueError(
                    f"{parameter.option} cannot be combined with --{flags[0]}; leave one of them out"
                )
        return function, (), shared


def _load(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"hardmax.app.{module}"), name)
    return function


def arguments_of(docstring: str) -> dict[str, str]:
    r"""Return the first sentence of each parameter in the section `Args:`.

    >>> from hardmax.app.cli.options import arguments_of
    >>> arguments_of("Do it.\n\nArgs:\n    n: Number of steps. None is all.\n    x: Size.\n")
    {'n': 'Number of steps.', 'x': 'Size.'}
    """
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", docstring, re.MULTILINE)
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section[1] if section else "", re.MULTILINE)
    texts = {name: " ".join(text.split()) for name, text in entries}
    return {name: re.split(r"(?<=[.)]) (?=[A-Z0-9])", text)[0] for name, text in texts.items()}


def kind_of(annotation: str) -> tuple[str, bool, tuple[str, ...]]:
    """Return the kind of an annotation, whether it takes several values, and its choices."""
    choices = re.search(r"Literal\[([^\]]*)\]", annotation)
    if choices:
        return "str", False, tuple(ast.literal_eval(f"[{choices[1]}]"))
    many = re.search(r"(Iterable|Sequence)\[str\] \| None", annotation) is not None
    words = {*re.findall(r"\w+", annotation)}
    for kind in ("bool", "int", "float"):
        if words - {"None"} == {kind}:
            return kind, False, ()
    if "Mapping" in words:
        return "mapping", True, ()
    return "path" if words & {"PathLike", "Path"} else "str", many, ()


def _mapping(option: str, words: Sequence[str]) -> dict[str, Any] | None:
    """Return ``selection=[0,1]`` as a dictionary; lists may lack their brackets."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        readings = []
        for candidate in (text, f"[{text}]"):
            with suppress(ValueError):
                readings.append(json.loads(candidate))
        if not equals or not readings or not name.strip().isidentifier():
            raise ValueError(f"{option} must be NAME=VALUE, as selection=[0,1] or rho=0.5, got {word!r}")
        values[name.strip()] = readings[0]
    return values or None


def _disable_color(wanted: bool) -> None:
    # Every console asks this variable, worker processes included: one switch for all.
    if wanted:
        os.environ["NO_COLOR"] = "1"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hardmax {__version__}", flush=True)
        raise typer.Exit


GLOBAL = {
    "--json": "Print one JSON object instead of text.",
    "-q, --quiet": "Suppress progress and status messages.",
    "--no-color": "Print without colors, as with NO_COLOR.",
    "-h, --help": "Show this page and exit.",
    "-V, --version": "Print the version and exit.",
}
Json = Annotated[bool, typer.Option("--json")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q")]
NoColor = Annotated[bool, typer.Option("--no-color", callback=_disable_color, is_eager=True)]
Version = Annotated[bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True)]


def with_help(kind: type, page: Callable[[str], str]) -> Any:
    """Return a subclass of a class of typer, with a help page made from the words of the command line."""

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        formatter.write(page(ctx.command_path))

    return type("Help", (kind,), {"format_help": format_help})


def command_page(path: str, command: Command) -> str:
    """Return the help page of a command."""
    words, arguments, options = ["Usage:", path], {}, {}
    for parameter in command.parameters:
        text = command.spoken(parameter.text).replace("`", "")
        if parameter.is_argument:
            word = f"{parameter.option}{'...' if parameter.many else ''}"
            words.append(word if parameter.is_required and not command.instead else f"[{word}]")
            arguments[parameter.option] = text
        else:
            options[parameter.flags] = text
    options |= {f"--{flag}": instead["help"] for flag, instead in command.instead.items()}
    words[2:2] = ["[OPTIONS]"] if options else []
    parts = [
        " ".join(words),
        _filled(command.summary),
        _filled(command.note),
        "Examples:\n" + "\n".join(f"  {line}" for line in command.examples),
        _section("Arguments", arguments),
        _section("Options", options),
        _section("Global options", GLOBAL),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def group_page(path: str, title: str, sections: Mapping[str, Mapping[str, str | Command]]) -> str:
    """Return the help page of a group, which lists its commands under headings."""
    parts = [f"Usage: {path} [OPTIONS] COMMAND", _filled(title)]
    options = {name: text for name, text in GLOBAL.items() if name != "--json"}
    column = max(len(name) for rows in (*sections.values(), options) for name in rows) + 4
    for heading, rows in sections.items():
        texts = {name: row if isinstance(row, str) else row.summary for name, row in rows.items()}
        parts.append(_section(heading, texts, column))
    parts.append(_section("Options", options, column))
    parts.append(f"Run '{path} COMMAND -h' for the options of a command.")
    return "\n\n".join(parts) + "\n"


def _width() -> int:
    return max(60, min(shutil.get_terminal_size().columns, WIDEST))


def _filled(text: str) -> str:
    return textwrap.fill(text, _width(), initial_indent="  ", subsequent_indent="  ")


def _section(title: str, rows: Mapping[str, str], column: int | None = None) -> str:
    """Return a heading and a line per row; long names have their text below."""
    if not rows:
        return ""
    column = column or min(max(map(len, rows)), NAMES) + 4
    lines = [f"{title}:"]
    for name, text in rows.items():
        filled = textwrap.wrap(text, _width() - column, break_on_hyphens=False) or [""]
        first = f"  {name}".ljust(column)
        if len(name) + 4 > column:
            lines.append(first.rstrip())
            first = " " * column
        lines += [f"{first}{filled[0]}".rstrip(), *(" " * column + line for line in filled[1:])]
    return "\n".join(lines)


def typer_command(name: str, command: Command) -> tuple[Callable[..., Callable[[], int]], Any]:
    """Return a function with typer's signature, and the class of its help page.

    It returns the work to do, because typer hides interrupts and ends the process when a pipe is closed.
    """

    def run(*, ctx: typer.Context, as_json: bool, quiet: bool, **values: Any) -> Callable[[], int]:
        session = ctx.obj
        session.as_json = as_json
        session.quiet = session.quiet or quiet
        session.spoken = command.spoken
        Compiled.may_say = not session.quiet
        return lambda: command.run(session, values)

    # a flag that calls another function makes arguments superfluous
    parameters = [p.annotated(optional=bool(command.instead)) for p in command.parameters]
    for flag in command.instead:
        parameters.append(_keyword(flag, Annotated[bool, typer.Option(f"--{flag}")]))
    parameters.append(_keyword("ctx", typer.Context, inspect.Parameter.empty))
    shared = {"as_json": Json, "quiet": Quiet, "no_color": NoColor, "show_version": Version}
    parameters += [_keyword(option, annotation) for option, annotation in shared.items()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__ = name
    return run, with_help(TyperCommand, lambda path: command_page(path, command))
