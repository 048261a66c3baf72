"""Every symbol once: assumptions, LaTeX, meaning, unit; and sums and extremes over a set of tokens.

Source: arXiv 2602.01893. Units: "norm" is the unit of value norms, "norm²" of squared distances and so on; "" is unitless.
Sets of tokens: I_N (selected), I_content = I_N without the sink 0, J (the rest). Imports sympy only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import sympy as sp
from sympy.printing.precedence import PRECEDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a symbol stands for."""

    symbol: sp.Basic
    latex: str
    meaning: str
    unit: str


MEANINGS: dict[str, Meaning] = {}
"""Every symbol by its plain name."""


def _symbol(name: str, latex: str, meaning: str, unit: str = "", **assumptions: bool) -> sp.Symbol:
    symbol = sp.Symbol(name, **assumptions)
    MEANINGS[name] = Meaning(symbol=symbol, latex=latex, meaning=meaning, unit=unit)
    return symbol


def _family(name: str, latex: str, meaning: str, unit: str = "", **assumptions: bool) -> sp.IndexedBase:
    base = sp.IndexedBase(name, **assumptions)
    MEANINGS[name] = Meaning(symbol=base, latex=latex, meaning=meaning, unit=unit)
    return base


L = _symbol("L", "L", "last position; there are L + 1 tokens", integer=True, positive=True)
T = _symbol("T", "T", "number of tokens, L + 1", integer=True, positive=True)
N = _symbol("N", "N", "size of the selected set", integer=True, positive=True)
d = _symbol("d", "d", "head size", integer=True, positive=True)
kappa = _symbol("kappa", r"\kappa", "concentration constant, nowhere given in print", positive=True)
beta = _symbol("beta", r"\beta", "decay of similarity per position", positive=True)
rho_0 = _symbol("rho_0", r"\rho_0", "cosine of the sink with any other token", real=True)
c = _symbol("c", "c", "offset of the similarity at long lag", real=True)
i = _symbol("i", "i", "a token", integer=True, nonnegative=True)
j = _symbol("j", "j", "a token", integer=True, nonnegative=True)
k = _symbol("k", "k", "a token", integer=True, nonnegative=True)
l = _symbol("l", r"\ell", "a token", integer=True, nonnegative=True)  # noqa: E741
m = _symbol("m", "m", "a rank: x_(m) is the m-th largest", integer=True, positive=True)
I_N = _symbol("I_N", "I_N", "the selected tokens")
I_content = _symbol("I_content", r"I_N\setminus\{0\}", "the selected tokens without the sink")
J = _symbol("J", "J", "the tokens that are not selected")

a = _family("a", "a", "effective weight, attention weight times value norm", "norm", nonnegative=True)
rho = _family("rho", r"\rho", "cosine of two value states", real=True)
p_floor = _family("p_floor", r"\underline{p}", "printed floor of a pairwise probability, eq. (9)", nonnegative=True)
p = _family("p", "p", "probability that token j lies no farther from s than token i", nonnegative=True)
M = _family("M", "M", "mean inner product of a direction with the selected content, eq. (11)", "norm", real=True)
sigma_of = _family("sigma", r"\sigma", "covariance of a contribution with the representative", "norm²", real=True)

alpha = _family("alpha", r"\alpha", "attention weight", nonnegative=True)
v = _family("v", "v", "value state, a vector", "norm")
u = _family("u", "u", "direction of a value state, a unit vector")
y = _family("y", "y", "contribution, attention weight times value state, a vector", "norm")
D = _family("D", "D", "squared distance of a contribution from the representative", "norm²", nonnegative=True)
d_ort = _family("d_ort", r"d^{\mathrm{ort}}", "distance from the representative where the sink is orthogonal", "norm", positive=True)
pi = _family("pi", r"\pi", "largest p_ij over selected i, by rank: pi[1] is the largest of all", nonnegative=True)
nu = _family("nu", r"\nu", "1 - min(1, sum_j p_ij), by rank: nu[1] is the largest", nonnegative=True)

