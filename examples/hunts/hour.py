"""Hunt every corrected statement for counterexamples, each for the same share of the CPU time.

    python examples/hunts/hour.py DIR --hours 2 --workers 2

spends two CPU hours. Finished work is stored in DIR, so the same command continues after an interruption.
DIR/hour.jsonl has a line for each statement that is done, and the program ends with a table of verdicts.
Statements that are known to fail on some data even as corrected are left out, such as the papers'
assumptions: these test data and are not theorems.
"""

import argparse
import json
import time
from collections import Counter
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

from hardmax.app.results.hunt import conclude
from hardmax.papers.checking.check import statements
from hardmax.papers.checking.instances import instances
from hardmax.papers.hunting.claims import claim_of
from hardmax.papers.hunting.search import Drive

TURNS = 4  # all statements have a quarter of their share before one has more
NOTHING = "nothing found"


class Spent(Exception):
    """The share of a statement is used up."""


def theorems():
    """Ids of statements that no known instance breaks as they are corrected."""
    broken = {x.id for x in instances() if x.reading == "corrected" and x.expected in ("fails", "refuted")}
    return [id for id in statements() if id not in broken]


def hunted(job):
    """Hunt one statement for this many CPU seconds, counted in whole units; a line of the table."""
    id, folder, share = job
    begun = time.process_time()

    def tell(done, total):
        if time.process_time() - begun >= share:
            raise Spent

    drive = Drive(claim_of(id), tries=10**6, store=folder / f"{id}.sqlite", workers=0, progress=tell)
    with suppress(Spent):
        drive.run()
    found = conclude(drive)
    drive.close()
    told = {"id": id, "verdict": found.verdict, "tries": found.tries, "instances": found.instances}
    if found.candidate is not None:
        told["candidate"] = found.candidate.to_dict()
    return told | {"words": found.words, "raised": found.refusal, "cpu": time.process_time() - begun}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=float, default=2.0, help="of CPU time, over all statements")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    file, ids = asked.folder / "hour.jsonl", theorems()
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    with get_context("spawn").Pool(asked.workers) as pool, file.open("a") as lines:
        for turn in range(1, TURNS + 1):
            whole = 3600 * asked.hours * turn / TURNS / len(ids)
            last = {each["id"]: each["verdict"] for each in done}
            spent = Counter()
            for each in done:
                spent[each["id"]] += each["cpu"]
            left = [id for id in ids if spent[id] < whole and last.get(id, NOTHING).startswith(NOTHING)]
            for told in pool.imap_unordered(hunted, [(id, asked.folder, whole - spent[id]) for id in left]):
                done.append(told)
                print(json.dumps(told), file=lines, flush=True)
                print(f"{told['id']:12} {told['cpu']:6.0f} s  {told['verdict']}", flush=True)
    tell(done)


def tell(done):
    """The table: each line has what its statement was hunted on from the beginning."""
    last = {each["id"]: each for each in done}.values()
    words = sum((Counter(each["words"]) for each in last), Counter())
    cpu, instances = sum(each["cpu"] for each in done), sum(each["instances"] for each in last)
    print(f"{len(last)} statements, {cpu / 3600:.2f} CPU hours, {instances:,} instances: {dict(words)}")
    for each in last:
        if not each["verdict"].startswith(NOTHING) or each["raised"]:
            print(each["id"], each["verdict"], each["raised"] or "")


if __name__ == "__main__":
    main()
