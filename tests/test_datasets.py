from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from conftest import DATA
from xlda import datasets
from xlda.datasets import LayoutError, Split
from xlda.photos import Photo


def write(files):
    for name, content in files.items():
        path = Path("set", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def remove(name):
    Path("set", name).unlink()


def load(name):
    return datasets.load(name, "set")


def listed(split):
    return [(photo.path.relative_to("set").as_posix(), photo.label) for photo in split]


class TestSplit:
    def test_it_is_a_sequence_of_photos(self):
        split = Split(Path("x"), ["a.jpg", "b/c.jpg", "d.jpg"], ["1", "2", "3"])
        assert list(split) == [split[0], split[1], split[2]]
        assert split[-1] == Photo(Path("x/d.jpg"), "3")
        assert list(split[1:]) == [Photo(Path("x/b/c.jpg"), "2"), Photo(Path("x/d.jpg"), "3")]
        assert repr(split) == "<Split of 3 photos in x>"
        with pytest.raises(ValueError, match="2 files beside 1 labels"):
            Split(Path(), ["a", "b"], ["1"])

    def test_missing_photos_are_found_when_asked_for(self):
        write({"a.jpg": ""})
        assert list(Split(Path("set"), ["a.jpg", "b.jpg"], ["1", "1"]).missing()) == [Path("set/b.jpg")]


class TestLoad:
    def test_unknown_names_and_folders(self):
        with pytest.raises(ValueError, match="No data set 'cifar'; there are aliproducts, birds"):
            datasets.load("cifar", ".")
        with pytest.raises(LayoutError, match="No folder nowhere"):
            datasets.load("birds", "nowhere")

    @pytest.mark.parametrize(
        ("name", "file", "archive"),
        [
            ("birds", "images.txt", "CUB_200_2011.tgz"),
            ("imagenet", "train", "ILSVRC2012_img_train.tar"),
            ("inaturalist", r"train\[year\]\.json", "visipedia/inat_comp"),
            ("inaturalist-mini", r"train_mini\.json", "visipedia/inat_comp"),
            ("aliproducts", "train.json", "train_val.part"),
            ("landmarks", "train_clean.csv", "cvdfoundation/google-landmark"),
            ("grocery", "classes.csv", "marcusklasson/GroceryStoreDataset"),
        ],
    )
    def test_an_empty_folder_says_what_is_missing_and_where_it_comes_from(self, name, file, archive):
        Path("set").mkdir()
        with pytest.raises(LayoutError, match=f"{file}.*{archive}"):
            load(name)


BIRDS = {
    "images.txt": (
        "7 002.Laysan_Albatross/b c.jpg\n2 001.Black_footed_Albatross/a.jpg\n"
        "30 001.Black_footed_Albatross/d.jpg\n"
    ),
    "image_class_labels.txt": "2 1\n30 1\n7 2\n",
    "train_test_split.txt": "30 0\n2 1\n7 1\n",
    "classes.txt": "2 002.Laysan_Albatross\n1 001.Black_footed_Albatross\n",
    "images/README": "",
}


class TestBirds:
    @pytest.mark.parametrize("inner", ["", "CUB_200_2011/"])
    def test_lists_are_joined_by_id_whatever_their_order(self, inner):
        write({inner + name: text for name, text in BIRDS.items()})
        found = load("birds")
        assert listed(found.train) == [
            (f"{inner}images/002.Laysan_Albatross/b c.jpg", "Laysan Albatross"),
            (f"{inner}images/001.Black_footed_Albatross/a.jpg", "Black footed Albatross"),
        ]
        assert listed(found.test) == [
            (f"{inner}images/001.Black_footed_Albatross/d.jpg", "Black footed Albatross")
        ]
        assert found.names["Laysan Albatross"] == "Laysan Albatross"
        assert len(found.names) == 2

    def test_names_that_are_not_unique_give_ids(self):
        write({**BIRDS, "classes.txt": "1 001.Crow\n2 002.Crow\n"})
        assert load("birds").train.labels == ["2", "1"]

    @pytest.mark.parametrize(
        ("file", "text", "message"),
        [
            ("image_class_labels.txt", "2 1\n30\n7 2\n", r"_labels\.txt, line 2: '30'; expected `image_id"),
            ("image_class_labels.txt", "2 1\n7 2\n", r"images\.txt has 3 images, .*labels\.txt has 2; 30"),
            ("train_test_split.txt", "30 0\n2 1\n2 0\n7 1\n", r"_split\.txt, line 3: 2 was there before"),
            ("train_test_split.txt", "30 0\n2 1\n7 x\n", "says 'x'; expected 1 or 0"),
            ("classes.txt", "1 001.Crow\n", r"classes\.txt has no class 2"),
        ],
    )  # fmt: skip
    def test_faults(self, file, text, message):
        write({**BIRDS, file: text})
        with pytest.raises(LayoutError, match=message):
            load("birds")

    @pytest.mark.parametrize("file", sorted(BIRDS))
    def test_missing_files(self, file):
        write({name: text for name, text in BIRDS.items() if name != file})
        with pytest.raises(LayoutError, match=f"No {file.partition('/')[0]}"):
            load("birds")


CRANE, BOX = "n02012849", "n03126707"


class TestImageNet:
    def train(self, under=""):
        write({f"{under}train/{BOX}/{BOX}_10.JPEG": "", f"{under}train/{CRANE}/{CRANE}_9.JPEG": ""})
        write({f"{under}train/{CRANE}/{CRANE}_10.JPEG": "", f"{under}train/{CRANE}/notes.txt": ""})
        return [
            (f"{under}train/{CRANE}/{CRANE}_10.JPEG", CRANE),
            (f"{under}train/{CRANE}/{CRANE}_9.JPEG", CRANE),
            (f"{under}train/{BOX}/{BOX}_10.JPEG", BOX),
        ]

    def devkit(self, numbers, folder="ILSVRC2012_devkit_t12/data"):
        from scipy.io import savemat

        rows = [(134, BOX, "crane", 0), (7, CRANE, "crane, the bird", 0), (1001, "n00001740", "entity", 2)]
        kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
        write({f"{folder}/ILSVRC2012_validation_ground_truth.txt": numbers})
        savemat(f"set/{folder}/meta.mat", {"synsets": np.array(rows, kinds)[:, None]})

    def test_val_in_folders(self):
        train = self.train()
        write({f"val/{BOX}/ILSVRC2012_val_00000003.JPEG": ""})
        found = load("imagenet")
        assert listed(found.train) == train
        assert listed(found.test) == [(f"val/{BOX}/ILSVRC2012_val_00000003.JPEG", BOX)]
        assert found.names == {CRANE: CRANE, BOX: BOX}

    @pytest.mark.parametrize("folder", ["ILSVRC2012_devkit_t12/data", "data", "."])
    def test_val_flat_with_the_development_kit(self, folder):
        self.train()
        write({f"val/ILSVRC2012_val_{number:08}.JPEG": "" for number in (3, 1, 2)})
        self.devkit("7\n134\n7\n", folder)
        found = load("imagenet")
        assert listed(found.test) == [
            ("val/ILSVRC2012_val_00000001.JPEG", CRANE),
            ("val/ILSVRC2012_val_00000002.JPEG", BOX),
            ("val/ILSVRC2012_val_00000003.JPEG", CRANE),
        ]
        assert found.names == {CRANE: "crane, the bird", BOX: "crane"}

    def test_kaggle(self):
        base = "ILSVRC/Data/CLS-LOC/"
        train = self.train(base)
        write({f"{base}val/ILSVRC2012_val_{number:08}.JPEG": "" for number in (1, 2)})
        solution = f"ImageId,PredictionString\nILSVRC2012_val_00000002,{BOX} 1 2 3 4 {BOX} 5 6 7 8 \n"
        write({"LOC_val_solution.csv": f"{solution}ILSVRC2012_val_00000001,{CRANE} 1 2 3 4 \n"})
        write({"LOC_synset_mapping.txt": f"{CRANE} crane\n{BOX} crane, derrick\n"})
        found = load("imagenet")
        assert listed(found.train) == train
        assert found.test.labels == [CRANE, BOX]
        assert found.names == {CRANE: "crane", BOX: "crane, derrick"}

    def test_faults(self):
        self.train()
        with pytest.raises(LayoutError, match=r"No val in set.*ILSVRC2012_img_val\.tar"):
            load("imagenet")
        write({f"val/ILSVRC2012_val_{number:08}.JPEG": "" for number in (1, 2)})
        with pytest.raises(
            LayoutError, match=r"ground_truth\.txt.*ILSVRC2012_devkit_t12\.tar\.gz; .*LOC_val"
        ):
            load("imagenet")
        self.devkit("7\n7\n7\n")
        with pytest.raises(LayoutError, match=r"val has 2 photos, .* has 3; ILSVRC2012_val_00000003"):
            load("imagenet")
        self.devkit("7\n8\n")
        with pytest.raises(LayoutError, match=r"ground_truth\.txt, line 2: '8'; expected `a class number"):
            load("imagenet")

    def test_classes_still_in_tar_files(self):
        write({f"train/{CRANE}.tar": "", "val/x": ""})
        with pytest.raises(LayoutError, match=r"No photos in set/train; .*unpack each"):
            load("imagenet")


def inaturalist(images, categories, **more):
    return {
        "info": {"year": 2018},
        "images": [{"id": i, "file_name": file, "width": 8, "license": 0} for i, file, _ in images],
        "annotations": [{"id": 1, "image_id": i, "category_id": c} for i, _, c in reversed(images)],
        "categories": [{"id": i, "name": name, "supercategory": "Aves"} for i, name in categories],
        "licenses": [{"id": 0, "name": "CC", "url": ""}],
        **more,
    }  # fmt: skip


SPECIES = [(5, "Corvus corax"), (2, "Larus, a gull"), (9, "Pica pica")]
TRAIN = inaturalist([(40, "train_val2018/Aves/5/x.jpg", 5), (3, "train_val2018/Aves/2/y z.jpg", 2)], SPECIES)
VAL = inaturalist([(8, "train_val2018/Aves/9/v.jpg", 9)], SPECIES)


class TestINaturalist:
    @pytest.mark.parametrize("year", ["", "2017", "2018"])
    def test_photos_are_joined_with_their_species_by_id(self, year):
        write({f"train{year}.json": TRAIN, f"val{year}.json": VAL, "train_2017_bboxes.json": {}})
        found = load("inaturalist")
        assert listed(found.train) == [
            ("train_val2018/Aves/5/x.jpg", "Corvus corax"),
            ("train_val2018/Aves/2/y z.jpg", "Larus, a gull"),
        ]
        assert listed(found.test) == [("train_val2018/Aves/9/v.jpg", "Pica pica")]
        assert list(found.names) == ["Corvus corax", "Larus, a gull", "Pica pica"]

    def test_the_mini_training_set_has_a_name_of_its_own(self):
        write({"train.json": TRAIN, "train_mini.json": VAL, "val.json": VAL})
        assert len(load("inaturalist").train) == 2
        assert len(load("inaturalist-mini").train) == 1

    def test_two_years_in_one_folder_are_refused(self):
        write({"train2017.json": TRAIN, "train2018.json": TRAIN, "val2018.json": VAL})
        with pytest.raises(
            LayoutError, match=r"Expected one train\[year\]\.json .* there is train2017\.json, train"
        ):
            load("inaturalist")

    def test_hidden_names_are_ids_and_can_be_had_later(self):
        hidden = [{"id": i, "name": "same"} for i, _ in SPECIES]
        write({"train2018.json": {**TRAIN, "categories": hidden}, "val2018.json": VAL})
        found = load("inaturalist")
        assert (found.train.labels, found.names["5"]) == (["5", "2"], "same")
        write({"categories.json": TRAIN["categories"]})
        assert load("inaturalist").train.labels == ["Corvus corax", "Larus, a gull"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"annotations": TRAIN["annotations"][:1]}, "2 images and 1 annotations"),
            (
                {"annotations": TRAIN["annotations"][:1] * 2},
                "2 images and 2 annotations; expected one for each",
            ),
            ({"annotations": TRAIN["annotations"] * 2}, "2 images and 4 annotations; expected one for each"),
            ({"annotations": None}, "no list of 'annotations'; test lists"),
            ({"images": [{"id": 1}]}, 'images without "id" and "file_name"'),
            ({"annotations": [{"id": 1}]}, 'annotations without "image_id"'),
            ({"categories": TRAIN["categories"][1:]}, "photos of category 5, which has no name"),
        ],
    )
    def test_faults(self, change, message):
        write({"train2018.json": {**TRAIN, **change}, "val2018.json": VAL})
        with pytest.raises(LayoutError, match=rf"train2018\.json has.*{message}"):
            load("inaturalist")

    def test_a_file_cut_short(self):
        write({"train.json": json.dumps(TRAIN)[:-20], "val.json": VAL})
        with pytest.raises(LayoutError, match=r"train\.json is not JSON"):
            load("inaturalist")


