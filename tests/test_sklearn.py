"""DittoVectorizer behaves as scikit-learn's own transformers do."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed: ditto-fast[sklearn]")

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

from ditto_fast import FastEncoder
from ditto_fast.errors import ExportDirectoryError, OptionError, TextTypeError
from ditto_fast.integrations.sklearn import DittoVectorizer
from ditto_fast.tolerances import within

TEXTS = ["The ferry left the harbour.", "", "Who repaired the piano?", "prices rose", "old bridge", "school hall"]


class OfNumbers(DittoVectorizer):
    """Reads each row of numbers as a text: scikit-learn's checks feed numbers, and skip what takes only texts."""

    def fit(self, X, y=None):  # noqa: N803 (scikit-learn's)
        validate_data(self, X)
        return super().fit(X, y)

    def transform(self, X):  # noqa: N803
        rows = validate_data(self, X, reset=False)
        return super().transform([" ".join(map(str, row)) for row in rows])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


@pytest.fixture
def _tiny_ditto(tiny_export: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "tiny-ditto").symlink_to(tiny_export)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_tiny_ditto")
# one text a run: the checks allow vectors of different batches less than their rounding
@parametrize_with_checks([DittoVectorizer("tiny-ditto"), OfNumbers("tiny-ditto", batch_size=1)])
def test_the_checks_of_scikit_learn(estimator, check):
    before = repr(estimator)
    check(estimator)  # raises where the estimator does not do as scikit-learn's must
    assert repr(estimator) == before


def test_vectors_are_those_of_the_encoder(tiny_export: Path):
    vectorizer = DittoVectorizer(tiny_export, pooling="cls", normalize_embeddings=True, batch_size=2, num_threads=1)
    vectors = vectorizer.fit_transform(TEXTS)
    assert vectors.dtype == np.float32
    assert within(vectors, FastEncoder(tiny_export, pooling="cls").encode(TEXTS, normalize_embeddings=True))
    assert not within(vectors, DittoVectorizer(tiny_export).fit_transform(TEXTS))
    for same in (tuple(TEXTS), np.array(TEXTS), pd.Series(TEXTS, index=range(9, 3, -1)), (text for text in TEXTS)):
        assert within(vectorizer.fit_transform(same), vectors)
    assert vectorizer.transform([]).shape == (0, 48)


def test_a_prompt_and_workers(tiny_export: Path):
    vectorizer = DittoVectorizer(tiny_export, prompt="find: ", num_workers=2, num_threads=1).fit(TEXTS)
    assert vectorizer.encoder_.num_workers == 2
    with vectorizer.encoder_:
        vectors = vectorizer.transform(TEXTS)
    assert within(vectors, FastEncoder(tiny_export).encode([f"find: {text}" for text in TEXTS]))


def test_what_is_no_column_of_texts_is_refused(tiny_export: Path):
    vectorizer = DittoVectorizer(tiny_export).fit(TEXTS)
    for wrong, message in (
        ("a text", r"Pass \[text\]"),
        (np.array("a text"), r"Pass \[text\]"),
        (["a", 1], "item 1"),
        (np.array([["a"]]), r"\(1, 1\)"),
    ):
        with pytest.raises(TextTypeError, match=message):
            vectorizer.transform(wrong)


def test_options_are_checked_by_fit_and_not_before(tiny_export: Path, tmp_path: Path):
    with pytest.raises(OptionError, match="mean-last"):
        DittoVectorizer(tiny_export, pooling="mean_last").fit(TEXTS)
    with pytest.raises(OptionError, match="precision"):
        DittoVectorizer(tiny_export, precision="int8").fit(TEXTS)
    for options in (
        {"batch_size": 0},
        {"truncate_dim": 999},
        {"max_seq_length": 0},
        {"providers": "cud"},
        {"prompt": None},
        {"num_workers": -1},
    ):
        with pytest.raises(OptionError):
            DittoVectorizer(tiny_export, **options).fit(TEXTS)
    with pytest.raises(TextTypeError, match="one text a row"):
        DittoVectorizer(tiny_export).fit("a text")
    assert DittoVectorizer(tiny_export, truncate_dim=8).fit_transform(TEXTS).shape == (len(TEXTS), 8)
    with pytest.raises(ExportDirectoryError, match="does not exist"):
        DittoVectorizer(tmp_path / "nowhere").fit(TEXTS)
    with pytest.raises(NotFittedError):
        DittoVectorizer(tiny_export).transform(TEXTS)


def test_feature_names_and_pandas_output(tiny_export: Path):
    vectorizer = DittoVectorizer(tiny_export).set_output(transform="pandas")
    frame = vectorizer.fit_transform(pd.Series(TEXTS, index=list("uvwxyz")))
    assert list(frame.columns) == list(vectorizer.get_feature_names_out())
    assert list(frame.columns[:2]) == ["dittovectorizer0", "dittovectorizer1"]
    assert frame.shape == (6, 48)
    assert list(frame.index) == list("uvwxyz")


def test_a_column_of_a_table(tiny_export: Path):
    table = pd.DataFrame({"text": TEXTS, "length": range(6)})
    columns = ColumnTransformer([("text", DittoVectorizer(tiny_export), "text")], remainder="passthrough")
    assert columns.fit_transform(table).shape == (6, 49)
    assert columns.get_feature_names_out()[-2:].tolist() == ["text__dittovectorizer47", "remainder__length"]


@pytest.mark.parametrize("n_jobs", [1, 2], ids=["here", "in processes"])
def test_search_over_its_parameters(tiny_export: Path, n_jobs: int):
    pipeline = make_pipeline(DittoVectorizer(tiny_export, num_threads=1), LogisticRegression())
    grid = {"dittovectorizer__pooling": ["cls", "mean-last"], "dittovectorizer__normalize_embeddings": [True]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=n_jobs).fit(TEXTS, [0, 1, 0, 1, 0, 1])
    best = search.best_estimator_[0]
    assert best.encoder_.pooling == search.best_params_["dittovectorizer__pooling"]
    assert search.predict(TEXTS).shape == (6,)


def test_copies(tiny_export: Path):
    vectorizer = DittoVectorizer(tiny_export, pooling="cls")
    fitted = pickle.loads(pickle.dumps(vectorizer.fit(TEXTS)))
    assert fitted.get_params() == vectorizer.get_params()
    for equal in (fitted, copy.deepcopy(vectorizer)):
        assert within(equal.transform(TEXTS), vectorizer.transform(TEXTS))
        assert equal.get_feature_names_out().shape == (48,)
    for unfitted in (clone(vectorizer), pickle.loads(pickle.dumps(DittoVectorizer(tiny_export)))):
        assert not hasattr(unfitted, "encoder_")


def test_a_pickle_is_small_and_wants_its_export(tiny_export: Path, tmp_path: Path):
    folder = tmp_path / "moved"
    folder.symlink_to(tiny_export)
    data = pickle.dumps(DittoVectorizer(folder).fit(TEXTS))
    assert len(data) < 1000
    folder.unlink()
    with pytest.raises(ExportDirectoryError, match="moved does not exist"):
        pickle.loads(data)
