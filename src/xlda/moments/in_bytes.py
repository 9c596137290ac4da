"""Moments as bytes, and back: for whatever sends them elsewhere."""

from __future__ import annotations

from xlda import storage
from xlda._internal.safetensors_file import InMemory
from xlda._internal.section import Section
from xlda.moments import kept_stored, sketches_stored, stored
from xlda.moments.moments import Moments

KNOWN = {
    "kind": 1,
    stored.NAME: stored.VERSION,
    kept_stored.NAME: kept_stored.VERSION,
    sketches_stored.NAME: sketches_stored.VERSION,
}


def moments_to_bytes(moments: Moments) -> bytes:
    """Everything that moments are, safetensors with a checksum: O(C d + d^2).

    >>> moments = Moments(n_features=2)
    >>> moments.update([[0.0, 0.0], [2.0, 0.0], [5.0, 5.0]], rows=[0, 0, 1])
    >>> (moments_from_bytes(moments_to_bytes(moments)) + moments).counts
    array([4., 2.])
    """
    rule = next(rule for rule, kind in stored.OF_RULE.items() if type(moments) is kind)
    kind = Section("kind", 1, info={"rule": rule, "check_samples": moments.kept.most})
    kept = [kept_stored.kept_to_section(moments)] if moments.kept.most else []
    sketches = [] if moments.sketches is None else [sketches_stored.sketches_to_section(moments)]
    return storage.to_bytes([kind, stored.moments_to_section(moments), *kept, *sketches])


def moments_from_bytes(data: InMemory) -> Moments:
    """The moments that `moments_to_bytes` was given; what cannot be some is a `DamagedFileError`."""
    sections = storage.from_bytes(data, KNOWN)
    with storage.said_of(storage.IN_MEMORY):
        if not {"kind", stored.NAME} <= set(sections):
            raise ValueError("it has no moments")
        kind = sections["kind"]
        kind.check_tensors()
        rule = kind.info.get("rule")
        if not isinstance(rule, str) or rule not in stored.OF_RULE:
            raise ValueError("its rule is none that can be")
        moments = stored.moments_from_section(sections[stored.NAME], rule)
        if kept_stored.NAME in sections:
            most = kind.whole_number("check_samples")
            moments.kept = kept_stored.kept_from_section(sections[kept_stored.NAME], moments, most)
        if sketches_stored.NAME in sections:
            section = sections[sketches_stored.NAME]
            moments.sketches = sketches_stored.sketches_from_section(section, moments)
        return moments