s = _symbol("s", "s", "representative, the sum of the selected contributions, a vector", "norm")
radius = _symbol("radius", "r", "radius of a ball around the representative", "norm", nonnegative=True)
r_min = _symbol("r_min", r"r_{\min}", "distance of the nearest token that is not selected", "norm", nonnegative=True)
r_max = _symbol("r_max", r"r_{\max}", "distance of the farthest selected token", "norm", nonnegative=True)
K_in = _symbol("K_in", r"K_{\mathrm{in}}", "selected tokens no farther than r_min", integer=True, nonnegative=True)
K_out = _symbol("K_out", r"K_{\mathrm{out}}", "other tokens no farther than r_max", integer=True, nonnegative=True)
C = _symbol("C", "C", "norm of every value state but the sink's", "norm", positive=True)
lam = _symbol("lam", r"\lambda", "norm of the sink's value state over C", positive=True)
p_sink = _symbol("p_sink", r"p_{\mathrm{sink}}", "attention weight of the sink", positive=True)
p_base = _symbol("p_base", r"p_{\mathrm{base}}", "attention weight of the plateau", positive=True)
eta = _symbol("eta", r"\eta", "strength of the oscillation and rate of the growth", positive=True)
omega = _symbol("omega", r"\omega", "frequency of the oscillation, radians per position", positive=True)
T_1 = _symbol("T_1", "T_1", "last position of the plateau", integer=True, nonnegative=True)
T_2 = _symbol("T_2", "T_2", "last position before the growth", integer=True, nonnegative=True)
n_plus = _symbol("n_plus", "n_+", "oscillation tokens of positive cosine", integer=True, nonnegative=True)
n_minus = _symbol("n_minus", "n_-", "oscillation tokens of negative cosine", integer=True, nonnegative=True)
m_1 = _symbol("m_1", "m_1", "least N at which a token before the growth is selected", integer=True, positive=True)
m_2 = _symbol("m_2", "m_2", "least N at which a plateau token is selected", integer=True, positive=True)
m_3 = _symbol("m_3", "m_3", "least N at which a valley is selected", integer=True, positive=True)
c_proxy = _symbol("c_proxy", "c", "universal constant of the variance proxy", positive=True)
slope = _symbol("slope", "F'", "slope of the share of selected tokens by radius", "norm⁻¹", nonnegative=True)
shift = _symbol("shift", r"\Delta r", "change of the radius", "norm", real=True)
a_next = _symbol("a_next", r"a_{\mathrm{next}}", "largest effective weight that stays outside", "norm", nonnegative=True)
total = _symbol("total", "U", "sum over j of min(1, sum over i of p_ij)", nonnegative=True)
kept = _symbol("kept", "V", "sum over i of 1 - max over j of p_ij", nonnegative=True)
beat = _family("beat", "F", "probability that token j lies no farther from s than token i, given s and y_i", nonnegative=True)
beat_ranked = _family("beat_ranked", r"F^{\downarrow}", "the same by rank: beat_ranked[i, 1] is the largest over j", nonnegative=True)
count = _family("count", r"\kappa", "sum over j of beat[i, j]: expected tokens outside that beat i, given s and y_i", nonnegative=True)
spread = _family("spread", "V", "bound on the variance of how many tokens outside beat i, given s and y_i", nonnegative=True)
safe = _family("safe", r"\ell", "mean of max(0, 1 - count[i]), by rank: safe[1] is the largest", nonnegative=True)
safe_most = _symbol(
    "safe_most", "H", "sum over i of the mean of min(1 - max over j of beat[i, j], spread[i]/(spread[i] + count[i]²))", nonnegative=True
)
w = _family("w", "w", "scale-free width of the difference of squared distances of a pair", "norm²", positive=True)
mu_of = _family("mu_of", r"\mu", "exact mean of the difference of squared distances of a pair", "norm²", real=True)

