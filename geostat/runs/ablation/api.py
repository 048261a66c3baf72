"""`geostat.ablate`, the Python face of cuts of heads. Only what measures imports torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from geostat.errors import one_error
from geostat.runs.ablation.defaults import DOCUMENTS, LENGTH
from geostat.runs.effective.api import listed

if TYPE_CHECKING:
    import torch


@one_error
def ablate(
    model: str | torch.nn.Module | None = None,
    *,
    documents: str | Path | Iterable[Any] | None = None,
    count: int | None = None,
    length: int = LENGTH,
    out: str | Path = "ablation",
    parts: str | Sequence[str] = ("heads", "budgets", "regimes"),
    mode: str = "renormalisation",
    sizes: int | Sequence[int] = (1, 8, 64),
    tau: float = 0.001,
    budgets: int | Sequence[int] = (8, 16, 32),
    draws: int = 20,
    contexts: Sequence[int] = (64, 128, 256),
    target: str = "all",
    fresh: bool = False,
    null: bool = True,
    **settings: Any,
) -> xr.DataTree:
    """Find what the model loses where heads are cut, one by one, by a budget of tokens, or those of
    a regime; and whether geometry tells it.

    Returns the run with its /ablation, confronted first where it was not. Every loss stays.

    Args:
        model, documents, count, length, out, fresh, null, settings: as of `geostat.effective`.
        parts: what is measured; greedy budgets need heads. Part context: N* at 5% where the last
            so many `contexts` tokens are all the context; `target` is last:K.
        mode: what becomes of tokens that are not kept: renormalisation, deletion, or both.
        sizes: N that a head keeps where it alone is cut.
        tau: by which share the loss may rise at a head's own N*.
        budgets: mean N over heads; the smallest is what a regime's heads keep.
        draws: as many heads as a regime has, drawn from all, so many times.
        target: all, or last:K, the tokens that are predicted.

    Raises:
        InputError, StoreError, TypeError: as of `geostat.effective`.

    >>> run = ablate("model", documents="notes", count=2, length=40, out="cut", sizes=[1, 4],
    ...              parts="heads")
    >>> run["ablation"]["head_rise"].dims
    ('mode', 'n', 'layer', 'head')
    """
    from geostat.runs.ablation.ablation import ablate as measured
    from geostat.runs.ablation.asked import Asked
    from geostat.runs.in_memory import asked

    wanted = Asked(
        parts=listed(parts),
        mode=mode,
        sizes=listed(sizes),
        tau=tau,
        budgets=listed(budgets),
        draws=draws,
        contexts=listed(contexts),
        target=target,
    )
    usual: dict[str, Any] = {"usual": DOCUMENTS, "face": ablate}
    how = asked(model, documents, count=count, length=length, **usual, **settings)
    return measured(how[0], wanted, Path(out), *how[1:], fresh=fresh, null=null).tree()
