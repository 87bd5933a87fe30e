"""Instructions that are known and have no semantics here, each with the reason that its refusal gives."""

from __future__ import annotations

from ptx_engine.isa.registry import refuse

_VIDEO = "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset"
_VIDEO += " vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4"
_TEXTURE = "tex tld4 txq istypep suld sust sured suq"
_HOPPER = "wgmma tensormap mapa getctarank multimem clusterlaunchcontrol"
_REASONS: dict[str, str] = {
    **dict.fromkeys(_VIDEO.split(), "video instructions are not modelled"),
    **dict.fromkeys(_TEXTURE.split(), "texture and surface memory is not modelled"),
    **dict.fromkeys(_HOPPER.split(), "asynchronous instructions of sm_90 and later are not modelled yet"),
    "tcgen05": "tensor memory of sm_100 and later is not modelled yet",
    "cp.bulk": "bulk copies of sm_90 and later are not modelled yet",
    "alloca": "stack allocation of a size known at run time is not modelled",
    "stacksave": "stack allocation of a size known at run time is not modelled",
    "stackrestore": "stack allocation of a size known at run time is not modelled",
    "pmevent": "performance monitor events are not modelled",
    "discard": "it gives memory undefined contents",
    "st.async": "asynchronous stores of sm_90 and later are not modelled yet",
    "red.async": "asynchronous reductions of sm_90 and later are not modelled yet",
    "fence.proxy": "proxies of sm_90 and later are not modelled yet",
    **{f"{op}.shared::cluster": "shared memory of a cluster's CTAs is not modelled" for op in ("ld", "st", "atom", "red", "cvta", "cp")},
    "barrier.cluster": "barriers of a cluster's CTAs are not modelled",
    "fence.acquire": "one-way fences are not modelled",
    "fence.release": "one-way fences are not modelled",
    "fence.mbarrier_init": "mbarriers of sm_90 and later are not modelled yet",
    "membar.proxy": "proxies are not modelled yet",
    "vote.none": "votes without .sync were removed with sm_70",
}  # fmt: skip

for _name, _why in _REASONS.items():
    refuse(_name, _why)
