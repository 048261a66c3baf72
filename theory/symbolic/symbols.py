"""Symbols of the paper, every one once: assumptions, LaTeX, meaning, unit.

Source: arXiv 2602.01893. Units: "norm" is the unit of value norms, "norm²" of squared distances and
so on; "" is unitless. Sets of tokens: I_N (selected), I_content = I_N without the sink 0, J (the
rest). What is defined in them is in `theory.symbolic.definitions`, margins and bounds in
`theory.symbolic.margins` and `theory.symbolic.theorems`. Imports sympy only.
"""

from theory.symbolic.meanings import family, symbol

L = symbol("L", "L", "last position; there are L + 1 tokens", integer=True, positive=True)
T = symbol("T", "T", "number of tokens, L + 1", integer=True, positive=True)
N = symbol("N", "N", "size of the selected set", integer=True, positive=True)
d = symbol("d", "d", "head size", integer=True, positive=True)
kappa = symbol("kappa", r"\kappa", "concentration constant, nowhere given in print", positive=True)
beta = symbol("beta", r"\beta", "decay of similarity per position", positive=True)
rho_0 = symbol("rho_0", r"\rho_0", "cosine of the sink with any other token", real=True)
c = symbol("c", "c", "offset of the similarity at long lag", real=True)
i = symbol("i", "i", "a token", integer=True, nonnegative=True)
j = symbol("j", "j", "a token", integer=True, nonnegative=True)
k = symbol("k", "k", "a token", integer=True, nonnegative=True)
l = symbol("l", r"\ell", "a token", integer=True, nonnegative=True)  # noqa: E741
m = symbol("m", "m", "a rank: x_(m) is the m-th largest", integer=True, positive=True)
I_N = symbol("I_N", "I_N", "the selected tokens")
I_content = symbol("I_content", r"I_N\setminus\{0\}", "the selected tokens without the sink")
J = symbol("J", "J", "the tokens that are not selected")

a = family(
    "a", "a", "effective weight, attention weight times value norm", "norm", nonnegative=True
)
rho = family("rho", r"\rho", "cosine of two value states", real=True)
p_floor = family(
    "p_floor",
    r"\underline{p}",
    "printed floor of a pairwise probability, eq. (9)",
    nonnegative=True,
)
p = family(
    "p", "p", "probability that token j lies no farther from s than token i", nonnegative=True
)
M = family(
    "M",
    "M",
    "mean inner product of a direction with the selected content, eq. (11)",
    "norm",
    real=True,
)
sigma_of = family(
    "sigma", r"\sigma", "covariance of a contribution with the representative", "norm²", real=True
)

alpha = family("alpha", r"\alpha", "attention weight", nonnegative=True)
v = family("v", "v", "value state, a vector", "norm")
u = family("u", "u", "direction of a value state, a unit vector")
y = family("y", "y", "contribution, attention weight times value state, a vector", "norm")
D = family(
    "D",
    "D",
    "squared distance of a contribution from the representative",
    "norm²",
    nonnegative=True,
)
d_ort = family(
    "d_ort",
    r"d^{\mathrm{ort}}",
    "distance from the representative where the sink is orthogonal",
    "norm",
    positive=True,
)
pi = family(
    "pi",
    r"\pi",
    "largest p_ij over selected i, by rank: pi[1] is the largest of all",
    nonnegative=True,
)
nu = family("nu", r"\nu", "1 - min(1, sum_j p_ij), by rank: nu[1] is the largest", nonnegative=True)

s = symbol("s", "s", "representative, the sum of the selected contributions, a vector", "norm")
radius = symbol(
    "radius", "r", "radius of a ball around the representative", "norm", nonnegative=True
)
r_min = symbol(
    "r_min",
    r"r_{\min}",
    "distance of the nearest token that is not selected",
    "norm",
    nonnegative=True,
)
r_max = symbol(
    "r_max", r"r_{\max}", "distance of the farthest selected token", "norm", nonnegative=True
)
K_in = symbol(
    "K_in",
    r"K_{\mathrm{in}}",
    "selected tokens no farther than r_min",
    integer=True,
    nonnegative=True,
)
K_out = symbol(
    "K_out",
    r"K_{\mathrm{out}}",
    "other tokens no farther than r_max",
    integer=True,
    nonnegative=True,
)
C = symbol("C", "C", "norm of every value state but the sink's", "norm", positive=True)
lam = symbol("lam", r"\lambda", "norm of the sink's value state over C", positive=True)
p_sink = symbol("p_sink", r"p_{\mathrm{sink}}", "attention weight of the sink", positive=True)
p_base = symbol("p_base", r"p_{\mathrm{base}}", "attention weight of the plateau", positive=True)
eta = symbol("eta", r"\eta", "strength of the oscillation and rate of the growth", positive=True)
omega = symbol(
    "omega", r"\omega", "frequency of the oscillation, radians per position", positive=True
)
T_1 = symbol("T_1", "T_1", "last position of the plateau", integer=True, nonnegative=True)
T_2 = symbol("T_2", "T_2", "last position before the growth", integer=True, nonnegative=True)
n_plus = symbol(
    "n_plus", "n_+", "oscillation tokens of positive cosine", integer=True, nonnegative=True
)
n_minus = symbol(
    "n_minus", "n_-", "oscillation tokens of negative cosine", integer=True, nonnegative=True
)
m_1 = symbol(
    "m_1",
    "m_1",
    "least N at which a token before the growth is selected",
    integer=True,
    positive=True,
)
m_2 = symbol(
    "m_2", "m_2", "least N at which a plateau token is selected", integer=True, positive=True
)
m_3 = symbol("m_3", "m_3", "least N at which a valley is selected", integer=True, positive=True)
c_proxy = symbol("c_proxy", "c", "universal constant of the variance proxy", positive=True)
slope = symbol(
    "slope",
    r"F'(r_{\min}^{\mathrm{ort}})",
    "slope of the share of selected tokens by radius",
    "norm⁻¹",
    nonnegative=True,
)
shift = symbol("shift", r"\Delta r", "change of the radius", "norm", real=True)
a_next = symbol(
    "a_next",
    r"a_{\mathrm{next}}",
    "largest effective weight that stays outside",
    "norm",
    nonnegative=True,
)
total = symbol("total", "U", "sum over j of min(1, sum over i of p_ij)", nonnegative=True)
kept = symbol("kept", "V", "sum over i of 1 - max over j of p_ij", nonnegative=True)
beat = family(
    "beat",
    "F",
    "probability that token j lies no farther from s than token i, given s and y_i",
    nonnegative=True,
)
beat_ranked = family(
    "beat_ranked",
    r"F^{\downarrow}",
    "the same by rank: beat_ranked[i, 1] is the largest over j",
    nonnegative=True,
)
count = family(
    "count",
    r"\kappa",
    "sum over j of beat[i, j]: expected tokens outside that beat i, given s and y_i",
    nonnegative=True,
)
spread = family(
    "spread",
    "V",
    "bound on the variance of how many tokens outside beat i, given s and y_i",
    nonnegative=True,
)
safe = family(
    "safe",
    r"\ell",
    "mean of max(0, 1 - count[i]), by rank: safe[1] is the largest",
    nonnegative=True,
)
safe_most = symbol(
    "safe_most",
    "H",
    "sum over i of the mean of min(1 - max over j of beat[i, j], spread[i]/(spread[i] +"
    " count[i]²))",
    nonnegative=True,
)
w = family(
    "w",
    "w",
    "scale-free width of the difference of squared distances of a pair",
    "norm²",
    positive=True,
)
mu_of = family(
    "mu_of",
    r"\mu",
    "exact mean of the difference of squared distances of a pair",
    "norm²",
    real=True,
)

