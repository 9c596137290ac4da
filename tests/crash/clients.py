"""Clients that change what a service knows, several at a time, until it is gone."""

from __future__ import annotations

import random
import threading

import httpx

from crash.ledger import Wish

N_CLIENTS = 4
WEIGHTS = {
    "learn": 70, "create": 4, "rename": 6, "merge": 4, "relabel": 6, "forget": 4, "remove": 1, "undo": 7
}  # fmt: skip
MOST_OF_A_BATCH = 8
LABELS = [f"class {number}" for number in range(40)]
AFTER_LOSS = 0.5  # seconds, after which a client whose connection was lost tries again
OF_LATE = 30  # events that are undone, mostly


class Clients:
    """Threads that wish, send and note; `errors` are answers that no client should get."""

    def __init__(self, ledger, seed, weights=None, n_clients=N_CLIENTS, pause=0.0):
        self.ledger, self.errors = ledger, []
        self.weights = weights or WEIGHTS
        self._seed, self._n_clients, self._pause = seed, n_clients, pause
        self._n_wishes = 0
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._threads = []

    # -- one change

    def send(self, client, wish, is_again=False):
        """Send a change and note its answer; None where there was none."""
        if not is_again:
            self.ledger.intend(wish)
            self.ledger.send(wish.key)
        content, kind = wish.content()
        headers = {"Idempotency-Key": wish.key, "Content-Type": kind}
        answer = client.request(wish.method, wish.path, content=content, headers=headers)
        if answer.is_success:
            self.ledger.acknowledge(wish.key, answer.status_code, answer.json())
        elif answer.status_code in (404, 409, 412, 422, 507):
            self.ledger.refuse(wish.key, answer.status_code)
        elif answer.status_code != 503:
            self.errors.append(f"{wish.operation} {wish.path}: {answer.status_code} {answer.text[:300]}")
        return answer

    def send_again(self, url, known):
        """Send what was never answered again, and some that was; gives what was answered wrongly.

        `known` are the requests that the log has: these must be answered from it.
        """
        wrong = []
        dice = random.Random(self._seed)
        answered = list(self.ledger.acknowledged)[-200:]
        again = self.ledger.unknown() + dice.sample(answered, min(3, len(answered)))
        with httpx.Client(base_url=url, timeout=30) as client:
            for key in again:
                before = self.ledger.acknowledged.get(key)
                answer = self.send(client, self.ledger.wishes[key], is_again=True)
                is_replayed = answer.headers.get("Idempotency-Replayed") == "true"
                if (key in known) != is_replayed:
                    wrong.append(f"{key} was sent again, and answered as if that were not so: {answer.text}")
                if before is not None and before != (answer.status_code, answer.json()):
                    wrong.append(f"{key} was answered with {before}, and with {answer.text} when sent again")
                if key in known and answer.is_success and answer.json()["seq"] != known[key][0]:
                    wrong.append(f"{key} is event {known[key][0]}, and is said to be {answer.json()['seq']}")
        return wrong

    # -- many

    def start(self, url):
        self._ended.clear()
        self._threads = [
            threading.Thread(target=self._run, args=(url, number), daemon=True)
            for number in range(self._n_clients)
        ]
        for thread in self._threads:
            thread.start()

    def join(self):
        """The service is gone, or these should end."""
        self._ended.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, url, number):
        with self._turn:
            self._n_wishes += 1
            dice = random.Random(f"{self._seed} {number} {self._n_wishes}")
        with httpx.Client(base_url=url, timeout=30) as client:
            while not self._ended.wait(self._pause * dice.random()):
                try:
                    wish = self._wish(client, dice)
                    if wish is not None:
                        self.send(client, wish)
                except httpx.TransportError:  # not acknowledged: the service is gone, or was suspended
                    self._ended.wait(AFTER_LOSS)
                except Exception as error:
                    self.errors.append(repr(error))
                    return

    def _key(self, dice):
        with self._turn:
            self._n_wishes += 1
            return f"{self._n_wishes}-{dice.getrandbits(64):016x}"

    def _wish(self, client, dice):
        """The next change; None where there is nothing yet that could be changed so."""
        operation = dice.choices(list(self.weights), list(self.weights.values()))[0]
        key = self._key(dice)
        if operation == "learn":
            labels = dice.choices(LABELS, k=dice.randint(1, MOST_OF_A_BATCH))
            return Wish(key, operation, "POST", "/v1/samples:batch", labels=labels, seed=dice.getrandbits(63))
        if operation == "create":
            return Wish(key, operation, "POST", "/v1/classes", {"label": f"class {dice.randrange(10**6)}"})
        if operation == "undo":
            return self._undo(key, dice)
        classes = client.get("/v1/classes", params={"q": f"class {dice.randrange(10)}"}).json()["classes"]
        if len(classes) < 2:
            return None
        one, other = dice.sample(classes, 2)
        path = f"/v1/classes/{one['id']}"
        if operation == "rename":
            return Wish(key, operation, "PATCH", path, {"label": dice.choice([*LABELS, f"new {key}"])})
        if operation == "merge":
            return Wish(key, operation, "POST", f"{path}:merge", {"other": other["id"]})
        if operation == "remove":
            return Wish(key, operation, "DELETE", path)
        return self._of_samples(client, dice, key, operation, path)

    def _undo(self, key, dice):
        seqs = [answer["seq"] for _, answer in list(self.ledger.acknowledged.values())[-OF_LATE:]]
        if not seqs:
            return None
        seq = dice.randint(1, max(seqs)) if dice.random() < 0.1 else dice.choice(seqs)
        return Wish(key, "undo", "POST", f"/v1/events/{seq}:undo")

    def _of_samples(self, client, dice, key, operation, path):
        found = client.get(path)
        ids = [sample["id"] for sample in found.json()["samples"]] if found.is_success else []
        if not ids:
            return None
        if operation == "forget":
            return Wish(key, operation, "DELETE", f"/v1/samples/{dice.choice(ids)}")
        some = dice.sample(ids, min(len(ids), dice.randint(1, 3)))
        body = {"ids": some, "label": dice.choice(LABELS)}
        return Wish(key, operation, "POST", "/v1/samples:relabel", body)
