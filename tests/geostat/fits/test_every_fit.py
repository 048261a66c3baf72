import numpy as np
import pytest
from support.synthetic import Sizes, capture

from geostat.errors import InputError
from geostat.fits.norms.fit import fit_norms
from geostat.fits.similarity.fit import fit_similarity
from geostat.fits.weights.fit import fit_weights


@pytest.mark.parametrize(
    ("fit", "steps"),
    [(fit_norms, 4), (fit_similarity, 6), (fit_weights, 4)],  # layers or forms
)
def test_variables_have_words_and_double_precision_and_progress_ends_at_one(fit, steps):
    done: list[float] = []
    sizes = Sizes(layers=4, heads=1, kv_heads=1, positions=40, documents=2)
    for name, variable in fit(capture(sizes=sizes), progress=done.append).data_vars.items():
        assert {"long_name", "units", "symbol", "equation"} <= set(variable.attrs), name
        assert variable.dtype in (np.float64, np.int64, np.bool_), name
    assert done == pytest.approx(np.arange(1, steps + 1) / steps)


@pytest.mark.parametrize(
    ("fit", "spoiled", "message"),
    [
        (fit_norms, lambda data: data.drop_vars("value_norm"), "'value_norm'.*geostat capture"),
        (fit_norms, lambda data: data.transpose("layer", ...), "value_norm has dims .* expected"),
        (fit_norms, lambda data: data.isel(document=slice(0)), "value_norm is empty"),
        (fit_similarity, lambda data: data.drop_vars("cosine_block_mean"), "cosine_block_mean"),
        (fit_weights, lambda data: data - 1, r"layer 0 has -\S+, expected weights of at least 0"),
    ],
)
def test_a_capture_that_cannot_be_fitted_is_refused(fit, spoiled, message):
    with pytest.raises(InputError, match=message):
        fit(spoiled(capture(sizes=Sizes(positions=20))))