a_0 = symbol("a_0", "a_0", "effective weight of the sink", "norm", nonnegative=True)
S_in = symbol(
    "S_in",
    r"S_{\mathrm{in}}",
    "summed effective weight of the selected content",
    "norm",
    nonnegative=True,
)
S_in_primed = symbol("S_in_primed", r"S'_{\mathrm{in}}", "S_in in the appendix", "norm", real=True)
F_in = symbol("F_in", r"F_{\mathrm{in}}(r)", "share of the selected tokens in the ball", real=True)
X = family("X", "X", "difference of the squared distances of a pair", "norm²", real=True)
a_min_in = symbol(
    "a_min_in",
    r"a_{\min}^{\mathrm{in}}",
    "smallest effective weight of the selected content",
    "norm",
    nonnegative=True,
)
a_max_in = symbol(
    "a_max_in",
    r"a_{\max}^{\mathrm{in}}",
    "largest effective weight selected",
    "norm",
    nonnegative=True,
)
a_max_out = symbol(
    "a_max_out",
    r"a_{\max}^{\mathrm{out}}",
    "largest effective weight not selected",
    "norm",
    nonnegative=True,
)
a_min_out = symbol(
    "a_min_out",
    r"a_{\min}^{\mathrm{out}}",
    "smallest effective weight not selected",
    "norm",
    nonnegative=True,
)
rho_out = symbol(
    "rho_out",
    r"\rho_{\mathrm{out}}",
    "largest cosine of a token outside with selected content",
    real=True,
)
rho_in = symbol(
    "rho_in", r"\rho_{\mathrm{in}}", "largest cosine between two selected content tokens", real=True
)
Delta = symbol("Delta", r"\Delta", "margin of a content token", "norm²", real=True)
Delta_0 = symbol("Delta_0", r"\Delta_0", "margin of the sink", "norm²", real=True)
Delta_0_primed = symbol(
    "Delta_0_primed", r"\Delta'_0", "Delta_0 in the appendix", "norm²", real=True
)
B = symbol("B", "B", "scale of the tails", "norm", positive=True)
xi = symbol("xi", r"\xi_{ij}", "standardised margin of a pair", real=True)
mu = symbol(
    "mu", r"\mu_{ij}", "mean of the difference of squared distances of a pair", "norm²", real=True
)
sigma = symbol("sigma_ij", r"\sigma_{ij}", "width of that difference", "norm²", positive=True)
sigma_ss = symbol(
    "sigma_ss", r"\sigma_{ss}", "mean squared norm of the representative", "norm²", nonnegative=True
)
P_lower = symbol("P_lower", r"P_{\min}", "lower bound of the expected precision", real=True)
P_upper = symbol("P_upper", r"P_{\max}", "upper bound of the expected precision", real=True)
R_lower = symbol("R_lower", r"R_{\min}", "lower bound of the expected recall", real=True)
P = symbol("P", "P", "precision at a radius", nonnegative=True)
R = symbol("R", "R", "recall at a radius", nonnegative=True)
R_upper = symbol("R_upper", r"R_{\max}", "upper bound of the expected recall", real=True)
Gamma_ii = symbol(
    "Gamma_ii",
    r"\Gamma_{ii}",
    "mean squared distance of the selected token i from s",
    "norm²",
    nonnegative=True,
)
Gamma_jj = symbol(
    "Gamma_jj",
    r"\Gamma_{jj}",
    "mean squared distance of the token j from s",
    "norm²",
    nonnegative=True,
)
Gamma_ij = symbol(
    "Gamma_ij",
    r"\Gamma_{ij}",
    "mean inner product of the two distances' vectors",
    "norm²",
    real=True,
)
r = symbol(
    "r", "r_{ij}", "standardised separation of a pair under Model G, from -1 to 1", real=True
)
