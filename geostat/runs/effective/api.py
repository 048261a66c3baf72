"""`geostat.effective`, the Python face of the effective attention set size. Only what measures
imports torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from geostat.errors import one_error
from geostat.runs.effective.defaults import DOCUMENTS, LENGTH

if TYPE_CHECKING:
    import torch


@one_error
def effective(
    model: str | torch.nn.Module | None = None,
    *,
    documents: str | Path | Iterable[Any] | None = None,
    count: int | None = None,
    length: int = LENGTH,
    out: str | Path = "effective",
    rules: str | Sequence[str] = ("attention",),
    mode: str = "both",
    tau: float | Sequence[float] = (0.01, 0.05, 0.10),
    target: str = "all",
    layers: str | int | Sequence[int] = "all",
    heads: str | Sequence[str] = (),
    regimes: str | Sequence[str] = (),
    each: str = "together",
    fresh: bool = False,
    null: bool = True,
    **settings: Any,
) -> xr.DataTree:
    """Find how few tokens each query may keep before the next-token loss rises by more than a
    share τ (arXiv 2609.37879), and return the run with its /effective.

    The run is captured first, unless it stands at `out`. Every loss that was measured stays, so
    other rules, layers or shares are added by asking again.

    Args:
        model, documents, out, fresh, null, settings: as of `geostat.capture`; the model needs its
            head.
        count: how many documents; unless told 4 of named ones, all of those in memory. length:
            tokens of a window.
        rules: which tokens a query keeps: attention, contribution, sink-orthogonal, recent,
            sink-recent, greedy (an oracle), random (the mean of 16 nested draws), sparsemax,
            entmax15.
        mode: what becomes of the others: deletion, renormalisation, or both.
        tau: shares by which the loss may rise.
        target: which tokens are predicted: all, or last:K.
        layers: which layers are intervened on: all, or such as 0,3,5-8. heads: or which heads, as
            L5H3. regimes: or the heads of which, as retriever; the run is confronted for it.
        each: together, or each layer or head by itself, the rest as they are.

    Raises:
        InputError, TypeError: for bad input, for an unknown setting.
        StoreError: if the run that stands at `out` is damaged.

    >>> run = effective("model", documents="notes", count=2, length=40, out="mine", tau=[0.5])
    >>> run["effective"]["n_star"].dims
    ('scope', 'rule', 'mode', 'tau')
    """
    from geostat.runs.effective.asked import Asked
    from geostat.runs.effective.effective import effective as measured
    from geostat.runs.in_memory import asked

    words: dict[str, Any] = {"mode": mode, "target": target, "each": each}
    named = {"rules": rules, "heads": heads, "regimes": regimes}
    words |= {name: tuple(listed(one).split(",") if one else ()) for name, one in named.items()}
    wanted = Asked(tau=listed(tau), layers=listed(layers), **words)
    usual: dict[str, Any] = {"usual": DOCUMENTS, "face": effective}
    how = asked(model, documents, count=count, length=length, **usual, **settings)
    return measured(how[0], wanted, Path(out), *how[1:], fresh=fresh, null=null).tree()


def listed(values: object) -> str:
    """Values with commas between, as a command's options have them.

    >>> listed([1, 8]), listed(0.05), listed("recent")
    ('1,8', '0.05', 'recent')
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        return str(values)
    return ",".join(map(str, values))
