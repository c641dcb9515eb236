"""The table of commands, and how one of them is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import typer

from hardmax._lib.terminal import BAD_INPUT, DONE, INTERRUPTED
from hardmax.app.cli.errors import Interrupted, complain, explain
from hardmax.app.cli.options import HELP, Command, GroupHelp, Instead, NoColor, Quiet, Version, typer_command
from hardmax.app.cli.output import Output

LIST = "List what exists, or what contains the words given as arguments."

COMMANDS = {
    "solve": Command(
        "results.solve:solve",
        (
            "hardmax solve problem.json",
            "hardmax solve problem.json --flow --plot problem.svg",
            "hardmax solve problem.json --norm l1 --all --certificates proofs",
        ),
        metavars={"problem": "FILE", "start": "FILE|zero", "certificates": "DIR"},
    ),
    "certify": Command(
        "results.certify:certify",
        ("hardmax certify proofs/selection-0.json",),
        metavars={"certificate": "FILE", "norm": "FILE.py"},
    ),
    "verify": Command(
        "results.verify:verify",
        (
            "hardmax verify B-THM-3 C-THM-ASY",
            "hardmax verify B-THM-2 --on problem.json",
            "hardmax verify --list separable",
        ),
        instead={"list": Instead("results.listing:statements", LIST, words="words")},
    ),
    "reproduce": Command(
        "results.reproduce:reproduce",
        (
            "hardmax reproduce B-FIG-9a",
            "hardmax reproduce --paper C --scale paper --out figures",
            "hardmax reproduce --list",
        ),
        metavars={"data": "DIR", "out": "DIR"},
        instead={
            "list": Instead("results.listing:figures", LIST, words="words"),
            "ledger": Instead(
                "results.ledger:ledger", "Make nothing; list all that the papers print, with our verdicts."
            ),
        },
    ),
    "hunt": Command(
        "results.hunt:hunt",
        (
            "hardmax hunt B-THM-1 --reading paper",
            'hardmax hunt "selection == 1 given margin > 0.5"',
            "hardmax hunt claims.py:mine --seconds 60 --out found",
        ),
        metavars={"claim": "CLAIM", "space": "RANGES", "out": "DIR"},
        note="FILE.py:NAME executes the file, as Python does; hunt only files that you trust.",
        instead={
            "catalogue": Instead(
                "results.hunt:catalogue", "Hunt all printed statements known to be false, 60 s each."
            )
        },
    ),
    "sweep": Command(
        "results.sweep:sweep_file",
        (
            "hardmax sweep conjecture.toml",
            "hardmax sweep conjecture.toml --seconds 600 --csv rows.csv",
            "hardmax sweep conjecture.toml --trial 0:17",
        ),
        metavars={"file": "FILE.toml", "trial": "CELL:TRIAL", "allow": "MODULE|FILE.py"},
        note="A FILE.toml may name Python code next to it, which is run; run only files that you trust.",
    ),
    "ntp check": Command(
        "results.next_token_check:check",
        ("hardmax ntp check notes.txt", "hardmax ntp check notes.txt --repair --save-realizable part.txt"),
        metavars={"save_realizable": "OUT"},
    ),
    "ntp generate": Command(
        "results.next_token:generate_file",
        ("hardmax ntp generate --vocabulary 50 --seed 1 --out sentences.txt",),
    ),
    "ntp train": Command(
        "results.next_token:train_file",
        (
            "hardmax ntp train notes.txt --out model.npz",
            "hardmax ntp train notes.txt --out model.npz --steps 10000 --resume",
        ),
        metavars={"out": "MODEL"},
    ),
    "ntp predict": Command(
        "results.next_token:predict_next",
        ('hardmax ntp predict model.npz "boil pour steep"',),
        names={"limit": "--at-infinity"},
        metavars={"sentence": "SENTENCE"},
    ),
    "text train": Command(
        "results.text:train_classifier",
        (
            "hardmax text train reviews.csv --out model.npz",
            "hardmax text train reviews.csv --top-k 10 --test new.csv",
        ),
        names={"text": "--text-column", "label": "--label-column"},
        metavars={"out": "MODEL"},
    ),
    "text explain": Command(
        "results.text:explain",
        (
            'hardmax text explain model.npz "Not bad at all!"',
            'hardmax text explain model.npz "Not bad at all!" --page why.html',
        ),
        metavars={"text": "TEXT", "label": "CLASS"},
    ),
    "text important": Command(
        "results.text:important",
        ("hardmax text important model.npz --limit 20 --plot words.svg",),
        metavars={"label": "CLASS"},
    ),
    "probe": Command(
        "results.probe:probe",
        ("hardmax probe path/to/model", "hardmax probe path/to/model --texts mine.txt --page heads.html"),
        names={"texts": "--texts", "layers": "--layer"},
        metavars={"texts": "FILE"},
        hidden=("tokenizer",),
    ),
    "audit": Command(
        "results.audit:audit_file",
        (
            "hardmax audit torch.nn.functional:scaled_dot_product_attention",
            "hardmax audit kernels.py:attention --dtype bfloat16 --plot errors.svg",
        ),
        names={"dtypes": "--dtype"},
        metavars={"function": "MODULE:FUNCTION"},
        note="FILE.py:FUNCTION executes the file, as Python does; audit only files that you trust.",
    ),
    "play": Command(
        "playground.playing:serve",
        ("hardmax play", "hardmax play problem.json --port 8000"),
        metavars={"what": "WHAT", "host": "ADDRESS", "timeout": "SECONDS", "export": "FILE.html"},
    ),
    "doctor": Command("results.doctor:doctor", ("hardmax doctor", "hardmax doctor --json")),
}
NTP = "Check, generate and train on next-token datasets, and predict."
TEXT = "Classify texts by attention, and see which words decide."
SECTIONS = {
    "Directions and proofs": ("solve", "certify"),
    "Papers": ("verify", "reproduce", "hunt"),
    "Many trials": ("sweep",),
    "Sentences and texts": ("ntp", "text"),
    "Models": ("probe", "audit"),
    "Tools": ("play", "doctor"),
}
GROUPS = {"ntp": NTP, "text": TEXT}


class TopHelp(GroupHelp):
    """The first page."""

    title = "Compute where training drives attention, with proofs."
    sections: ClassVar = {
        title: {name: GROUPS.get(name) or COMMANDS[name] for name in names}
        for title, names in SECTIONS.items()
    }


def set_globally(
    ctx: typer.Context, quiet: Quiet = False, no_color: NoColor = False, show_version: Version = False
) -> None:
    """Note what is set before a command."""
    ctx.obj.quiet = ctx.obj.quiet or quiet


def typer_app(word: str = "") -> typer.Typer:
    """Make the command line with the commands that begin with a word, or with all commands.

    Describing all of them takes a tenth of the time of a short answer. Help is plain, because drawing boxes
    around it would double the time it takes to appear.
    """
    plain: Any = {"pretty_exceptions_enable": False, "rich_markup_mode": None}
    made = typer.Typer(cls=TopHelp, context_settings=HELP, **plain)
    made.callback()(set_globally)
    groups = {"": made}
    for full, command in COMMANDS.items():
        group, _, name = full.rpartition(" ")
        if word not in ("", group or name):
            continue
        if group not in groups:
            inner = {
                each.removeprefix(f"{group} "): COMMANDS[each] for each in COMMANDS if f"{group} " in each
            }
            help_page = type(
                "InnerHelp", (GroupHelp,), {"title": GROUPS[group], "sections": {"Commands": inner}}
            )
            groups[group] = typer.Typer(add_completion=False, cls=help_page, help=GROUPS[group], **plain)
            groups[group].callback()(set_globally)
            made.add_typer(groups[group], name=group, context_settings=HELP)
        run, page = typer_command(name, command)
        groups[group].command(name, cls=page, context_settings=HELP)(run)
    return made


@dataclass
class CommandSession:
    """One command line: what was set before the command, and the output of the command."""

    quiet: bool = False
    out: Output | None = None


def call(arguments: Sequence[str]) -> int:
    """Call the command that is named and return its exit code; a mistake ends in a sentence."""
    session = CommandSession()
    try:
        code = _call(arguments, session)
    except OSError as error:
        return _complain(explain(error), BAD_INPUT, arguments, session)
    except (ValueError, ImportError) as error:
        return _complain(str(error), BAD_INPUT, arguments, session)
    except MemoryError as error:
        what = f"not enough memory ({error})" if str(error) else "not enough memory"
        return _complain(f"{what}; pass less data at a time", BAD_INPUT, arguments, session)
    except Interrupted as stop:
        return _complain(str(stop) or AGAIN, INTERRUPTED, arguments, session)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:  # typer itself turns most interrupts into this code
        return _complain(AGAIN, INTERRUPTED, arguments, session)
    return code


AGAIN = "interrupted; give the same command again to start over"


def _call(arguments: Sequence[str], session: CommandSession) -> int:
    given = list(arguments) or ["--help"]
    if given[0] == "help":
        given = [*given[1:], "--help"]
    known = {name.split()[0] for name in COMMANDS}
    word = next((each for each in given if not each.startswith("-")), "")
    app = typer_app(word if word in known else "")
    try:
        return int(app(args=given, prog_name="hardmax", standalone_mode=False, obj=session) or DONE)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "hardmax"
        message = error.format_message()
        message = message if message.endswith(("?", ".")) else f"{message}."
        raise ValueError(f"{message} Try '{command} --help'.") from None
    except SystemExit:  # typer's answer to a reader of the help who has seen enough
        return DONE


def _complain(message: str, code: int, arguments: Sequence[str], session: CommandSession) -> int:
    answered = session.out is not None and session.out.shown is not None
    return complain(message, code, as_json="--json" in arguments and not answered, names=arguments)
