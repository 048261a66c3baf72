"""The public functions of geostat, from xarray to xarray. Only what measures imports torch.

A run is an `xarray.DataTree`: /capture, /sinks and /null as measured; /norms, /similarity, /weights
and /pooled as fitted; /envelope, experiments, /verdicts and /summary as confronted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmfit
import xarray as xr

from empirical.store.stored_run import StoredRun
from geostat.comparison.compare import compare as lay_side_by_side
from geostat.comparison.reading import Source
from geostat.display.tree import with_display
from geostat.errors import one_error, refuse_no_flags, shown_whole
from geostat.fits.one_head import fit_head as fit_one
from geostat.fits.pooled.depth import depth_trend as trend_over_depth
from geostat.fits.pooled.fit import pooled_fit as fit_together
from geostat.runs import answers, pipeline, stages, tensors
from geostat.runs.files import store_path
from geostat.runs.groups import group_of, joined, measured, tree_of, with_fits
from geostat.runs.methods import accessor
from geostat.verdicts.answers import refuse_older
from geostat.verdicts.tolerances import read_tolerances
from geostat.what_if.elasticities import elasticities as tell_elasticities
from geostat.what_if.labelled_study import whatif as evaluate_grid
from theory.head.results import Edition

if TYPE_CHECKING:
    import torch
    from statsmodels.regression.linear_model import RegressionResultsWrapper
    from statsmodels.regression.mixed_linear_model import MixedLMResultsWrapper


@one_error
def open(path: str | Path) -> xr.DataTree:
    """Open a run, reading and verifying every chunk's checksum.

    Args:
        path: the store, such as report/run.zarr, or the folder that holds it.

    Raises:
        InputError: if there is no run.
        StoreError: if it is damaged.

    >>> run = open("report")
    >>> run["capture"]["precision"].dims
    ('document', 'layer', 'head', 'n')
    """
    return StoredRun.open(store_path(Path(path))).tree()


@one_error
def documents(*patterns: str | Path) -> tuple[Path, ...]:
    """Name text: files, folders, .jsonl files or patterns such as `notes/*.txt`, sorted within a
    pattern.

    Raises:
        InputError: if a pattern is none or matches nothing.

    >>> documents(__file__)[0].name
    'api.py'
    """
    from geostat.runs.settings import matching_paths

    return tuple(path for pattern in patterns for path in matching_paths(pattern))


@one_error
def capture(
    model: str | torch.nn.Module | None = None,
    *,
    documents: str | Path | Iterable[Any] | None = None,
    count: int | None = None,
    length: int = 1024,
    out: str | Path = "run.zarr",
    fresh: bool = False,
    null: bool = True,
    **settings: Any,
) -> xr.DataTree:
    """Measure a model's heads into a store and open it.

    Args:
        model: hub id, folder or GGUF file; a transformers model in memory, which is afterwards as
            it was, or a module with its `get_decoder` (peft); None: the built-in one.
        documents: text files, folders or .jsonl; texts; rows of token ids; a table or records with
            `input_ids` or `text`, as of a tokenizer. None, or "builtin": Python's own texts.
        count: how many documents; unless told 8 of named ones, all of those in memory.
        length: tokens of a window. out: the store, or its folder. null: measure baselines too.
        fresh: throw a store there away; else an equal run is completed, another one refused.
        settings: further fields of `geostat.runs.settings.Settings`; of a model in memory its
            `tokenizer`, unless documents are token ids, and whether to `hash_weights` (True). Or a
            `client` of Dask distributed, whose workers measure, or a place such as "local:2".

    Raises:
        InputError: for bad input.
        StoreError: if the run that stands at `out` is damaged.
        TypeError: for an unknown setting.

    >>> run = capture("model", documents=documents("notes/*.txt"), count=2, length=40, out="mine")
    >>> run["capture"]["precision"].dims
    ('document', 'layer', 'head', 'n')
    """
    from geostat.runs import measurement
    from geostat.runs.in_memory import asked

    given = asked(model, documents, count=count, length=length, **settings)
    return measurement.measure(given[0], Path(out), *given[1:], fresh=fresh, null=null).tree()


@one_error
def fit(run: xr.DataTree, *, save: str | Path | None = None, client: Any = None) -> xr.DataTree:
    """Fit Assumptions 1-3: a DataTree with /norms, /similarity and /weights by head, and /pooled by
    layer, of the whole model and over depth. Nothing is written, as `geostat fit` does, unless
    `save` names the run's store. client: of Dask, whose workers fit, or a place such as "local:2".

    >>> fits = fit(open("report"))
    >>> fits["norms"]["cv_token"].dims
    ('layer', 'kv_head')
    """
    make = partial(stages.fitted, measured(run), cluster=client)
    return tree_of(pipeline.kept(make, run, save))


@one_error
def fit_head(
    run: xr.DataTree, layer: int, head: int, which: str = "similarity", form: str | None = None
) -> lmfit.model.ModelResult | RegressionResultsWrapper | MixedLMResultsWrapper:
    """Fit one assumption to one head and return the fitting library's own result.

    Args:
        run: a captured run.
        layer, head: labels; norms and similarity are those of the head's value head.
        which: "similarity" (the default), "norms" or "weights".
        form: a form of `geostat.fits.one_head.FORMS`; the printed one by default.

    Returns:
        lmfit's ModelResult with document-jackknife errors, whose `fit_report()` prints it; for
        "norms" with form "trend" statsmodels' RegressionResults (Newey-West errors) and with form
        "variance" its MixedLMResults, whose `summary()` does.

    >>> beta = fit_head(open("report"), 1, 3, "similarity").params["beta"]
    >>> beta.value > 0 and beta.stderr > 0  # all of it: print(result.fit_report())
    True
    """
    return fit_one(measured(run), layer, head, which=which, form=form)


@one_error
def pooled_fit(
    run: xr.DataTree, what: str = "similarity", layer: int | None = None, form: str | None = None
) -> lmfit.model.ModelResult:
    """Fit one assumption to all heads of a layer pooled: lmfit's ModelResult with
    document-jackknife errors, whose `fit_report()` prints it.

    Args:
        run: a captured run.
        what: "similarity" (mean cosines by lag), "weights" (mean log weights by position) or
            "norms" (mean norms by position).
        layer: label of the layer; None pools all layers.
        form: a form of that assumption; the printed one by default.

    Raises:
        InputError: for an unknown assumption, layer or form, or heads that it cannot be fitted to.

    >>> pooled_fit(open("report"), "weights", layer=1).params["eta"].stderr > 0
    True
    """
    return fit_together(measured(run), what=what, layer=layer, form=form)


@one_error
def depth_trend(
    run: xr.DataTree, name: str, model: str = "line"
) -> RegressionResultsWrapper | MixedLMResultsWrapper:
    """Return statsmodels' results for a pooled parameter's change over depth, whose `summary()`
    prints them.

    Args:
        run: a captured run.
        name: a parameter of /pooled, such as "beta_offset", "rho0" or "p_sink".
        model: "line", least squares with Newey-West errors; "mixed": documents and layers random.

    Raises:
        InputError: for an unknown parameter or model, or too few layers.

    >>> depth_trend(open("report"), "rho0").params.size  # level and slope
    2
    """
    return trend_over_depth(measured(run), name, model=model)


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
    """Lay the bounds over the measured curves and give the verdicts: /envelope, /sink, /heads,
    /separable, /verdicts, /summary.

    Args:
        run: a captured run.
        fits: what `fit` returned.
        editions: editions of the theory.
        points: about how many log-spaced sizes N; None takes all.
        tolerances: a TOML file of tolerances for the verdicts, over the built-in ones.
        swap: also /ingredients (what costs the bounds most) and /sensitivity (half a minute).
        predict: also /predictive: every head's curves as predicted from its fits, and how well (a
            few minutes).
        save: the run's store, which is to keep `fits` and what is returned. Without it nothing is
            written; `geostat confront` writes. client: as for `fit`.

    >>> run = open("report")
    >>> env = confront(run, run, editions=("sharp",), points=4)
    >>> len(env["summary"].attrs["sentences"])
    5
    """
    refuse_no_flags(swap=swap, predict=predict)
    make = partial(
        stages.confronted,
        with_fits(run, fits),
        editions=editions,
        points=points,
        tolerances=read_tolerances(None if tolerances is None else Path(tolerances)),
        swap=swap,
        predict=predict,
        cluster=client,
    )
    return tree_of(pipeline.kept(make, run, save, fits))


@one_error
def report(
    run: xr.DataTree, fits: xr.DataTree, env: xr.DataTree, *, out: str | Path = "report"
) -> Path:
    """Write report.html, figures and tables below `out`; returns the page's path.

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
    """Lay several confronted runs side by side; see `geostat.comparison.compare` for what the
    dataset holds.

    Args:
        runs: two or more paths of runs, or what `open` returned.
        out: folder for comparison.html, figures and tables; none are written when left out.
        quick: give the coverage of bounds without standard errors, which take as long as to
            confront each run again.

    Raises:
        InputError: for fewer than two runs, a run that is given twice, is none, or is not
            confronted.
        StoreError: for a damaged one.

    >>> compare(["report", "other"], quick=True).sizes["run"]
    2
    """
    from reports.comparison.page import write_comparison

    refuse_no_flags(quick=quick)
    data = lay_side_by_side(runs, quick=quick)
    if out is not None:
        with shown_whole("the comparison"):
            write_comparison(data, Path(out))
    return data


claims, head, summary = one_error(answers.claims), one_error(answers.head), accessor.summary
"""Claims as a frame, the numbers of one head (`geostat.runs.answers`), and a summary of tables."""

from_tensors = one_error(tensors.from_tensors)
"""Measure weights and values that another program made: `geostat.runs.tensors.from_tensors`."""

whatif, elasticities = one_error(evaluate_grid), one_error(tell_elasticities)
"""Bounds over a grid of parameters, and how they respond at a point: `geostat.what_if`."""
