"""Symbols of the paper with assumptions, LaTeX, meaning and unit.

Source: arXiv 2602.01893. Units: "norm" is the unit of value norms, "norm²" of squared distances and
so on; "" is unitless. Sets of tokens: I_N (selected), I_content = I_N without the sink 0, J (the
rest). Definitions are in `theory.symbolic.definitions`, margins and bounds in
`theory.symbolic.margins` and `theory.symbolic.theorems`. Imports sympy only.
"""

from theory.symbolic.record import (
    family,
    integer,
    nonnegative,
    nonnegatives,
    positive,
    positive_integer,
    positives,
    real,
    reals,
    symbol,
)

L = positive_integer("L", "L", "last position; there are L + 1 tokens")
T = positive_integer("T", "T", "number of tokens, L + 1")
N = positive_integer("N", "N", "size of the selected set")
d = positive_integer("d", "d", "head size")
kappa = positive("kappa", r"\kappa", "concentration constant; the paper gives no value")
beta = positive("beta", r"\beta", "decay of similarity per position")
rho_0 = real("rho_0", r"\rho_0", "cosine of the sink with any other token")
c = real("c", "c", "offset of the similarity at long lag")
i = integer("i", "i", "a token")
j = integer("j", "j", "a token")
k = integer("k", "k", "a token")
l = integer("l", r"\ell", "a token")  # noqa: E741
m = positive_integer("m", "m", "a rank: x_(m) is the m-th largest")
I_N = symbol("I_N", "I_N", "the selected tokens")
I_content = symbol("I_content", r"I_N\setminus\{0\}", "the selected tokens without the sink")
J = symbol("J", "J", "the unselected tokens")

a = nonnegatives("a", "a", "effective weight, attention weight times value norm", "norm")
rho = reals("rho", r"\rho", "cosine of two value states")
p_floor = nonnegatives(
    "p_floor", r"\underline{p}", "printed floor of a pairwise probability, eq. (9)"
)
p = nonnegatives("p", "p", "probability that token j is at most as far from s as token i")
M = reals("M", "M", "mean inner product of a direction with the selected content, eq. (11)", "norm")
sigma_of = reals(
    "sigma", r"\sigma", "covariance of a contribution with the representative", "norm²"
)

alpha = nonnegatives("alpha", r"\alpha", "attention weight")
v = family("v", "v", "value state, a vector", "norm")
u = family("u", "u", "direction of a value state, a unit vector")
y = family("y", "y", "contribution, attention weight times value state, a vector", "norm")
D = nonnegatives("D", "D", "squared distance of a contribution from the representative", "norm²")
d_ort = positives(
    "d_ort", r"d^{\mathrm{ort}}", "distance from the representative with an orthogonal sink", "norm"
)
pi = nonnegatives(
    "pi", r"\pi", "largest p_ij over selected i, by rank: pi[1] is the largest of all"
)
nu = nonnegatives("nu", r"\nu", "1 - min(1, sum_j p_ij), by rank: nu[1] is the largest")

s = symbol("s", "s", "representative, the sum of the selected contributions, a vector", "norm")
radius = nonnegative("radius", "r", "radius of a ball around the representative", "norm")
r_min = nonnegative("r_min", r"r_{\min}", "distance of the nearest unselected token", "norm")
r_max = nonnegative("r_max", r"r_{\max}", "distance of the farthest selected token", "norm")
K_in = integer("K_in", r"K_{\mathrm{in}}", "number of selected tokens within r_min")
K_out = integer("K_out", r"K_{\mathrm{out}}", "number of unselected tokens within r_max")
C = positive("C", "C", "norm of every value state except the sink", "norm")
lam = positive("lam", r"\lambda", "norm of the value state of the sink, over C")
p_sink = positive("p_sink", r"p_{\mathrm{sink}}", "attention weight of the sink")
p_base = positive("p_base", r"p_{\mathrm{base}}", "attention weight of the plateau")
eta = positive("eta", r"\eta", "strength of the oscillation and rate of the growth")
omega = positive("omega", r"\omega", "frequency of the oscillation, radians per position")
T_1 = integer("T_1", "T_1", "last position of the plateau")
T_2 = integer("T_2", "T_2", "last position before the growth")
n_plus = integer("n_plus", "n_+", "number of oscillation tokens with positive cosine")
n_minus = integer("n_minus", "n_-", "number of oscillation tokens with negative cosine")
m_1 = positive_integer("m_1", "m_1", "smallest N at which a token before the growth is selected")
m_2 = positive_integer("m_2", "m_2", "smallest N at which a plateau token is selected")
m_3 = positive_integer("m_3", "m_3", "smallest N at which a valley is selected")
c_proxy = positive("c_proxy", "c", "universal constant of the variance proxy")
slope = nonnegative(
    "slope",
    r"F'(r_{\min}^{\mathrm{ort}})",
    "slope of the share of selected tokens by radius",
    "norm⁻¹",
)
shift = real("shift", r"\Delta r", "change of the radius", "norm")
a_next = nonnegative(
    "a_next", r"a_{\mathrm{next}}", "largest effective weight that remains unselected", "norm"
)
total = nonnegative("total", "U", "sum over j of min(1, sum over i of p_ij)")
kept = nonnegative("kept", "V", "sum over i of 1 - max over j of p_ij")
beat = nonnegatives(
    "beat", "F", "probability that token j is at most as far from s as token i, given s and y_i"
)
beat_ranked = nonnegatives(
    "beat_ranked", r"F^{\downarrow}", "the same by rank: beat_ranked[i, 1] is the largest over j"
)
count = nonnegatives(
    "count",
    r"\kappa",
    "sum over j of beat[i, j]: expected number of unselected tokens nearer than i, given s and y_i",
)
spread = nonnegatives(
    "spread",
    "V",
    "bound on the variance of the number of unselected tokens nearer than i, given s and y_i",
)
safe = nonnegatives(
    "safe", r"\ell", "mean of max(0, 1 - count[i]), by rank: safe[1] is the largest"
)
safe_most = nonnegative(
    "safe_most",
    "H",
    "sum over i of the mean of min(1 - max over j of beat[i, j], spread[i]/(spread[i] +"
    " count[i]²))",
)
w = positives(
    "w", "w", "scale-free width of the difference of squared distances of a pair", "norm²"
)
mu_of = reals(
    "mu_of", r"\mu", "exact mean of the difference of squared distances of a pair", "norm²"
)

