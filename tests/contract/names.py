"""The contract's words in the Python names of this version: the only file here that a new version changes.

A word is a line of `WORDS` where only the name differs, and a function where arguments differ too; the
vocabulary is that of 0.3. `test_covered.py` holds that assertions reach all public names.
"""

import contextlib
import io
import operator
from dataclasses import dataclass, field
from typing import Any

import hardmax as hm

# Classes that are returned and never built by a user; what they hold is asserted on the values of functions.
RESULTS = {
    "": "MaxMargin Run Sweep",
    "data": "Labelled Review",
    "directions": "Attraction CriticalDirection CriticalDirections "
    "Direction SelectionList FeasibleSelection Neighbors",
    "embeddings": "Assumption4 EmbeddingDescent EmbeddingModel EmbeddingTraining FirstStep GramDescent "
    "GramFlow TextCorpus TextReport TokenSelection TwoLayerDescent",
    "readouts": "Attention",
    "limits": "Decomposition Forecast JointPath LateComparison LateResidual LocalPath RegularizationPath "
    "Survivors",
    "margin": "Ball Face FactoredPoint InterpolatedMaxMargin SetMaxMargin Norm",
    "nexttoken": "Analysis Generated NextTokenModel Orders Prediction Predictor Training Violation",
    "papers": "Check Claim Figure Paper Statement",
    "playground": "Serving",
    "text": "Explanation TextStatistics TokenRanking TopKReport WordMap",
    "torch": "AttentionLayer AuditCase AuditResult Heads ProbedHead Watch",
    "dynamics": "AttentionModel AttentionRun FactorRun Factors Gradient Joint Matrix Remainder Smoothness "
    "WeightRun",
}

