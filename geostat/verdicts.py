"""Verdicts: for every head and claim *holds*, *fails* or *undetermined*, each with the estimate, interval, tolerance and p-values behind it.

An effect is tested against its tolerance from both sides with its document-jackknife standard error and Student's t on K − 1 degrees of freedom, and
the false-discovery rate over the heads of the model is controlled for *holds* and for *fails* apart (`geostat.equivalence`). Intervals are not
adjusted. A claim on bounds is the intersection of one on each side, statistic and N. Imports numpy and xarray.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xarray as xr
from scipy.special import stdtrit

from geostat.claims import CLAIMS, Claim, Tolerance, Unit, tolerances
from geostat.equivalence import (
    ANSWERS,
    FAILS,
    FALSE_DISCOVERIES,
    HOLDS,
    NO_ESTIMATE,
    PValues,
    answers,
    if_present,
    mean_of_equals,
    of_all,
    one_sided,
)
from geostat.errors import InputError, Unmet
from geostat.fitting import described
from geostat.gaps import SMOOTH
from geostat.jackknife import LEVEL, FloatArray

__all__ = ["Requirement", "claim_rows", "give_verdicts", "hold_to", "requirement", "share"]

STATISTICS: Final = ("precision", "recall")
UNITS: Final[tuple[Unit, ...]] = ("kv_head", "head")
PARTS: Final = {
    "estimate": ("estimated effect", "the effect's own"),
    "se": ("standard error of the effect over documents", "the effect's own"),
    "lower": ("lower limit of the effect, 95%, not adjusted", "the effect's own"),
    "upper": ("upper limit of the effect, 95%, not adjusted", "the effect's own"),
    "p_holds": ("p-value against the claim's failing", "1"),
    "p_fails": ("p-value against the claim's holding", "1"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effect:
    """An effect of all heads, (layer, unit), and its p-values."""

    estimate: FloatArray
    se: FloatArray
    degrees: FloatArray
    p: PValues


def give_verdicts(tree: xr.DataTree, held_against: Mapping[str, Tolerance] | None = None) -> xr.Dataset:
    """Give a verdict on every claim of every head.

    Args:
        tree: a run with /norms, /similarity and, for the claims on bounds, /envelope and /capture.
        held_against: tolerances by claim; those of `tolerances.toml` by default.

    Returns:
        /verdicts. For each unit u of kv_head and head, over (claim_u, layer, u): answer_u (1 holds, -1 fails, 0 undetermined, -2 no estimate) and
        estimate_u, se_u, lower_u, upper_u, p_holds_u, p_fails_u; the estimate of a claim on bounds is the largest excess over N.
        Over (claim): tolerance, tested (heads with an estimate), no_estimate (heads without), holds, fails, undetermined (counts), true_at_least and
        true_at_most: the share of heads of which the claim is true, by what the false-discovery rate q allows, (1−q)·holds and 1 − (1−q)·fails in
        expectation. Claims whose bounds or fits the run does not hold are left out.
    """
    held = {**tolerances(), **(held_against or {})}
    by_unit: dict[str, list[tuple[Claim, _Effect]]] = {unit: [] for unit in UNITS}
    for claim in CLAIMS:
        effect = _effect(tree, claim, held[claim.key].value)
        if effect is not None:
            by_unit[claim.of].append((claim, effect))
    found = [part for unit, effects in by_unit.items() if effects for part in (_by_head(tree, unit, effects),)]
    given = [claim for effects in by_unit.values() for claim, _ in effects]
    whole = xr.merge([*found, _overall(given, found, held)], combine_attrs="drop")
    whole.attrs = {
        "long_name": "verdicts",
        "false_discovery_rate": FALSE_DISCOVERIES,
        "answers": json.dumps({str(code): word for code, word in ANSWERS.items()}),
        "claims": json.dumps([_told(claim, held[claim.key]) for claim in given], ensure_ascii=False),
    }
    return whole


def _told(claim: Claim, tolerance: Tolerance) -> dict[str, Any]:
    """A claim as a report needs it."""
    return {
        "key": claim.key, "says": claim.says, "of": claim.of, "side": claim.side, "units": claim.units, "tolerance": tolerance.value,
        "source": tolerance.source, "estimate": f"/{claim.group}/{claim.variable}", **({"select": dict(claim.select)} if claim.select else {}),
    }  # fmt: skip


def _effect(tree: xr.DataTree, claim: Claim, tolerance: float) -> _Effect | None:
    """The effect of a claim and its p-values; None where the run does not hold it."""
    if claim.group not in tree.children:
        return None
    data = tree[claim.group].to_dataset()
    if any(name not in data.coords or value not in data[name].values for name, value in claim.select.items()):
        return None
    chosen = data.sel(claim.select)
    if claim.bounds:
        return _excess(tree, chosen, tolerance)
    if any(name not in chosen for name in (claim.variable, f"{claim.variable}_se", claim.presence or claim.variable)):
        return None
    estimate, se = (chosen[f"{claim.variable}{part}"].values.astype(np.float64) for part in ("", "_se"))
    degrees = np.maximum(data["documents"].values.astype(np.float64) - 1, 1)
    p = one_sided(estimate, se, degrees, tolerance, claim.side)
    if claim.presence is not None:
        p = if_present(p, chosen[claim.presence].values.astype(np.float64), np.isfinite(estimate))
    return _Effect(estimate=estimate, se=se, degrees=degrees, p=p)


def _excess(tree: xr.DataTree, bounds: xr.Dataset, tolerance: float) -> _Effect:
    """How far measured curves lie beyond their bounds: each side, statistic and 1 < N < T is a claim of its own, and all must hold.

    A gap is tested by its own spread over documents, for these move curve and bound together. That spread tells nothing of texts unlike all of them, which
    may take Precision from its floor to 1; so an answer must pass `mean_of_equals` at the mean as well, but for *fails* by Recall, whose documents scatter.
    """
    tokens = tree["capture"].to_dataset()["tokens"].values
    n = bounds["n_envelope"].values
    between = (n > 1) & (n < tokens[:, None, None])
    documents = float(bounds.attrs.get("documents", tree["capture"].sizes["document"]))
    parts, errors, chances = [], [], []
    for statistic in STATISTICS:
        measured, se = (bounds[f"{statistic}{part}"].transpose("layer", "head", "n_envelope").values for part in ("", "_se"))
        for side, sign in (("lower", 1.0), ("upper", -1.0)):
            edge, gap = (bounds[f"{statistic}_{side}{part}"].transpose("layer", "head", "n_envelope").values for part in ("", "_gap_se"))
            part = np.where(between, sign * (edge - measured), np.nan)
            tested = one_sided(part, np.where(between, gap, np.nan), max(documents - 1, 1), tolerance, "at_most")
            unseen = mean_of_equals(measured, edge - sign * tolerance, documents, "at_least" if side == "lower" else "at_most")
            alone = (se > 0) & (statistic in SMOOTH)
            fails = np.where(alone, tested.fails, np.maximum(tested.fails, unseen.fails))
            chances.append(PValues(holds=np.maximum(tested.holds, unseen.holds), fails=fails))
            parts.append(part)
            errors.append(np.where(between, gap, np.nan))
    excess, se = np.concatenate(parts, axis=-1), np.concatenate(errors, axis=-1)
    degrees = np.full(excess.shape[:2], max(documents - 1, 1))
    holds, fails = (np.concatenate([getattr(one, name) for one in chances], axis=-1) for name in ("holds", "fails"))
    p = of_all(PValues(holds=holds, fails=fails))
    worst = np.where(np.isfinite(excess), excess, -np.inf).argmax(axis=-1)[..., None]
    estimate, its_se = (np.take_along_axis(values, worst, axis=-1)[..., 0] for values in (excess, se))
    return _Effect(estimate=estimate, se=its_se, degrees=degrees, p=p)


def _by_head(tree: xr.DataTree, unit: str, effects: Sequence[tuple[Claim, _Effect]]) -> xr.Dataset:
    """The answers of one kind of head, with what they rest on."""
    dims = (f"claim_{unit}", "layer", unit)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("answer", *PARTS)}
    for _, effect in effects:
        half = stdtrit(effect.degrees, 0.5 + LEVEL / 2) * effect.se
        columns["answer"].append(answers(effect.p, np.isfinite(effect.estimate)))
        parts = (effect.estimate, effect.se, effect.estimate - half, effect.estimate + half, effect.p.holds, effect.p.fails)
        for name, values in zip(PARTS, parts, strict=True):
            columns[name].append(values)
    words = {"answer": ("1 holds, -1 fails, 0 undetermined, -2 no estimate", "1"), **PARTS}
    found = {
        f"{name}_{unit}": described(dims, np.stack(values), long_name=words[name][0], units=words[name][1], symbol="", equation="")
        for name, values in columns.items()
    }
    capture = tree["capture"].to_dataset()
    coords = {name: capture[name].variable for name in ("layer", unit)}
    keys = np.array([claim.key for claim, _ in effects], dtype=object)
    return xr.Dataset(found, coords=coords | {dims[0]: xr.Variable((dims[0],), keys, {"long_name": "claim"})})


def _overall(given: Sequence[Claim], found: Sequence[xr.Dataset], held: Mapping[str, Tolerance]) -> xr.Dataset:
    """Counts of each answer, and the share of heads of which a claim is true."""
    rows = []
    for claim in given:
        data = next(data for data in found if f"claim_{claim.of}" in data.dims)
        answer = data[f"answer_{claim.of}"].sel({f"claim_{claim.of}": claim.key}).values
        tested = int((answer != NO_ESTIMATE).sum())
        holds, fails = int((answer == HOLDS).sum()), int((answer == FAILS).sum())
        keep = (1 - FALSE_DISCOVERIES) / tested if tested else float("nan")
        rows.append(
            (held[claim.key].value, tested, answer.size - tested, holds, fails, tested - holds - fails, keep * holds, 1 - keep * fails)
        )
    names = {
        "tolerance": "tolerance, units of the effect", "tested": "heads with an estimate", "no_estimate": "heads without one",
        "holds": "heads of which the claim holds",
        "fails": "heads of which it fails", "undetermined": "heads that the documents do not settle",
        "true_at_least": "share of heads of which the claim is true: at least, in expectation",
        "true_at_most": "share of heads of which the claim is true: at most, in expectation",
    }  # fmt: skip
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    keys = xr.Variable(("claim",), np.array([claim.key for claim in given], dtype=object), {"long_name": "claim"})
    return xr.Dataset(
        {
            name: described(("claim",), np.array(list(column)), long_name=words, units="1", symbol="", equation="")
            for (name, words), column in zip(names.items(), columns, strict=True)
        },
        coords={"claim": keys},
    )


def claim_rows(verdicts: xr.Dataset) -> list[dict[str, Any]]:
    """What /verdicts says of each claim, as `give_verdicts` wrote it down: key, says, of, side, units, tolerance, source, estimate, select."""
    return list(json.loads(verdicts.attrs["claims"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """That a claim has an answer in at least a share of the heads."""

    claim: str
    answer: str
    least: float

    def met(self, verdicts: xr.Dataset) -> tuple[bool, str]:
        """Whether it is met, and a line that says so.

        Raises:
            InputError: if the run holds no verdict on the claim.
        """
        if self.claim not in verdicts["claim"].values:
            held = ", ".join(str(key) for key in verdicts["claim"].values)
            raise InputError(f"--require {self.claim}: the run has no verdict on it, expected one of {held}. Name one of those.")
        found, tested = share(verdicts, self.claim, self.answer)
        met = found >= self.least
        word = "as required" if met else "required"
        left = int(verdicts["no_estimate"].sel(claim=self.claim)) if "no_estimate" in verdicts else 0
        of = f"{tested} heads ({left} more without an estimate)" if left else f"{tested} heads"
        return met, f"{self.claim} {self.answer} in {found:.1%} of {of}, {word} at least {self.least:.1%}"


def share(verdicts: xr.Dataset, claim: str, answer: str) -> tuple[float, int]:
    """Return the share of heads with an answer, and how many heads were tested; 0 of none."""
    chosen = verdicts.sel(claim=claim)
    tested = int(chosen["tested"])
    return (float(chosen[answer]) / tested if tested else 0.0), tested


def requirement(text: str) -> Requirement:
    """Read what `--require` is given, such as "norms.cv holds 0.9".

    Raises:
        InputError: for anything else.
    """
    match = re.fullmatch(r"\s*(\S+)\s+(holds|fails|undetermined)\s+(\d*\.?\d+)\s*", text)
    keys = [claim.key for claim in CLAIMS]
    if match is None or not float(match[3]) <= 1:
        raise InputError(
            f'--require {text}: expected a claim, holds, fails or undetermined, and a share of heads, as in "norms.cv holds 0.9".'
        )
    if match[1] not in keys:
        raise InputError(f"--require {text}: {match[1]} is no claim, expected one of {', '.join(keys)}. Name one of those.")
    return Requirement(claim=match[1], answer=match[2], least=float(match[3]))


def hold_to(tree: xr.DataTree, required: Sequence[Requirement]) -> list[str]:
    """Return a line for each requirement.

    Args:
        tree: a run with /verdicts.
        required: what its verdicts are held to.

    Raises:
        Unmet: naming those that are not met.
        InputError: if the run has no verdicts, or none on a claim.
    """
    if "verdicts" not in tree.children:
        raise InputError("the run has no verdicts yet, expected /verdicts. Run `geostat confront` on it first.")
    found = [one.met(tree["verdicts"].to_dataset()) for one in required]
    unmet = [line for met, line in found if not met]
    if unmet:
        raise Unmet("; ".join(unmet) + ".")
    return [line for _, line in found]
