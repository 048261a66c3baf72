"""Untrained control of a run: the same architecture with initial weights, on the same documents.

Its verdicts and key results tell what needs no training; /summary states them beside the run's
own. Imports torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import xarray as xr

from empirical.measure import permutations
from empirical.sources.given import HeldModel, documents
from empirical.sources.models import DTYPES, FoundModel
from empirical.sources.untrained import untrained
from empirical.store.store import Store
from geostat.datasets.parts import of_parts
from geostat.runs.console import QUIET, Console
from geostat.runs.groups import joined, measured, tree_of
from geostat.runs.measurement import measure
from geostat.runs.options import RunOptions
from geostat.runs.stages import confronted, fitted
from geostat.topics.records import ANSWER_CODES, Tolerance
from geostat.topics.similarity import dependence

DOCUMENTS: Final = 4
LAYERS: Final = 3
"""Documents and layers of the control: with them it takes about a tenth of the run's time."""
POINTS: Final = 12
"""Sizes N at which its bounds are evaluated."""
SIZES: Final = (*permutations.SIZES, *(2**power for power in range(7, 21)))
"""Sizes N at which it is measured: few, because bands over N widen with their number."""


def measure_control(
    options: RunOptions,
    store: Store,
    model: FoundModel | HeldModel,
    *,
    tolerances: Mapping[str, Tolerance] | None = None,
    console: Console = QUIET,
) -> xr.Dataset:
    """Return /control: verdicts, key results and scoreboard of the untrained model.

    Args:
        options: the options of the run.
        store: the captured run, whose first documents are read.
        model: the model of the run, without its weights.
        tolerances: tolerances by claim, as for the run.

    Returns:
        Counts of heads by answer, with dim (claim), and by depends_on of /amended; the attributes
        `key_results` (lists of JSON), `scoreboard` (JSON), documents, layers and seed.
    """
    console.stage("untrained control")
    ids = store.read("capture")["token_id"].values[:DOCUMENTS].tolist()
    control = untrained(
        model.config,
        layers=LAYERS,
        seed=options.seed,
        dtype=DTYPES[options.dtype],
        device=model.device if isinstance(model, FoundModel) else "cpu",
    )
    with TemporaryDirectory(prefix="geostat-control-") as folder:
        settings = replace(
            options,
            model=None,
            text=(),
            dataset=None,
            documents=len(ids),
            n=",".join(str(size) for size in SIZES if size <= options.length),
            heads=(),
            cluster=None,
            out=Path(folder),
        )
        tree = measure(settings, control, documents(ids)).tree()
        tree = joined(tree, tree_of(fitted(measured(tree))))
        results = confronted(tree, points=POINTS, swap=False, tolerances=tolerances)
    layers = tree["capture"].sizes["layer"]
    return _of_results(results, documents=len(ids), layers=layers, seed=options.seed)


def _of_results(results: Mapping[str, xr.Dataset], **attrs: Any) -> xr.Dataset:
    verdicts, summary = results["verdicts"], results["summary"]
    counts = {
        name: verdicts[name].sum(set(verdicts[name].dims) - {"claim"}, keep_attrs=True)
        for name in ANSWER_CODES
    }
    scoreboard = [json.loads(text) for text in of_parts(summary, "scoreboard")]
    return xr.Dataset(
        counts | {"dependence": ("effect", dependence(results["amended"]))},
        attrs={
            "long_name": "verdicts of the same architecture with initial weights",
            "key_results": list(summary.attrs["key_results"]),
            "scoreboard": json.dumps(scoreboard[0], ensure_ascii=False),
        }
        | attrs,
    )