a_0 = _symbol("a_0", "a_0", "effective weight of the sink", "norm", nonnegative=True)
S_in = _symbol("S_in", r"S_{\mathrm{in}}", "summed effective weight of the selected content", "norm", nonnegative=True)
a_min_in = _symbol("a_min_in", r"a_{\min}^{\mathrm{in}}", "smallest effective weight of the selected content", "norm", nonnegative=True)
a_max_in = _symbol("a_max_in", r"a_{\max}^{\mathrm{in}}", "largest effective weight selected", "norm", nonnegative=True)
a_max_out = _symbol("a_max_out", r"a_{\max}^{\mathrm{out}}", "largest effective weight not selected", "norm", nonnegative=True)
a_min_out = _symbol("a_min_out", r"a_{\min}^{\mathrm{out}}", "smallest effective weight not selected", "norm", nonnegative=True)
rho_out = _symbol("rho_out", r"\rho_{\mathrm{out}}", "largest cosine of a token outside with selected content", real=True)
rho_in = _symbol("rho_in", r"\rho_{\mathrm{in}}", "largest cosine between two selected content tokens", real=True)
Delta = _symbol("Delta", r"\Delta", "margin of a content token", "norm²", real=True)
Delta_0 = _symbol("Delta_0", r"\Delta_0", "margin of the sink", "norm²", real=True)
B = _symbol("B", "B", "scale of the tails", "norm", positive=True)
xi = _symbol("xi", r"\xi", "standardised margin of a pair", real=True)
mu = _symbol("mu", r"\mu_{ij}", "mean of the difference of squared distances of a pair", "norm²", real=True)
sigma = _symbol("sigma_ij", r"\sigma_{ij}", "width of that difference", "norm²", positive=True)
sigma_ss = _symbol("sigma_ss", r"\sigma_{ss}", "mean squared norm of the representative", "norm²", nonnegative=True)
P_lower = _symbol("P_lower", r"P_{\min}", "lower bound of the expected precision", real=True)
P_upper = _symbol("P_upper", r"P_{\max}", "upper bound of the expected precision", real=True)
R_lower = _symbol("R_lower", r"R_{\min}", "lower bound of the expected recall", real=True)
P = _symbol("P", "P", "precision at a radius", nonnegative=True)
R = _symbol("R", "R", "recall at a radius", nonnegative=True)
R_upper = _symbol("R_upper", r"R_{\max}", "upper bound of the expected recall", real=True)
Gamma_ii = _symbol("Gamma_ii", r"\Gamma_{ii}", "mean squared distance of the selected token i from s", "norm²", nonnegative=True)
Gamma_jj = _symbol("Gamma_jj", r"\Gamma_{jj}", "mean squared distance of the token j from s", "norm²", nonnegative=True)
Gamma_ij = _symbol("Gamma_ij", r"\Gamma_{ij}", "mean inner product of the two distances' vectors", "norm²", real=True)
r = _symbol("r", "r_{ij}", "standardised separation of a pair under Model G, from -1 to 1", real=True)


t = _symbol("t", "t", "squared norm of the representative", "norm²", positive=True)
share = _family("b", "b", "regression of a contribution on the representative, sigma[l]/sigma_ss", real=True)
residual = _family("C_res", r"\tilde C", "covariance of two contributions given the representative", "norm²", real=True)
D_mean = _family("D_mean", r"\bar D", "mean squared distance given t", "norm²", positive=True)
D_cov = _family("D_cov", r"V^D", "covariance of two squared distances given t", "norm⁴", real=True)
W = _family("W", "W", "cube root of a squared distance over t, less 1", real=True)
W_mean = _family("W_mean", r"\bar W", "mean of W given t", real=True)
W_cov = _family("W_cov", "V", "covariance of two W given t", real=True)
Y_mean = _symbol("Y_mean", r"\bar Y", "mean of the largest W of some tokens", real=True)
Y_std = _symbol("Y_std", r"\sigma_Y", "standard deviation of the largest W of some tokens", positive=True)
Y_cov = _family("Y_cov", "c", "covariance of the largest W of some tokens with another", real=True)
theta = _symbol("theta", r"\theta_k", "standard deviation of the largest W of some tokens less W[k]", positive=True)
z = _symbol("z", "z_k", "mean of the largest W of some tokens less W[k], over theta", real=True)
edge = _symbol("y_edge", r"\upsilon", "value of the largest W", real=True)
h = _family("h", "h", "standardised distance of W[j] below the largest W", real=True)
rest = _family("rest", "s", "standard deviation of W[j] given the largest W", positive=True)
below = _symbol("g", "g", "standardised distance of another group's largest W below the largest W", real=True)
R_below = _family("R_g", "R^g", "correlation of W[j] with another group's largest W given the largest W", real=True)
R_res = _family("R_res", "R", "correlation of W[j] and W[k] given the largest W", real=True)
K_mean = _symbol("K_mean", r"\bar K", "mean count of tokens on the wrong side, given t and the largest W", nonnegative=True)
K_var = _symbol("K_var", "V_K", "variance of that count", nonnegative=True)
K_cov = _family("K_cov", "C^K", "covariance of two tokens' being counted", real=True)


class Indicator(sp.Function):
    """1 where the condition holds, else 0."""

    is_commutative = True

    def _sympystr(self, printer: Any) -> str:
        return f"(1 if {printer._print(self.args[0])} else 0)"

    _pythoncode = _numpycode = _sympystr

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return rf"\mathbf{{1}}\left\{{{printer._print(self.args[0])}\right\}}"


class Inner(sp.Function):
    """Inner product of two vectors."""

    is_commutative = True

    def _sympystr(self, printer: Any) -> str:
        return f"inner({printer._print(self.args[0])}, {printer._print(self.args[1])})"

    _pythoncode = _numpycode = _sympystr

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return rf"\left\langle {printer._print(self.args[0])}, {printer._print(self.args[1])}\right\rangle"