# Words that differ from the public name in nothing else.
WORDS = {
    "problem": "Problem",
    "problem_from_queries": "Problem.from_queries",
    "problem_from_classes": "Problem.from_classes",
    "problem_from_gram": "Problem.from_gram",
    "problem_from_psi": "Problem.from_psi",
    "problem_from_readout": "Problem.from_readout",
    "load_problem": "Problem.load",
    "loss_function": "LossFunction",
    "ledger": "ledger",
    "sphere": "data.sphere",
    "gaussian": "data.gaussian",
    "attention": "attention",
    "loss": "loss",
    "hessian": "dynamics.hessian",
    "excess_loss": "dynamics.excess_loss",
    "signed_log": "dynamics.SignedLog",
    "signed_log_sum": "dynamics.SignedLog.sum",
    "off_top_attention": "dynamics.off_top_attention",
    "cosine_distance": "cosine_distance",
    "effective_tokens": "dynamics.soft_sparsity",
    "smoothness": "dynamics.smoothness",
    "is_best": "directions.is_best",
    "train_list": "train",
    "load_run": "Run.load",
    "critical_rate": "limits.critical_rate",
    "freezing_rate": "limits.freezing_rate",
    "mirror_onset": "limits.mirror_onset",
    "adam_limit": "limits.adam_limit",
    "adam_growth": "limits.adam_growth",
    "adam_waiting": "limits.adam_waiting",
    "runaway_rate": "limits.runaway_rate",
    "forecast": "limits.forecast",
    "max_margin": "max_margin",
    "max_margin_list": "max_margin",
    "set_max_margin": "margin.set_max_margin",
    "factored_point": "margin.factored_point",
    "constraints": "Constraints.dense",
    "constraint_pairs": "Constraints.pairs",
    "constraints_from_gram": "Constraints.from_gram",
    "constraints_between_entries": "Constraints.between_entries",
    "certify": "certify",
    "critical_directions": "critical_directions",
    "score_gap": "directions.score_gap",
    "assumption_b": "directions.assumptions.assumption_b",
    "assumption_c": "directions.assumptions.assumption_c",
    "assumption_d": "directions.assumptions.assumption_d",
    "directional_margin": "directions.directional_margin",
    "general_position": "directions.position.general_position",
    "in_cone": "directions.direction.in_cone",
    "local_constants": "directions.direction.local_constants",
    "label_max_margin": "directions.label_max_margin",
    "relaxed_max_margin": "directions.relaxed_max_margin",
    "interpolated_max_margin": "directions.interpolated_max_margin",
    "survivors": "limits.survivors",
    "late_residual": "limits.late_residual",
    "path_offset": "limits.path_offset",
    "local_path": "limits.local_path",
    "joint_path": "limits.joint_path",
    "basin_boundary": "limits.basin_boundary",
    "check_statement": "check_statement",
    "verify": "verify",
    "solve": "solve",
    "figure": "figure",
    "reproduce": "reproduce",
    "hunt": "hunt",
    "examine": "doctor",
    "playground": "play",
    "playground_answer": "playground.answer",
    "playground_serve": "playground.serve",
    "open_sweep": "Sweep.open",
    "run_one": "trials.run_one",
    "phases": "trials.PhaseDisplay.of",
    "corpus": "Corpus.from_sequences",
    "corpus_from_counts": "Corpus.from_counts",
    "assumption_4": "embeddings.assumption_4",
    "assumption_4_corpus": "embeddings.assumption_4_corpus",
    "initial_vectors": "embeddings.initial_vectors",
    "gram_state": "embeddings.GramState.from_vectors",
    "infinite_gram_state": "embeddings.GramState.infinite",
    "two_layer_state": "embeddings.TwoLayerGram.from_vectors",
    "one_layer_gradients": "embeddings.one_layer.gradients",
    "one_layer_point": "embeddings.one_layer.evaluate",
    "key_query_gradients": "embeddings.one_layer.key_query_gradients",
    "conserved_spectrum": "embeddings.gram.conserved_spectrum",
    "initial_event": "embeddings.first_step.initial_event",
    "initial_event_from_gram": "embeddings.first_step.initial_event_from_gram",
    "draw_initial": "embeddings.first_step.draw_initial",
    "structured_state": "embeddings.first_step.StructuredState",
    "infinite_structured_state": "embeddings.first_step.StructuredState.infinite",
    "token_selection": "embeddings.token_selection",
    "score_selection": "embeddings.patterns.score_selection",
    "local_gap": "embeddings.patterns.local_gap",
    "important_pattern": "embeddings.patterns.important_pattern",
    "pattern_max_margin": "embeddings.pattern_max_margin",
    "realizable": "embeddings.patterns.realizable",
    "strong_conditions": "embeddings.theorem5.strong_conditions",
    "theorem_5_thresholds": "embeddings.theorem5.theorem_5_thresholds",
    "run_theorem_5": "embeddings.theorem5.run_theorem_5",
    "find_reviews": "data.find_reviews",
    "yelp_corpus": "embeddings.yelp_corpus",
    "load_classifier": "text.AttentionClassifier.load",
    "vectorizer": "text.NgramVectorizer",
    "text_train": "text.train_classifier",
    "text_explain": "text.explain",
    "sentences": "nexttoken.Sentences.from_lists",
    "read_sentences": "nexttoken.read_sentences",
    "write_sentences": "nexttoken.write_sentences",
    "sentence_example": "nexttoken.named_sentences",
    "soft_labels": "nexttoken.linear",
    "samples": "nexttoken.Samples.from_sentences",
    "orders": "nexttoken.relations.orders",
    "components": "nexttoken.components",
    "analyze": "nexttoken.analyze",
    "check_sentences": "nexttoken.check",
    "generate_by_rejection": "nexttoken.generators.generate_by_rejection",
    "realizable_part": "nexttoken.realizable.realizable_part",
    "structure": "nexttoken.generators.structure",
    "regenerate": "nexttoken.regenerate",
    "output_stage": "nexttoken.stages.stage_1",
    "descend_output_stage": "nexttoken.stages.descend_stage_1",
    "aligned_output": "problem.readouts.OutputValue.aligned",
    "output_of_table": "problem.readouts.OutputValue.of_table",
    "attention_stage": "nexttoken.stages.StageTwo",
    "pairs_of": "nexttoken.stages.Pairs.of",
    "late_phase": "nexttoken.star.late_of",
    "next_token_model": "nexttoken.unmerged.TableModel.of",
    "embedded_model": "nexttoken.unmerged.Embedded",
    "unmerged_model": "nexttoken.unmerged.Unmerged.random",
    "orthonormal_embedding": "nexttoken.unmerged.orthonormal_embedding",
    "train_next_tokens_jointly": "nexttoken.unmerged.train_jointly",
    "train_unmerged": "nexttoken.unmerged.train_unmerged",
    "load_predictor": "nexttoken.Predictor.load",
    "train_to_file": "nexttoken.train_file",
    "predict_from_file": "nexttoken.predict_next",
    "cite": "cite",
    "link_class": "dynamics.Link",
    "mirror_map": "margin.MirrorMap",
    "softmax_link": "dynamics.Softmax",
    "attended": "dynamics.Attended",
    "sweep_file": "trials.sweep_file",
    "torch_audit": "torch.audit",
    "torch_assert_accurate": "torch.assert_accurate",
    "torch_exact_attention": "torch.exact_attention",
    "register_with_transformers": "torch.register_with_transformers",
    "torch_attention": "torch.scaled_dot_product_attention",
    "torch_attention_weights": "torch.attention_weights",
    "torch_softmax": "torch.softmax",
    "torch_multihead": "torch.MultiheadAttention",
    "torch_layers": "torch.attention_layers",
    "torch_projection": "torch.Projection",
    "torch_watch": "torch.watch",
    "probe_file": "probe",
    "torch_padded": "torch.padded",
    "torch_problem": "torch.problem_of",
    "torch_point": "torch.point_of",
    "readout_class": "readouts.Readout",
    "readout_scores": "readouts.Scores",
    "readout_linear": "readouts.LinearReadout",
    "readout_psi": "readouts.NonlinearReadout",
    "readout_next_token": "readouts.CrossEntropy",
    "rate_warning": "limits.RateWarning",
    "torch_one_layer": "torch.OneLayer",
    "torch_two_layers": "torch.TwoLayer",
    "torch_key_query": "torch.KeyQuery",
    "torch_next_token": "torch.NextToken",
    "torch_queries": "torch.QueryAttention",
    "torch_prompt": "torch.TunedPrompt",
    "torch_vision": "torch.VisionTransformer",
}