class TestAliProducts:
    def folders(self):
        write({"train/README": "", "val/README": ""})

    @pytest.mark.parametrize("wrap", [lambda images: {"images": images}, lambda images: images])
    @pytest.mark.parametrize("number", [int, lambda number: f"{number:05}"])
    def test_photos_are_in_folders_of_five_digits(self, wrap, number):
        self.folders()
        train = [
            {"image_id": "9.jpg", "class_id": number(42)},
            {"class_id": number(7), "image_id": "1 2.jpg"},
        ]
        write({"train.json": wrap(train), "val.json": wrap([{"image_id": "3.jpg", "class_id": number(42)}])})
        found = load("aliproducts")
        assert listed(found.train) == [("train/00042/9.jpg", "00042"), ("train/00007/1 2.jpg", "00007")]
        assert listed(found.test) == [("val/00042/3.jpg", "00042")]
        assert found.names == {"00007": "00007", "00042": "00042"}

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ({"images": [{"image_id": "a.jpg", "class_id": 1}, {"image_id": "b.jpg"}]}, "image 1: .*b.jpg"),
            ({"pictures": []}, 'no list of "images"'),
            ("{", "is not JSON"),
        ],
    )  # fmt: skip
    def test_faults(self, content, message):
        self.folders()
        write({"train.json": content, "val.json": []})
        with pytest.raises(LayoutError, match=rf"train\.json.*{message}"):
            load("aliproducts")

    def test_photos_that_are_not_unpacked(self):
        write({"train.json": [], "val.json": []})
        with pytest.raises(LayoutError, match=r"No train in set.*train_val\.part"):
            load("aliproducts")


