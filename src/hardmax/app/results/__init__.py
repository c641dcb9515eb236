"""What commands say: each answer knows its JSON, its exit code, its table and how a notebook shows it."""

from hardmax._lib.lazy import lazy

# Public name -> the file it lives in. The verbs, as hm.solve, are at the top level.
_NAMES = {
    "Answer": "answer",
    "Catalogued": "hunts",
    "Certified": "certified",
    "Checked": "nexttoken.checked",
    "Diagnosis": "diagnosis",
    "Drawn": "nexttoken.sentences",
    "Finding": "diagnosis",
    "FlowEnd": "solving",
    "Hunted": "hunts",
    "Judged": "verified",
    "Ledger": "ledger",
    "OneTrial": "swept",
    "Predicted": "nexttoken.sentences",
    "Probed": "probed",
    "Reproduction": "reproduction",
    "Solved": "solving",
    "Swept": "swept",
    "TextExplained": "text",
    "TextImportant": "text",
    "TextTrained": "text",
    "Trained": "nexttoken.trained",
    "Verified": "verified",
    "examine": "diagnosis",
    "ntp_check": "nexttoken.checked",
    "ntp_generate": "nexttoken.sentences",
    "ntp_predict": "nexttoken.sentences",
    "ntp_train": "nexttoken.trained",
    "probe_file": "probed",
    "text_explain": "text",
    "text_important": "text",
    "text_train": "text",
}

__getattr__, __dir__, __all__ = lazy(__name__, _NAMES)