# Words that are attributes of a result.
ATTRIBUTES = {
    "readout_of": "readout",
    "lengths": "sizes",
    "optimizer_norm": "norm",
    "readouts_of": "v_points",  # the recorded readouts v of a joint run
    "run_norm": "norm",  # the norm whose max margin the run's optimizer is known for
    "p_norm": "p_norm",
    "arithmetic": "arithmetic",
    "exact_p": "fractions",
    "p_length": "p_norm",
    "kkt_residual": "kkt",
}


def public(name):
    """Return a public thing by its dotted name."""
    return operator.attrgetter(name)(hm)


def __getattr__(word):
    if word in WORDS:
        return public(WORDS[word])
    if word in ATTRIBUTES:
        return operator.attrgetter(ATTRIBUTES[word])
    raise AttributeError(word)


def results():
    """Return the dotted names of classes that are only returned."""
    return {f"{home}.{name}".lstrip(".") for home, names in RESULTS.items() for name in names.split()}


def public_names():
    """Return every public name of the package, dotted; two names of one object count once."""
    found, seen = [], set()
    for name in hm.__all__:
        thing = getattr(hm, name)
        if name == "__version__":
            continue
        inner = getattr(thing, "__all__", None) if type(thing).__name__ == "module" else None
        if inner is None:
            found.append(name)
            seen.add(id(thing))
            continue
        for each in inner:
            try:
                part = getattr(thing, each)
            except ImportError:  # an extra that is not installed
                continue
            if id(part) not in seen:
                seen.add(id(part))
                found.append(f"{name}.{each}")
    return found