LANDMARKS = {
    "train_clean.csv": "landmark_id,images\n142820,cafe0123456789ab 0b1c23456789abcd\n7,deadbeef01234567\n",
    "train_label_to_category.csv": (
        "landmark_id,category\n7,http://commons.wikimedia.org/wiki/Category:Eiffel_Tower\n"
        '142820,"http://commons.wikimedia.org/wiki/Category:Paris,_Caf%C3%A9"\n'
        "8,http://commons.wikimedia.org/wiki/Category:Not_clean\n"
    ),
    "recognition_solution_v2.1.csv": (
        "id,landmarks,Usage\naaaa000000000000,,Private\nbbbb000000000000,7,Public\n"
        "cccc000000000000,8 142820 7,Public\ndddd000000000000,8,Private\n"
    ),
}


class TestLandmarks:
    @pytest.mark.parametrize("places", [("", ""), ("train/", "test/"), ("metadata/", "metadata/")])
    def test_photos_are_three_folders_deep(self, places):
        write({"train/README": "", "test/README": ""})
        for name, text in LANDMARKS.items():
            write({places[name.startswith("recognition")] + name: text})
        found = load("landmarks")
        assert listed(found.train) == [
            ("train/c/a/f/cafe0123456789ab.jpg", "142820"),
            ("train/0/b/1/0b1c23456789abcd.jpg", "142820"),
            ("train/d/e/a/deadbeef01234567.jpg", "7"),
        ]
        assert listed(found.test) == [
            ("test/b/b/b/bbbb000000000000.jpg", "7"),
            ("test/c/c/c/cccc000000000000.jpg", "142820"),
        ]
        assert found.names == {"142820": "Paris, Café", "7": "Eiffel Tower"}

    def test_only_the_clean_list_is_needed(self):
        write({"train/README": "", "train_clean.csv": LANDMARKS["train_clean.csv"]})
        found = load("landmarks")
        assert (len(found.test), found.names["7"]) == (0, "7")

    def test_a_landmark_of_ten_thousand_photos(self):
        images = " ".join(f"{number:016x}" for number in range(10_247))
        write({"train/README": "", "train_clean.csv": f"landmark_id,images\n138982,{images}\n"})
        found = load("landmarks")
        assert len(found.train) == 10_247
        assert found.train[-1] == Photo(Path("set/train/0/0/0/0000000000002806.jpg"), "138982")

    @pytest.mark.parametrize(
        ("file", "text", "message"),
        [
            ("train_clean.csv", "landmark_id,images\n7,\n", r"line 2: '7,'; expected `landmark_id,images`"),
            ("train_clean.csv", "id,url,landmark_id\nabcd,http://x,7\n", r"line 1: 'id,url,landmark_id'"),
            ("train_clean.csv", "landmark_id,images\n7,abcd ef\n", "line 2: '7,abcd ef'"),
            ("train_clean.csv", "7,abcd\nlandmark_id,images\n", "line 2: 'landmark_id,images'"),
            ("recognition_solution_v2.1.csv", "id,Usage\nabcd,Public\n", "expected `id,landmarks,Usage`"),
            ("train_label_to_category.csv", "landmark_id,category\n7\n", "expected `landmark_id,category`"),
        ],
    )
    def test_faults(self, file, text, message):
        write({"train/README": "", "test/README": "", **LANDMARKS, file: text})
        with pytest.raises(LayoutError, match=message):
            load("landmarks")


