"""Options of `geostat effective`: scopes of the intervention, and refusals."""

import numpy as np
import pytest

from geostat.analyses.head_regime_rules import REGIMES
from geostat.errors import InputError
from geostat.experiments.effective.options import EffectiveOptions

LAYERS, HEADS, LENGTH = 4, 4, 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": "0"}, "--tau 0: expected shares above 0"),
        ({"tau": "nan"}, "expected shares above 0"),
        ({"tau": "little"}, "expected shares above 0"),
        ({"rules": "best"}, "--rule best: "),
        ({"rules": "recent,"}, "--rule : expected one of"),
        ({"mode": "mask"}, "--mode mask: "),
        ({"each": "token"}, "--each token: "),
        ({"target": "last"}, "--target last: expected all, or last:K"),
        ({"target": "last:0"}, "expected all, or last:K"),
        ({"target": "last:40"}, "a window of 40 tokens has 39 to predict"),
        ({"layers": "2-1"}, "expected layers from 0 to 3"),
        ({"layers": [7]}, "--layers 7: expected layers from 0 to 3"),
        ({"heads": "H4"}, "expected a layer and a head, such as L5H3"),
        ({"heads": "L0H1,L0H4"}, "--head L0H4: the model has layers 0 to 3 and heads 0 to 3"),
        ({"heads": "L0H1", "layers": "2"}, "--layers and --head were both given"),
        ({"regimes": "mixer,sink"}, "--regime sink: "),
        ({"regimes": "mixer", "layers": "2"}, "--regime was given with --head, --layers"),
        ({"rules": "greedy", "length": 300}, "a window has 300 tokens, expected at most 256"),
        ({"rules": "greedy"}, "16 heads, expected at most 12"),
    ],
    ids=str,
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(InputError) as caught:
        EffectiveOptions(**{"length": LENGTH} | options).scopes(LAYERS, HEADS)
    assert message in str(caught.value)


def names(options: EffectiveOptions) -> list[str]:
    return [scope.name for scope in options.scopes(LAYERS, HEADS)]


def test_single_values_and_lists_are_taken():
    options = EffectiveOptions(tau=0.5, rules="recent", layers=[1, 2], n=np.array([4, 9]))
    assert (options.taus, options.rules, options.n) == ((0.5,), ("recent",), "4,9")
    assert names(options) == ["layers 1,2"]


def test_layers_and_heads_are_taken_together_or_one_at_a_time():
    assert names(EffectiveOptions(each="layer", layers="0,2")) == ["layer 0", "layer 2"]
    assert names(EffectiveOptions(heads=("L3H0", "L1H2"))) == ["L1H2 L3H0"]
    assert names(EffectiveOptions(each="head", heads="L3H0,L1H2")) == ["L1H2", "L3H0"]


def test_a_regime_names_its_heads():
    label = np.array([[REGIMES.index(name) for name in ("reset", "mixer")]] * 2)
    options = EffectiveOptions(regimes="reset,mixer", each="head")
    found = [scope.name for scope in options.of_regimes(label)]
    assert found == ["L0H0", "L1H0", "L0H1", "L1H1"]
    with pytest.raises(InputError, match="no head of this run has this regime"):
        EffectiveOptions(regimes="retriever").of_regimes(label)