# Problems


def example(name, **options):
    """Make a small problem by its name or the id of a figure."""
    assert hm.data.examples()["two-inputs"].startswith("two inputs")
    return hm.data.example(name, **options)


def problem_from_values(keys, values, labels, readout, loss="logistic"):
    return hm.Problem.from_values(keys, values, labels, readout=readout, loss=loss)


def problem_from_tokens(tokens, labels, readout, W=None, loss="logistic"):
    return hm.Problem.from_tokens(tokens, labels, readout=readout, W=W, loss=loss)


def random_trials(d, trials):
    return list(hm.data.fig9_oracle(d, trials))


# Measures


def probe(*given, **options):
    """Probe a model in memory: its heads, without the report of `hm.probe`."""
    from hardmax.torch.prober import probe

    return probe(*given, **options)


def gradient(problem, p, block="p"):
    """Return minus the gradient: its direction, and the logarithm of its length."""
    return hm.gradient(problem, p, wrt=block)


# Selections


def tokens(selection):
    """Return a selection as a tuple with one token per input, or a tuple of tokens where they tie."""
    assert not isinstance(selection, hm.Selection) or isinstance(selection, tuple)
    return tuple(selection)


def selection(run, at=-1):
    return tokens(run.selection if at == -1 else run.selection_at(at))


def selected_tokens(problem, p):
    return tokens(hm.selected_tokens(problem, p))


def best_tokens(problem):
    return tokens(hm.best_tokens(problem))


# Training


@dataclass(frozen=True)
class Model:
    """What is trained on a corpus."""

    kind: str
    of: Any
    options: dict[str, Any] = field(default_factory=dict)


def joint(problem):
    assert isinstance(problem.joint(), hm.dynamics.Joint)
    return problem.joint()


def matrix(problem, prompt):
    assert isinstance(problem.matrix(prompt), hm.dynamics.Matrix)
    return problem.matrix(prompt=prompt)


def factors(problem, rank):
    assert isinstance(problem.factors(rank), hm.dynamics.Factors)
    return problem.factors(rank=rank)


def remainder(problem):
    model = hm.decompose(problem).remainder
    assert isinstance(model, hm.dynamics.Remainder)
    assert isinstance(model, hm.dynamics.Model)
    return model


def optimizer(name, lr, *, eps=None, **options):
    if eps is not None:
        options["eps"] = eps
    rules = {
        "gd": hm.optim.GD,
        "normalized": hm.optim.Normalized,
        "sign": hm.optim.Sign,
        "coordinate": hm.optim.Coordinate,
        "spectral": hm.optim.Spectral,
        "mirror": hm.optim.Mirror,
        "momentum": hm.optim.Momentum,
        "signum": hm.optim.Signum,
        "muon": hm.optim.Muon,
        "adam": hm.optim.Adam,
        "adamw": hm.optim.AdamW,
        "rmsprop": hm.optim.RMSprop,
        "sgd": hm.optim.SGD,
    }
    return rules[name](lr=lr, **options)


def own_optimizer(norm, lr, move):
    """Make an optimizer from a function of the direction of minus the gradient."""

    class Own(hm.optim.Optimizer):
        def update(self, direction, exponents, state, lr, step):
            return lr * move(direction)

    Own.norm = norm
    return Own(lr)


def train(model, optimizer, steps, **options):
    """Train p of a problem, or another model; a pair of optimizers where it has two blocks."""
    return hm.train(model, optimizer, steps=steps, **options)


def margin_bounds(run):
    return run.margin_bounds().margin_interval


def margin_gap(run, best):
    return run.margin_gap(best)


def distance_to(run, other):
    return run.cosine_distance(other)


def flow(problem, until_misalignment=None, **options):
    return hm.flow(problem, until_cosine_distance=until_misalignment, **options)


# Margins


