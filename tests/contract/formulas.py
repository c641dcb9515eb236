"""The mathematics of the contract, written down in numpy: nothing here comes from hardmax."""

import numpy as np

LOSSES = {  # value, derivative
    "logistic": (lambda u: np.logaddexp(0.0, -u), lambda u: -1.0 / (1.0 + np.exp(u))),
    "exponential": (lambda u: np.exp(-u), lambda u: -np.exp(-u)),
    "correlation": (lambda u: -u, lambda u: -np.ones_like(u)),
}


def softmax(x):
    weights = np.exp(x - np.max(x))
    return weights / weights.sum()


def loss(keys, scores, p, name="logistic"):
    """Return the mean over inputs of l(sum_t s_t score_t), s = softmax(K p)."""
    predictions = np.array([softmax(k @ p) @ g for k, g in zip(keys, scores, strict=True)])
    return LOSSES[name][0](predictions).mean()


def gradient(keys, scores, p, name="logistic"):
    total = np.zeros(len(p))
    for k, g in zip(keys, scores, strict=True):
        s = softmax(k @ p)
        total += LOSSES[name][1](s @ g) * (s * (g - s @ g)) @ k
    return total / len(keys)


def rows(keys, selection):
    """Return k_selected - k_other of all inputs, one row each."""
    return np.concatenate(
        [k[c] - np.delete(k, c, axis=0) for k, c in zip(map(np.asarray, keys), selection, strict=True)]
    )


def length(p, norm):
    p = np.asarray(p, dtype=float)
    if norm in ("nuclear", "spectral"):
        return np.linalg.norm(p, {"nuclear": "nuc", "spectral": 2}[norm])
    return np.linalg.norm(p.ravel(), np.inf if norm == "linf" else float(norm[1:]))


def dual(norm):
    r = np.inf if norm == "linf" else float(norm[1:])
    if r in (1.0, np.inf):
        return {1.0: "linf", np.inf: "l1"}[r]
    return f"l{r / (r - 1.0)!r}"


def steepest(g, norm):
    """Return the d with |d| = 1 in the norm that maximizes g . d."""
    if norm == "linf":
        return np.sign(g)
    if norm == "l1":
        best = np.zeros_like(g)
        best[np.argmax(np.abs(g))] = np.sign(g[np.argmax(np.abs(g))])
        return best
    if norm == "spectral":
        left, _, right = np.linalg.svd(g)
        return left @ right
    q = 1.0 / (float(norm[1:]) - 1.0)
    d = np.sign(g) * np.abs(g) ** q
    return d / length(d, norm)


class Descent:
    """Every optimizer by its textbook formula; `move(g, p)` returns the next p for a gradient g."""

    def __init__(self, name, lr, *, norm="l2", power=3.0, beta=None, betas=(0.9, 0.999), eps=1e-8, **options):
        self.name, self.lr, self.norm, self.power, self.eps = name, lr, norm, power, eps
        self.beta, self.betas, self.options = beta, betas, options
        self.k, self.m, self.v, self.xi = 0, 0.0, 0.0, None

    def move(self, g, p):
        self.k += 1
        lr = self.lr / self.k ** self.options.get("decay", 0.0)
        return getattr(self, f"_{self.name}")(g, p, lr)

    def _gd(self, g, p, lr):
        return p + lr * length(g, dual(self.norm)) * steepest(-g, self.norm)

    def _normalized(self, g, p, lr):
        d = steepest(-g, self.norm)
        if not self.options.get("stalling"):
            return p + lr * d
        return p - lr * g / (length(g, "l2") + self.options["stalling"])

    def _sign(self, g, p, lr):
        return p - lr * np.sign(g)

    def _coordinate(self, g, p, lr):
        return p + lr * steepest(-g, "l1")

    def _spectral(self, g, p, lr):
        return p + lr * steepest(-g, "spectral")

    def _mirror(self, g, p, lr):
        r = self.power
        if self.xi is None:
            self.xi = np.sign(p) * np.abs(p) ** (r - 1.0)
        self.xi = self.xi - lr * g / length(g, dual(f"l{r!r}"))
        return np.sign(self.xi) * np.abs(self.xi) ** (1.0 / (r - 1.0))

    def _mean(self, g):
        beta = 0.9 if self.beta is None else self.beta
        self.m = beta * self.m + (1.0 - beta) * g
        return self.m

    def _momentum(self, g, p, lr):
        return p + lr * steepest(-self._mean(g), self.norm)

    def _signum(self, g, p, lr):
        return p - lr * np.sign(self._mean(g))

    def _muon(self, g, p, lr):
        return p + lr * steepest(-self._mean(g), "spectral")

    def _sgd(self, g, p, lr):
        self.m = self.options.get("momentum", 0.0) * self.m + g + self.options.get("weight_decay", 0.0) * p
        return p - lr * self.m

    def _rmsprop(self, g, p, lr):
        beta = 0.99 if self.beta is None else self.beta
        self.v = beta * self.v + (1.0 - beta) * g * g
        return p - lr * g / (np.sqrt(self.v) + self.eps)

    def _adam(self, g, p, lr):
        b1, b2 = self.betas
        self.m, self.v = b1 * self.m + (1 - b1) * g, b2 * self.v + (1 - b2) * g * g
        m, v = self.m / (1 - b1**self.k), self.v / (1 - b2**self.k)
        return p - lr * m / (np.sqrt(v) + self.eps)

    def _adamw(self, g, p, lr):
        return self._adam(g, (1.0 - lr * self.options.get("weight_decay", 0.0)) * p, lr)


def draw(n, T, d, seed):
    """Return normal keys (n, T, d) and scores (n, T)."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, T, d)), rng.normal(size=(n, T))


def cosine_distance(a, b):
    a, b = np.ravel(a) / np.linalg.norm(a), np.ravel(b) / np.linalg.norm(b)
    return ((a - b) @ (a - b)) / 2.0


def close(a, b, rtol=1e-10, atol=1e-12):
    """Return whether arrays agree; print both where they do not."""
    if np.allclose(a, b, rtol=rtol, atol=atol):
        return True
    print(np.asarray(a), np.asarray(b), sep="\n")
    return False