class Norm(sp.Function):
    """Length of a vector."""

    is_commutative = True

    def _sympystr(self, printer: Any) -> str:
        return f"norm({printer._print(self.args[0])})"

    _pythoncode = _numpycode = _sympystr

    def _latex(self, printer: Any, exp: Any = None) -> str:
        body = rf"\left\|{printer._print(self.args[0])}\right\|"
        return rf"{body}^{{{exp}}}" if exp else body


class Mean(sp.Function):
    """Expectation over what is random in its argument."""

    is_commutative = True

    def _sympystr(self, printer: Any) -> str:
        return f"mean({printer._print(self.args[0])})"

    _pythoncode = _numpycode = _sympystr

    def _latex(self, printer: Any, exp: Any = None) -> str:
        return rf"\mathbb{{E}}\left[{printer._print(self.args[0])}\right]"


class Over(sp.Function):
    """An operation over tokens of given sets: Over(expression, index, set, index, set, …), indices distinct."""

    is_commutative = True
    python_name = ""
    latex_name = ""

    @classmethod
    def eval(cls, *args: Any) -> None:
        """Stay unevaluated until `spell_out`."""
        return

    def pairs(self) -> list[tuple[sp.Symbol, sp.Symbol]]:
        """Return (index, set) pairs."""
        return list(zip(self.args[1::2], self.args[2::2], strict=True))

    def within_one_set(self) -> bool:
        """Return whether several indices run over one set, so that saying they are distinct matters."""
        return len(self.args) > 3 and len(set(self.args[2::2])) == 1

    def _sympystr(self, printer: Any) -> str:
        loops = " ".join(f"for {printer._print(index)} in {printer._print(members)}" for index, members in self.pairs())
        indices = " != ".join(printer._print(index) for index, _ in self.pairs())
        return f"{self.python_name}({printer._print(self.args[0])} {loops}{f' if {indices}' if self.within_one_set() else ''})"

    _pythoncode = _numpycode = _sympystr

    def _latex(self, printer: Any, exp: Any = None) -> str:
        if self.within_one_set():
            indices = r" \neq ".join(printer._print(index) for index, _ in self.pairs())
            under = rf"{indices} \in {printer._print(self.args[2])}"
        else:
            under = r",\,".join(rf"{printer._print(index)} \in {printer._print(members)}" for index, members in self.pairs())
        body = rf"{self.latex_name}_{{{under}}} {printer.parenthesize(self.args[0], PRECEDENCE['Mul'], strict=True)}"
        return rf"\left({body}\right)^{{{exp}}}" if exp else body

    def combine(self, terms: Sequence[sp.Expr]) -> sp.Expr:
        """Return the operation applied to explicit terms."""
        raise NotImplementedError


class SumOver(Over):
    """A sum over tokens."""

    python_name, latex_name = "sum", r"\sum"

    def combine(self, terms: Sequence[sp.Expr]) -> sp.Expr:
        """Return the sum; 0 of no terms."""
        return sp.Add(*terms)


class MaxOver(Over):
    """A maximum over tokens."""

    python_name, latex_name = "max", r"\max"

    def combine(self, terms: Sequence[sp.Expr]) -> sp.Expr:
        """Return the maximum."""
        return sp.Max(*terms)


class MinOver(Over):
    """A minimum over tokens."""

    python_name, latex_name = "min", r"\min"

    def combine(self, terms: Sequence[sp.Expr]) -> sp.Expr:
        """Return the minimum."""
        return sp.Min(*terms)


def spell_out(expression: sp.Expr, members: Mapping[sp.Symbol, Sequence[int]]) -> sp.Expr:
    """Return the expression with every sum and extreme written out over the given tokens of each set."""

    def written(node: Over) -> sp.Expr:
        indices = [index for index, _ in node.pairs()]
        choices = product(*(members[tokens] for _, tokens in node.pairs()))
        distinct = [choice for choice in choices if len(set(choice)) == len(choice)]
        body = spell_out(node.args[0], members)
        return node.combine([body.subs(dict(zip(indices, choice, strict=True))) for choice in distinct])

    return expression.replace(lambda node: isinstance(node, Over), written)


def latex(expression: sp.Basic) -> str:
    """Return LaTeX with this room's own letters."""
    names = {getattr(item.symbol, "label", item.symbol): item.latex for item in MEANINGS.values()}
    return str(sp.latex(expression, symbol_names=names))
