"""The order in which a newcomer reads the tutorials."""

ORDER = (
    "where_does_gradient_descent_go.py",
    "which_optimizer_does_what.py",
    "check_a_conjecture.py",
    "read_a_theorem_check.py",
    "is_my_dataset_realizable.py",
    "what_did_the_embeddings_learn.py",
    "which_words_decide.py",
    "is_my_attention_accurate.py",
)


def place(file: str) -> int:
    """Return the position of a tutorial; one that is not listed stops the site.

    >>> place("check_a_conjecture.py")
    2
    """
    return ORDER.index(file)
