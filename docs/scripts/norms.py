"""Norms of a run: the effect of averaging over documents on the CV, and compressed tokens."""

import sys

import numpy as np

import geostat as gs
from geostat.datasets.variable import reasons

KINDS = ("cv_token", "cv_profile", "cv_position", "cv_position_upper")


def main(run: str) -> None:
    """Print medians over KV heads, compressed tokens, and flags."""
    norms = gs.open(run)["norms"].to_dataset()
    for kind in KINDS:
        print(f"median {kind}: {float(norms[kind].median()):.4f}")
    significant = int((norms["share_position_lower"] > 0).sum())
    print(f"KV heads with a significant effect of position: {significant} of {norms['C'].size}")
    shown = norms["compressed_token_heads"].values > 0
    ids, heads = norms["compressed_token_id"].values[shown], norms["compressed_token_heads"].values
    print("compressed tokens, and in how many KV heads:")
    for token, count in list(zip(ids, heads[shown], strict=True))[:4]:
        print(f"  {token}: {count}")
    shares = norms["compressed_share"].mean("kv_head").values
    print("share of compressed tokens by layer:", *np.round(shares, 3))
    print(f"secondary sinks: {int(norms['secondary_sinks'].sum())}")
    layer, head = np.argwhere(norms["flags"].values)[0] if norms["flags"].any() else (0, 0)
    flags = norms["flags"].isel(layer=layer, kv_head=head)
    print(f"flags of L{int(flags.layer)}V{int(flags.kv_head)}: {reasons(flags)}")


if __name__ == "__main__":
    main(sys.argv[1])