a_0 = nonnegative("a_0", "a_0", "effective weight of the sink", "norm")
S_in = nonnegative(
    "S_in", r"S_{\mathrm{in}}", "summed effective weight of the selected content", "norm"
)
S_in_primed = real("S_in_primed", r"S'_{\mathrm{in}}", "S_in in the appendix", "norm")
F_in = real("F_in", r"F_{\mathrm{in}}(r)", "share of the selected tokens in the ball")
X = reals("X", "X", "difference of the squared distances of a pair", "norm²")
a_min_in = nonnegative(
    "a_min_in",
    r"a_{\min}^{\mathrm{in}}",
    "smallest effective weight of the selected content",
    "norm",
)
a_max_in = nonnegative(
    "a_max_in", r"a_{\max}^{\mathrm{in}}", "largest selected effective weight", "norm"
)
a_max_out = nonnegative(
    "a_max_out", r"a_{\max}^{\mathrm{out}}", "largest unselected effective weight", "norm"
)
a_min_out = nonnegative(
    "a_min_out", r"a_{\min}^{\mathrm{out}}", "smallest unselected effective weight", "norm"
)
rho_out = real(
    "rho_out", r"\rho_{\mathrm{out}}", "largest cosine of an unselected token with selected content"
)
rho_in = real("rho_in", r"\rho_{\mathrm{in}}", "largest cosine between two selected content tokens")
Delta = real("Delta", r"\Delta", "margin of a content token", "norm²")
Delta_0 = real("Delta_0", r"\Delta_0", "margin of the sink", "norm²")
Delta_0_primed = real("Delta_0_primed", r"\Delta'_0", "Delta_0 in the appendix", "norm²")
B = positive("B", "B", "scale of the tails", "norm")
xi = real("xi", r"\xi_{ij}", "standardised margin of a pair")
mu = real("mu", r"\mu_{ij}", "mean of the difference of squared distances of a pair", "norm²")
sigma = positive(
    "sigma_ij", r"\sigma_{ij}", "width of the difference of squared distances of a pair", "norm²"
)
sigma_ss = nonnegative(
    "sigma_ss", r"\sigma_{ss}", "mean squared norm of the representative", "norm²"
)
P_lower = real("P_lower", r"P_{\min}", "lower bound of the expected precision")
P_upper = real("P_upper", r"P_{\max}", "upper bound of the expected precision")
R_lower = real("R_lower", r"R_{\min}", "lower bound of the expected recall")
P = nonnegative("P", "P", "precision at a radius")
R = nonnegative("R", "R", "recall at a radius")
R_upper = real("R_upper", r"R_{\max}", "upper bound of the expected recall")
Gamma_ii = nonnegative(
    "Gamma_ii", r"\Gamma_{ii}", "mean squared distance of the selected token i from s", "norm²"
)
Gamma_jj = nonnegative(
    "Gamma_jj", r"\Gamma_{jj}", "mean squared distance of the token j from s", "norm²"
)
Gamma_ij = real(
    "Gamma_ij", r"\Gamma_{ij}", "mean inner product of the two difference vectors", "norm²"
)
r = real("r", "r_{ij}", "standardised separation of a pair under Model G, from -1 to 1")