def best_max_margins(problem, **options):
    """Return (selection, max margin) of every selection of best-scoring tokens."""
    found = hm.selections(problem, among="best", **options)
    best = hm.max_margin(problem, "best", **options)
    assert best.margin == max(each.margin for each in found)
    return [(each.selection, each.max_margin) for each in found]


def norm(name):
    found = hm.margin.norm(name)
    assert hm.margin.register(found) is found
    assert callable(hm.margin.solve_by)
    assert callable(hm.margin.enclose_by)
    return found


# Directions


def attractors(problem, **options):
    return list(hm.attractors(problem, **options))


def selections(problem, **options):
    return list(hm.selections(problem, **options))


def search(problem, **options):
    """Search for feasible selections; return (found, status)."""
    running = hm.selections(problem, **options)
    return list(running), running.status


def attracts(problem, selection, norm=None):
    """Return "strong", "weak", "no" or "undecided"."""
    found = hm.attracts(problem, selection, norm=norm)
    assert found is hm.directions.Attraction(found.value)
    return found.value


def neighbors(problem, selection):
    return hm.neighbors(problem, selection).sets


def plane_plot(problem, found):
    assert hm.plot_basins(problem, cells=3).get_xlabel() == "p, coordinate 0"
    return hm.directions.PlaneDisplay.of(problem, found).plot()


def run_plot(run, target):
    return hm.dynamics.RunDisplay.of(run, target).plot()


# Limits


def decompose(problem):
    return hm.decompose(problem)


def regularization_path(problem, radii):
    return hm.limits.regularization_path(problem, radii)


# Statements, figures, hunts, answers


def own_statement(id, slack):
    """Register a statement on problems from a function that returns its slack."""

    @hm.papers.statement(id, "A statement of a test", "slack >= 0", kind="finite", label="conjecture")
    def test(problem: hm.Problem) -> hm.papers.Outcome:
        hypothesis = hm.papers.Hypothesis("n >= 1", holds=problem.n >= 1, measured=problem.n)
        return hm.papers.Outcome((hypothesis,), slack=slack(problem), proof="counted")

    return test


def paper(letter):
    from hardmax.papers.registry import PAPERS

    assert isinstance(PAPERS[letter], hm.papers.Paper)
    return PAPERS[letter]


def read_link(link):
    """Return the state that a playground link holds."""
    from hardmax.app.playground.links import state_of

    return state_of(link)


def read_figure_records(folder):
    from hardmax.papers.figures.reproduce import read_records

    return read_records(folder)


# Sweeps


def sweep(function, grid, trials, **options):
    """Run trials of a function, or of a built-in experiment by its name."""
    return hm.sweep(function, grid, trials, **options)


# Corpora and embeddings


def k_level(size):
    sizes = {
        "paper": hm.embeddings.KLevel,
        "printed": hm.embeddings.KLevel.as_printed,
        "small": hm.embeddings.KLevel.surrogate,
    }
    return sizes[size]()


def embeddings(corpus, E, p, v, blocks=("E", "p")):
    return Model("embeddings", corpus, {"E": E, "p": p, "v": v, "train": blocks})


def train_embeddings(model, lr, steps, **options):
    """Train the vectors of a corpus by plain gradient descent on the whole of it."""
    return hm.embeddings.one_layer.descend_embeddings(
        model.of, steps=steps, rate=lr, **model.options, **options
    )


def train_gram(corpus, state, lr, steps, blocks=("E", "p")):
    return hm.embeddings.gram.descend_gram(corpus, state, steps=steps, rate=lr, train=blocks)


def train_two_layer_gram(corpus, state, lr, steps, blocks=("E", "p", "v")):
    return hm.embeddings.two_layer.descend_two_layer(corpus, state, steps=steps, rate=lr, train=blocks)


def flow_gram(corpus, state, times, blocks=("E", "p")):
    return hm.embeddings.gram.flow_gram(corpus, state, times=times, train=blocks)


