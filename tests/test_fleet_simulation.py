"""Twenty boxes, and a network that loses, doubles and reorders what they send: all end with equal models."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fleet_oracle import check_model, classes_by_loop, moments_by_loop
from xlda import XLDA
from xlda.errors import OtherVersionError, RefusedContributionError, UnknownClassError
from xlda.fleet import Box, FleetHub, Message, Space, Version, start_of

WIDTH, N_BOXES, N_LABELS = 3, 20, 6
ACTS = (
    "learn",
    "learn",
    "learn",
    "forget",
    "rename",
    "merge",
    "unmerge",
    "remove",
    "sync",
    "sync",
    "save",
    "kill",
)


class LostError(Exception):
    """A message that did not arrive, or its answer."""


class Network:
    """A hub behind a network that may lose, double and reorder; messages go as files."""

    def __init__(self, hub: FleetHub, folder: Path, chance: random.Random) -> None:
        self.hub, self._folder, self._chance = hub, folder, chance
        self.is_bad, self._sent, self._answers = True, [], {}

    def put(self, message: Message) -> Version:
        path = self._folder / f"{len(self._sent)}"
        message.write(path)
        self._sent.append(path)
        if not self.is_bad:
            return self.hub.put(Message.read(path))
        for old in self._chance.sample(self._sent, min(2, len(self._sent))):
            self._deliver(old)
        if self._chance.random() < 0.2:
            raise LostError
        version = self.hub.put(Message.read(path))
        if self._chance.random() < 0.2:
            raise LostError
        return version

    def _deliver(self, path: Path) -> None:
        with suppress(OtherVersionError, RefusedContributionError):
            self.hub.put(Message.read(path))

    def version(self, box: str) -> Version | None:
        return self.hub.version(box)

    def answer(self, asker: str, since: Any) -> Message | None:
        found = self.hub.answer(asker, since)
        old = self._answers.setdefault(asker, [])
        if found is not None:
            path = self._folder / f"{asker}-{len(old)}"
            found.write(path)
            old.append(path)
        if self.is_bad and old and self._chance.random() < 0.3:
            return Message.read(self._chance.choice(old))
        if self.is_bad and self._chance.random() < 0.2:
            raise LostError
        return None if found is None else Message.read(old[-1])


class Shop:
    """A box, and what it truly has: samples by class id, those since it was last saved apart."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder, self.box = folder / name, Box(name, Space(WIDTH))
        self.has: list[tuple[str, Any]] = []
        self.save()

    def learn(self, embeddings: Any, labels: list[str]) -> None:
        self.has += zip(self.box.learn(embeddings, labels), embeddings, strict=True)

    def forget(self, number: int) -> None:
        if self.has:
            class_id, embedding = self.has.pop(number % len(self.has))
            self.box.forget(embedding[None], [class_id])

    def save(self) -> None:
        self.box.save(self.folder)
        self._saved = list(self.has)

    def kill(self) -> None:
        self.box, self.has = Box.load(self.folder, self.box.name), list(self._saved)

    def say(self, act: str, chance: random.Random) -> None:
        labels = sorted({one.label for one in self.box.classes().values() if one is not None})
        try:
            if act == "rename":
                self.box.rename(chance.choice(labels), f"l{chance.randrange(3 * N_LABELS)}")
            elif act == "remove":
                self.box.remove(chance.choice(labels))
            elif act == "merge":
                self.box.merge(*chance.sample(labels, 2))
            else:
                self.box.unmerge(chance.choice(sorted(self.box.classes())))
        except (ValueError, IndexError, UnknownClassError):
            pass  # there is no such class, or the label is taken


def acted(shop: Shop, act: str, network: Network, chance: random.Random) -> None:
    if act == "learn":
        n = chance.randrange(1, 6)
        embeddings = np.random.default_rng(chance.randrange(2**32)).normal(size=(n, WIDTH)).astype(np.float32)
        shop.learn(embeddings, [f"l{chance.randrange(N_LABELS)}" for _ in range(n)])
    elif act == "forget":
        shop.forget(chance.randrange(10**6))
    elif act == "sync":
        with suppress(LostError):
            shop.box.sync(network)
    elif act == "save":
        shop.save()
    elif act == "kill":
        shop.kill()
    else:
        shop.say(act, chance)


def check_all(shops: list[Shop], start: list[tuple[str, Any]], start_names: dict[str, str]) -> None:
    """All have what one has who saw everything."""
    said = [one for shop in shops for one in shop.box.own.registers]
    names = dict(start_names)
    for shop in shops:
        for class_id, label in shop.box.own.taught.names.items():
            names[class_id] = min(names.get(class_id, label), label)
    wanted = moments_by_loop(
        [*start, *(one for shop in shops for one in shop.has)], classes_by_loop(names, said)
    )
    for shop in shops:
        check_model(shop.box.model(), wanted)


@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking twenty boxes takes minutes
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, N_BOXES - 1)), min_size=60, max_size=160),
    st.integers(0, 2**32 - 1),
)
def test_all_boxes_end_with_the_model_of_one_who_saw_everything(acts: Any, seed: int) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "network").mkdir()
        hub = FleetHub(folder / "hub")
        network = Network(hub, folder / "network", chance)
        rng = np.random.default_rng(seed)
        embeddings, labels = rng.normal(size=(8, WIDTH)).astype(np.float32), ["l0", "l1"] * 4
        began = start_of(XLDA(power=None).partial_fit(embeddings, labels), "d1")
        for _ in range(2):  # by two boxes: it counts once
            hub.put(began.whole())
        id_of = {label: class_id for class_id, label in began.taught.names.items()}
        start = [(id_of[label], one) for label, one in zip(labels, embeddings, strict=True)]
        shops = [Shop(f"box{number}", folder) for number in range(N_BOXES)]
        for act, number in acts:
            acted(shops[number], act, network, chance)
        network.is_bad = False
        for _ in range(2):
            for shop in shops:
                shop.box.sync(network)
        check_all(shops, start, began.taught.names)

        gone = shops.pop(chance.randrange(N_BOXES))
        if gone.box.name in hub.versions():
            hub.forget(gone.box.name)
        for shop in shops:
            shop.box.sync(network)
        check_all(shops, start, began.taught.names)
