"""Commands that a service does, which --server names: photos go there as they are, and some at a time."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from xlda.cli.choice import Choice
from xlda.cli.console import counted, note, progress_bar
from xlda.cli.labels import for_learning, meant, tell_of_meant
from xlda.cli.samples import are_embeddings, chosen_photos, without_label
from xlda.errors import BadSampleError

if TYPE_CHECKING:
    from xlda.client import AsyncClient, Client, ModelInfo, Taught
    from xlda.photos.embedding import OnError
    from xlda.photos.finding import Photo

T = TypeVar("T")
AT_ONCE = 4  # photos on their way
PAGE = 200  # classes asked for at once
TOKEN = "XLDA_TOKEN"  # the variable that has it, and not an option: others can see those

_KEY = re.compile(r"[!-~]{1,150}")  # there are 65 characters more of each photo


class RemoteService(NamedTuple):
    """Where it is, and a file with the token for it, if it is not in the environment."""

    url: str
    token_from: Path | None = None

    def token(self) -> str | None:
        """What to show there."""
        if self.token_from is not None:
            return self.token_from.read_text("utf-8").strip()
        return os.environ.get(TOKEN, "").strip() or None

    def client(self) -> Client:
        """To ask one thing after the other."""
        from xlda.client import Client

        return Client(self.url, self.token())

    def async_client(self) -> AsyncClient:
        """To ask several at once."""
        from xlda.client import AsyncClient

        return AsyncClient(self.url, self.token())


def places(
    model: Path | None,
    where: list[str] | None,
    server: str | None,
    token_from: Path | None,
    backbone: str | None,
) -> tuple[Path, list[str]]:
    """The model, and all else that is named; with --server all that is named are photos."""
    named = [*([] if model is None else [str(model)]), *(where or [])]
    if server is None:
        if model is None or not where:
            raise typer.BadParameter("Name a model file, and then photos; or photos alone, and --server.")
        if token_from is not None:
            raise typer.BadParameter("--token-from is for --server, which is not given.")
        return model, where
    if not named:
        raise typer.BadParameter("Name some photos.")
    if backbone is not None:
        raise typer.BadParameter("--backbone is not for --server: the service has its own.")
    if are_embeddings(named):
        raise typer.BadParameter("--server takes photos; embeddings go there with `xlda.client`.")
    return Path(), named


def predicted(
    service: RemoteService, where: list[str], k: int, unknown: float | None, on_error: OnError
) -> list[dict[str, Any]]:
    """What the service says of each photo, as `xlda predict` has it."""
    photos = chosen_photos(where, on_error, None)

    async def predict(client: AsyncClient, photo: Photo) -> dict[str, Any]:
        answer = await client.predict(photo.path.read_bytes(), k, unknown)
        best = [guess._asdict() for guess in answer.top]
        name = str(photo.path)
        return {"name": name, "label": answer.label, "known": answer.p_known, "best": best, "id": answer.id}

    found = _each(service, photos, predict, "predicting", on_error)
    return [found[place] for place in sorted(found)]


def learned(
    service: RemoteService, where: list[str], choice: Choice, key: str | None, on_error: OnError
) -> dict[str, Any]:
    """Teach the service each photo, and give what `xlda learn` says of that.

    What has a later number than the service had before was learned now; what has not, with this key before.
    """
    if key is not None and not _KEY.fullmatch(key):
        raise typer.BadParameter("--key has 1 to 150 visible ASCII characters where it is for a service.")
    photos = _labelled(chosen_photos(where, on_error, choice), choice)
    choice.check()  # before anything is learned for good
    before = _model(service).seq
    found: dict[int, Taught] = {}

    async def teach(client: AsyncClient, photo: Photo) -> Taught:
        content, label = photo.path.read_bytes(), str(photo.label)
        return await client.teach(content, label, key=None if key is None else _key(key, content, label))

    try:
        _each(service, photos, teach, "learning", on_error, found)
    except BaseException:
        _tell_of_part(sum(one.seq > before for one in found.values()), key)
        raise
    tell_of_meant(choice.resolver)
    for place, one in sorted(found.items()):
        for warning in one.warnings:
            note(f"{photos[place].path}: {warning}")
    new = [one for _, one in sorted(found.items()) if one.seq > before]
    if 0 < len(new) < len(found):
        note(f"learned already, with the key {key}: {counted(len(found) - len(new), 'photo')}")
    model = _model(service)
    return {
        "model": service.url,
        "learned": len(new),
        "learned_already": not new,
        "taken_for_known": meant(choice.resolver),
        "new_classes": list(dict.fromkeys(one.label for one in new if one.new_class)),
        "classes": model.classes,
        "samples": model.samples,
    }


def choice_of(
    service: RemoteService,
    only: list[str] | None,
    without: list[str] | None,
    label: str | None,
    new_class: bool,
) -> Choice:
    """Which photos are taken; what their labels mean among the classes of the service."""
    with service.client() as client:
        known = [one.label for one in client.classes(limit=PAGE)]
    return Choice(only, without, label, for_learning(known, new_class))


def _model(service: RemoteService) -> ModelInfo:
    with service.client() as client:
        return client.model()


def _labelled(photos: list[Photo], choice: Choice) -> list[Photo]:
    for photo in photos:
        if photo.label is None:
            raise without_label(photo.path)
    labels = choice.labels([photo.label for photo in photos])
    return [photo._replace(label=label) for photo, label in zip(photos, labels, strict=True)]


def _key(key: str, content: bytes, label: str) -> str:
    """That of one photo: the same for the same photo with the same label, wherever it lies."""
    return f"{key}-{hashlib.sha256(hashlib.sha256(content).digest() + label.encode()).hexdigest()}"


def _tell_of_part(n: int, key: str | None) -> None:
    if n:
        cure = "Run it again with the same key" if key is not None else "With --key it could be run again"
        note(f"{counted(n, 'photo')} had been learned by then, perhaps {AT_ONCE - 1} more, and stay so.")
        note(f"{cure}: none is learned twice.")


def _each(
    service: RemoteService,
    photos: list[Photo],
    do: Callable[[AsyncClient, Photo], Awaitable[T]],
    what: str,
    on_error: OnError,
    found: dict[int, T] | None = None,
) -> dict[int, T]:
    """What becomes of each photo, by its place; those that are refused are left out, or an error."""
    import asyncio  # which takes long, and who has a model file does not need it

    found = {} if found is None else found

    async def work(client: AsyncClient, todo: Iterable[tuple[int, Photo]]) -> None:
        for place, photo in todo:  # the same for all workers: each takes the next
            try:
                found[place] = await do(client, photo)
            except (BadSampleError, FileNotFoundError, IsADirectoryError, PermissionError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                if on_error != "skip":
                    raise BadSampleError(f"{photo.path}: {reason}") from error
                note(f"skipped: {photo.path}: {reason}")
            advance(1)

    async def all_of_them() -> None:
        todo = iter(enumerate(photos))
        async with service.async_client() as client, asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work(client, todo))

    with progress_bar(what, len(photos)) as advance:
        try:
            asyncio.run(all_of_them())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
    if not found:
        raise BadSampleError("There is no sample left: all of them were skipped or left out.")
    return found
