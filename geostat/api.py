"""Public functions of geostat: they take and return xarray objects.

A run is an `xarray.DataTree`. The capture writes /capture, /sinks and /null; the fit writes /norms,
/similarity, /weights and /pooled; the confrontation writes /envelope, analyses, /verdicts and
/summary. Only functions that measure import torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmfit
import xarray as xr

from empirical.store.stored_run import StoredRun
from geostat.comparison import compare as comparison
from geostat.comparison.runs import Source
from geostat.display.tree import with_display
from geostat.errors import one_error, refuse_no_flags, shown_whole
from geostat.fits import one_head, pooled
from geostat.options import takes
from geostat.runs import accessor, answers, pipeline, planning, stages, tensors
from geostat.runs.files import matching_paths, store_path
from geostat.runs.groups import group_of, joined, measured, tree_of, with_fits
from geostat.runs.options import CaptureOptions
from geostat.topics.claims import read_tolerances
from geostat.topics.verdicts import refuse_older
from geostat.what_if import studies
from theory.head.results import Edition

if TYPE_CHECKING:
    import torch
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper


@one_error
def open(path: str | Path) -> xr.DataTree:
    """Open a run and verify the checksum of every chunk.

    Args:
        path: the store, such as report/run.zarr, or its folder.

    Raises:
        InputError: if there is no run at `path`.
        StoreError: if the run is damaged.

    >>> run = open("report")
    >>> run["capture"]["precision"].dims
    ('document', 'layer', 'head', 'n')
    """
    return StoredRun.open(store_path(Path(path))).tree()


@one_error
def documents(*patterns: str | Path) -> tuple[Path, ...]:
    """Return the paths of text files, folders, .jsonl files or patterns such as `notes/*.txt`.

    Matches of a pattern are sorted.

    Raises:
        InputError: if a pattern is invalid or matches nothing.

    >>> documents(__file__)[0].name
    'api.py'
    """
    return tuple(path for pattern in patterns for path in matching_paths(pattern))


@one_error
@takes(CaptureOptions, count=None, out="run.zarr")
def capture(
    model: str | torch.nn.Module | None = None,
    *,
    documents: str | Path | Iterable[Any] | None = None,
    tokenizer: Any = None,
    hash_weights: bool = True,
    **options: Any,
) -> xr.DataTree:
    """Measure the attention heads of a model, write a store and open it.

    Args:
        model: hub id, folder or GGUF file; a transformers model in memory, or a module with
            `get_decoder` (peft), which is left unchanged; None: the built-in model.
        documents: text files, folders or .jsonl files; texts; rows of token ids; a table or records
            with `input_ids` or `text`. None or "builtin": the texts that come with Python.
        tokenizer: tokenizer of a model in memory; not needed if documents are token ids.
        hash_weights: whether to hash the weights of a model in memory.
        {options}

    `count` defaults to 8 named documents, or to all documents in memory. A run at `out` with the
    same settings is completed; a different run is refused. `client` is a Dask distributed client,
    or an address such as "local:2".

    Raises:
        InputError: for bad input.
        StoreError: if the run at `out` is damaged.
        TypeError: for an unknown keyword.

    >>> run = capture("model", documents=documents("notes/*.txt"), count=2, length=40, out="mine")
    >>> run["capture"]["precision"].dims
    ('document', 'layer', 'head', 'n')
    """
    from geostat.runs.in_memory import options_and_inputs
    from geostat.runs.measurement import measure

    options = {"out": "run.zarr", "tokenizer": tokenizer, "hash_weights": hash_weights} | options
    return measure(
        *options_and_inputs(CaptureOptions, "capture", model, documents, **options)
    ).tree()


@one_error
def fit(run: xr.DataTree, *, save: str | Path | None = None, client: Any = None) -> xr.DataTree:
    """Fit Assumptions 1-3 to a captured run.

    Args:
        run: a captured run.
        save: the run's store, to write the fits into; None writes nothing.
        client: a Dask client whose workers compute the fits, or an address such as "local:2".

    Returns:
        DataTree with /norms, /similarity and /weights by head, and /pooled by layer, for the whole
        model and over depth.

    >>> fits = fit(open("report"))
    >>> fits["norms"]["cv_token"].dims
    ('layer', 'kv_head')
    """
    compute = partial(stages.fitted, measured(run), cluster=client)
    return tree_of(pipeline.computed_and_saved(compute, run, save))


@one_error
def fit_head(
    run: xr.DataTree, layer: int, head: int, which: str = "similarity", form: str | None = None
) -> lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper:
    """Fit one assumption to one head and return the result of lmfit or statsmodels.

    Args:
        run: a captured run.
        layer, head: labels; norms and similarity are fitted to the head's KV head.
        which: "similarity" (the default), "norms" or "weights".
        form: a form of `geostat.fits.one_head.FORMS`; the paper's form by default.

    Returns:
        lmfit's ModelResult with document-jackknife standard errors; `fit_report()` prints it. For
        "norms", form "trend" returns statsmodels' RegressionResults (Newey-West errors) and form
        "variance" its MixedLMResults; `summary()` prints them.

    >>> beta = fit_head(open("report"), 1, 3, "similarity").params["beta"]
    >>> beta.value > 0 and beta.stderr > 0  # print(result.fit_report()) shows the fit
    True
    """
    return one_head.fit_head(measured(run), layer, head, which=which, form=form)


@one_error
def pooled_fit(
    run: xr.DataTree, what: str = "similarity", layer: int | None = None, form: str | None = None
) -> lmfit.model.ModelResult:
    """Fit one assumption to the pooled heads of a layer.

    Args:
        run: a captured run.
        what: "similarity" (mean cosines by lag), "weights" (mean log weights by position) or
            "norms" (mean norms by position).
        layer: label of the layer; None pools all layers.
        form: a form of that assumption; the paper's form by default.

    Returns:
        lmfit's ModelResult with document-jackknife standard errors; `fit_report()` prints it.

    Raises:
        InputError: for an unknown assumption, layer or form, or heads that cannot be fitted.

    >>> pooled_fit(open("report"), "weights", layer=1).params["eta"].stderr > 0
    True
    """
    return pooled.pooled_fit(measured(run), what=what, layer=layer, form=form)


@one_error
def depth_trend(
    run: xr.DataTree, name: str, model: str = "line"
) -> RegressionResultsWrapper | MixedLMResultsWrapper:
    """Regress a pooled parameter on depth.

    Args:
        run: a captured run.
        name: a parameter of /pooled, such as "beta_offset", "rho0" or "p_sink".
        model: "line": least squares with Newey-West errors; "mixed": random effects of documents
            and layers.

    Returns:
        Results of statsmodels; `summary()` prints them.

    Raises:
        InputError: for an unknown parameter or model, or too few layers.

    >>> depth_trend(open("report"), "rho0").params.size  # level and slope
    2
    """
    return pooled.depth_trend(measured(run), name, model=model)


@one_error
def confront(
    run: xr.DataTree,
    fits: xr.DataTree,
    *,
    editions: Sequence[Edition] = stages.EDITIONS,
    points: int | None = stages.ENVELOPE_POINTS,
    tolerances: str | Path | None = None,
    swap: bool = True,
    predict: bool = False,
    save: str | Path | None = None,
    client: Any = None,
) -> xr.DataTree:
    """Compare the theory's bounds with the measured curves and give the verdicts.

    Args:
        run: a captured run.
        fits: result of `fit`.
        editions: editions of the theory.
        points: approximate number of log-spaced sizes N; None takes every size.
        tolerances: TOML file with tolerances for the verdicts; it overrides the built-in ones.
        swap: whether to add /ingredients (cost of each assumption) and /sensitivity (half a
            minute).
        predict: whether to add /predictive and /fitted: the curves of every head predicted from its
            fits, and from the amended assumptions, with the prediction error (a few minutes).
        save: the run's store, to write `fits` and the result into; None writes nothing.
        client: as for `fit`.

    Returns:
        DataTree with /envelope, /sink, /heads, /separable, /verdicts and /summary.

    >>> run = open("report")
    >>> env = confront(run, run, editions=("sharp",), points=4)
    >>> len(env["summary"].attrs["sentences"])
    5
    """
    refuse_no_flags(swap=swap, predict=predict)
    compute = partial(
        stages.confronted,
        with_fits(run, fits),
        editions=editions,
        points=points,
        tolerances=read_tolerances(None if tolerances is None else Path(tolerances)),
        swap=swap,
        predict=predict,
        cluster=client,
    )
    return tree_of(pipeline.computed_and_saved(compute, run, save, fits))


@one_error
def report(
    run: xr.DataTree, fits: xr.DataTree, env: xr.DataTree, *, out: str | Path = "report"
) -> Path:
    """Write report.html, figures and tables below `out` and return the path of the page.

    >>> run = open("report")
    >>> report(run, run, run, out="page").name
    'report.html'
    """
    from reports.page.page import write_page

    fitted = with_fits(run, fits)
    for name in ("envelope", "summary"):
        group_of(env, name)
    refuse_older("env", env)
    with shown_whole("the run"):
        return write_page(with_display(joined(fitted, env)), Path(out))


@one_error
def compare(
    runs: Sequence[Source], *, out: str | Path | None = None, quick: bool = False
) -> xr.Dataset:
    """Compare several confronted runs; `geostat.comparison.compare` describes the dataset.

    Args:
        runs: two or more paths of runs, or trees returned by `open`.
        out: folder for comparison.html, figures and tables; None writes nothing.
        quick: whether to omit standard errors of coverage; computing them takes as long as
            confronting each run again.

    Raises:
        InputError: for fewer than two runs, a run given twice, a path without a run, or a run that
            is not confronted.
        StoreError: if a run is damaged.

    >>> compare(["report", "other"], quick=True).sizes["run"]
    2
    """
    from reports.comparison import write_comparison

    refuse_no_flags(quick=quick)
    data = comparison.compare(runs, quick=quick)
    if out is not None:
        with shown_whole("the comparison"):
            write_comparison(data, Path(out))
    return data


claims, head, summary = one_error(answers.claims), one_error(answers.head), accessor.summary
from_tensors, plan = one_error(tensors.from_tensors), one_error(planning.plan)
whatif, elasticities = one_error(studies.whatif), one_error(studies.elasticities)