def train_minibatch(corpus, d, optimizer, layers=1, **options):
    """Train E, p and v of one layer by mini-batches, or of two layers, which needs PyTorch."""
    return hm.embeddings.minibatch.train_embeddings(corpus, d, optimizer, layers=layers, **options)


def two_layer(corpus, E, p, v):
    """Return the predictions, the loss and the gradients of the two-layer model."""
    model = hm.embeddings.two_layer.TwoLayerNetwork()
    return model.predict(corpus, E, p, v), model.gradients(corpus, E, p, v)


def first_step(corpus, E, p, v, lr):
    return hm.embeddings.take_first_step(corpus, E, p, v, first_rate=lr)


def first_step_errors(corpus, K, a, c, pi, rho, nu, lr):
    return hm.embeddings.first_step.first_step_errors(corpus, K, a, c, pi, rho, nu, first_rate=lr)


def infinite_width(corpus, lr):
    return hm.embeddings.first_step.infinite_width(corpus, first_rate=lr)


def realizable_patterns(corpus, **options):
    return list(hm.embeddings.patterns.realizable_patterns(corpus, **options))


# Texts


def read_reviews(path, **options):
    return list(hm.data.read_reviews(path, **options))


def read_labeled(path, **options):
    return list(hm.data.read_labelled(path, **options))


def text_corpus(paths, *, min_count, max_tokens=None, char_range=None, label_map=None, **options):
    return hm.embeddings.text_corpus(
        paths,
        min_count=min_count,
        max_tokens=max_tokens,
        char_range=char_range,
        label_map=label_map,
        **options,
    )


def imdb_corpus(folder, min_count):
    return hm.embeddings.imdb_corpus(folder, min_count=min_count)


def classifier(*, top_k=None, entropy_penalty=None, **options):
    return hm.text.AttentionClassifier(top_k=top_k, entropy_penalty=entropy_penalty, **options)


def top_tokens(classifier, n, label=None):
    return classifier.top_tokens(n, label)


def evaluate_top_k(classifier, X, y, k):
    return classifier.evaluate_top_k(X, y, k)


# Next tokens


def samples_from_trie(data):
    return hm.nexttoken.Samples.from_trie(
        hm.data.sentences.samples.Trie.build(hm.nexttoken.Sentences.from_lists(data))
    )


def next_tokens(samples):
    """Return the next token of each token (its collocation), completed to a permutation."""
    return hm.nexttoken.relations.complete(hm.nexttoken.relations.collocation(samples))


def generate_sentences(vocabulary, rng, **options):
    """Draw realizable sentences; return the draw and the answer of the command to the same draw."""
    return hm.nexttoken.generate(vocabulary, rng=rng, **options), hm.nexttoken.generate_file(
        vocabulary=vocabulary, rng=rng, **options
    )


def statements():
    """Return all statements by id."""
    return {item.id: item for item in hm.statements()}


def text_top_tokens(model, n, **options):
    return hm.text.important(model, limit=n, **options)


def one_trial(*arguments, **options):
    from hardmax.app.results.sweep import TrialResult

    return TrialResult.run(*arguments, **options)


def sweep_answer(*arguments, **options):
    from hardmax.app.results.sweep import SweepResult

    return SweepResult.of_sweep(*arguments, **options)


def star(samples):
    """Return the max-margin solution of the key-query matrix, in rationals."""
    return hm.nexttoken.star.KqStar.of(hm.nexttoken.stages.Pairs.of(samples))


def train_next_tokens(samples, steps, lr=None, output_steps=900, output_lr=None, **options):
    return hm.nexttoken.training.train(
        samples, steps=steps, rate=lr, stage1=output_steps, first_rate=output_lr, **options
    )


def flow_next_tokens(samples, until, lr):
    return hm.nexttoken.training.train_by_flow(samples, until, rate=lr)


def save_predictor(path, model):
    model.save(path)


# Command line


def command(*arguments):
    """Run a command line; return its exit code and what it printed on standard output."""
    from hardmax.app import cli

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = cli.run([*map(str, arguments)])
    return code, out.getvalue()
