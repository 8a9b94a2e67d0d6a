"""The prompts of a checkpoint reach those who encode with its export."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ditto_fast import FastEncoder
from ditto_fast.artifact import CARD_FILE, MANIFEST_FILE, Manifest
from ditto_fast.errors import ExportDirectoryError, TextTypeError, UnsupportedModelError
from ditto_fast.export import export_model
from ditto_fast.export.prompts import PROMPTS_FILE, read_prompts
from ditto_fast.export.summary import summary
from ditto_fast.prompts import by_role
from ditto_fast.tolerances import within

PROMPTS = {"query": "find: ", "passage": "text: ", "clustering": "topic: "}


@pytest.fixture
def prompted_checkpoint(checkpoint: Callable[[str], Path], tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(checkpoint("bert"), tmp_path / "checkpoint"))
    said = {"prompts": PROMPTS, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    (folder / PROMPTS_FILE).write_text(json.dumps(said), encoding="utf-8")
    return folder


def test_an_export_carries_the_prompts(prompted_checkpoint: Path, tmp_path: Path):
    from sentence_transformers import SentenceTransformer

    export = export_model(prompted_checkpoint, "2-3", tmp_path / "export").directory
    manifest = Manifest.read(export)
    assert manifest.prompts == PROMPTS
    said = "clustering: 'topic: '; passage: 'text: '; query: 'find: '"
    assert f"| {said} |" in (export / CARD_FILE).read_text(encoding="utf-8")
    assert said in list(summary(export, manifest).columns[1].cells)
    encoder = FastEncoder(export)
    assert encoder.prompts == {"query": "find: ", "document": "text: "}
    plain, query = encoder.encode(["rain"]), encoder.encode(["find: rain"])
    assert within(encoder.encode_query(["rain"]), query)
    assert not within(plain, query)
    model = SentenceTransformer(str(export))
    assert within(model.encode_query(["rain"]), query)
    assert within(model.encode_document(["rain"]), encoder.encode_document(["rain"]))
    assert within(model.encode(["rain"]), plain)
    with pytest.raises(TextTypeError, match="NoneType"):
        model.encode(["rain", None])


def test_a_default_prompt_is_for_sentence_transformers_alone(prompted_checkpoint: Path, tmp_path: Path):
    from sentence_transformers import SentenceTransformer

    said = {"prompts": PROMPTS, "default_prompt_name": "clustering"}
    (prompted_checkpoint / PROMPTS_FILE).write_text(json.dumps(said), encoding="utf-8")
    export = export_model(prompted_checkpoint, "2-3", tmp_path / "export").directory
    encoder, model = FastEncoder(export), SentenceTransformer(str(export))
    plain, topic = encoder.encode(["rain"]), encoder.encode(["topic: rain"])
    assert not within(plain, topic)
    assert within(model.encode(["rain"]), topic)
    assert within(model.encode(["rain"], prompt=""), plain)


def test_a_checkpoint_without_prompts_has_none(tiny_export: Path, checkpoint: Callable[[str], Path]):
    assert read_prompts(checkpoint("bert")) == {}
    assert not (tiny_export / PROMPTS_FILE).exists()
    assert FastEncoder(tiny_export).prompts == {}


def test_prompts_may_lie_beside_the_modules(tmp_path: Path):
    (tmp_path / "0_Transformer").mkdir()
    (tmp_path / PROMPTS_FILE).write_text(json.dumps({"prompts": {"query": "q: "}, "default_prompt_name": "query"}))
    assert read_prompts(tmp_path / "0_Transformer") == {}  # not a model of sentence-transformers: another folder's file
    (tmp_path / "modules.json").write_text("[]")
    found = read_prompts(tmp_path / "0_Transformer")
    assert found == {"prompts": {"query": "q: "}, "default_prompt_name": "query"}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"prompts": ["query: "]}', '{"prompts": {"query": 3}}', '{"default_prompt_name": "topic"}']
)
def test_broken_prompts_of_a_checkpoint_are_told(text: str, tmp_path: Path):
    (tmp_path / PROMPTS_FILE).write_text(text)
    with pytest.raises(UnsupportedModelError, match=PROMPTS_FILE):
        read_prompts(tmp_path)


def test_broken_prompts_of_a_manifest_are_told(tiny_export: Path, tmp_path: Path):
    folder = Path(shutil.copytree(tiny_export, tmp_path / "export"))
    manifest = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    del manifest["prompts"]  # as ditto-export wrote it before there were prompts
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest), encoding="utf-8")
    assert Manifest.read(folder).prompts == {}
    for wrong in (["q: "], {"query": 1}, "q: "):
        (folder / MANIFEST_FILE).write_text(json.dumps({**manifest, "prompts": wrong}), encoding="utf-8")
        with pytest.raises(ExportDirectoryError, match="broken"):
            Manifest.read(folder)


def test_empty_prompts_hide_no_other_and_may_be_the_default(tmp_path: Path):
    assert by_role({"document": "", "passage": "p: "}) == {"document": "p: "}
    (tmp_path / PROMPTS_FILE).write_text('{"prompts": {}, "default_prompt_name": "query"}')
    assert read_prompts(tmp_path) == {}