GROCERY = {
    "classes.csv": (
        "Class Name (str),Class ID (int),Coarse Class Name (str),Coarse Class ID (int)\r\n"
        'Kiwi,12,Kiwi,3\r\n"Juice, Orange",4,Juice,1\r\n'
    ),
    "train.txt": "train/Packages/Juice, Orange/1.jpg, 4, 1\ntrain/Fruit/Kiwi/2.jpg, 12, 3\n",
    "val.txt": "val/Fruit/Kiwi/1.jpg, 12, 3\n",
    "test.txt": "test/Fruit/Kiwi/7.jpg, 12, 3\ntest/Fruit/Kiwi/5.jpg, 12, 3\n",
}


class TestGrocery:
    @pytest.mark.parametrize("inner", ["", "dataset/"])
    def test_lists_are_read_in_their_order(self, inner):
        write({inner + name: text for name, text in GROCERY.items()})
        found = load("grocery")
        assert listed(found.train) == [
            (f"{inner}train/Packages/Juice, Orange/1.jpg", "Juice, Orange"),
            (f"{inner}train/Fruit/Kiwi/2.jpg", "Kiwi"),
        ]
        assert [photo.path.name for photo in found.test] == ["7.jpg", "5.jpg"]
        assert [photo.path.name for photo in load("grocery-val").test] == ["1.jpg"]
        assert set(found.names) == {"Kiwi", "Juice, Orange"}

    @pytest.mark.parametrize(
        ("file", "text", "message"),
        [
            (
                "train.txt",
                "a.jpg, 4, 1\nb.jpg, 4\n",
                r"train\.txt, line 2: 'b\.jpg, 4'; expected `path, fine",
            ),
            ("train.txt", "a.jpg, 5, 1\n", r"train\.txt, line 1: class '5' is not in classes\.csv"),
            ("classes.csv", "Kiwi,12\n", r"classes\.csv, line 1: 'Kiwi,12'; expected `Class Name"),
            (
                "classes.csv",
                GROCERY["classes.csv"] + "Plum,4,Plum,5\r\n",
                r"classes\.csv, line 4: .*a new id",
            ),
        ],
    )
    def test_faults(self, file, text, message):
        write({**GROCERY, file: text})
        with pytest.raises(LayoutError, match=message):
            load("grocery")

    def test_without_the_test_list_it_says_what_else_there_is(self):
        write(GROCERY)
        remove("test.txt")
        with pytest.raises(LayoutError, match=r"No test\.txt in set.*'grocery-val' tests on val\.txt"):
            load("grocery")

    def test_the_real_photos(self):
        if not (DATA / "grocery" / "classes.csv").exists():
            pytest.skip("needs the grocery photos; set XLDA_DATA to the folder that has grocery/")
        found = datasets.load("grocery-val", DATA / "grocery")
        assert (len(found.train), len(found.test), len(found.names)) == (2640, 296, 81)
        assert len(set(found.train.labels)) == 81
        assert found.train[0] == Photo(
            DATA / "grocery/train/Fruit/Apple/Golden-Delicious/Golden-Delicious_001.jpg", "Golden-Delicious"
        )
        assert not [*found.train.missing(), *found.test.missing()]
