"""The adapters give FastEncoder's vectors through the real LangChain and LlamaIndex, and say what is missing."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from families import write_checkpoint

from ditto_fast import FastEncoder
from ditto_fast.errors import MissingDependencyError, OptionError, TextTypeError
from ditto_fast.export import export_model
from ditto_fast.tolerances import within

TEXTS = ["The ferry left the harbour.", "", "Who repaired the piano?", "prices rose"]
MODULES = {"langchain": "langchain_core", "llama_index": "llama_index", "sklearn": "sklearn"}


@pytest.fixture(scope="module")
def encoder(tiny_export: Path) -> FastEncoder:
    return FastEncoder(tiny_export)


@pytest.fixture
def calls(encoder: FastEncoder, monkeypatch) -> list[object]:
    """What is passed to `encode`, call by call."""
    seen: list[object] = []
    encode = FastEncoder.encode

    def spy(self: FastEncoder, sentences: object, **options: object) -> np.ndarray:
        seen.append(sentences)
        return encode(self, sentences, **options)

    monkeypatch.setattr(FastEncoder, "encode", spy)
    return seen


@pytest.mark.parametrize("normalize", [False, True])
def test_langchain(encoder: FastEncoder, normalize: bool):
    adapter = pytest.importorskip("ditto_fast.integrations.langchain", exc_type=MissingDependencyError)
    expected = encoder.encode(TEXTS, normalize_embeddings=normalize)
    embeddings = adapter.DittoEmbeddings(encoder, normalize_embeddings=normalize)
    for documents in (embeddings.embed_documents(TEXTS), asyncio.run(embeddings.aembed_documents(TEXTS))):
        assert [type(value) for value in documents[0][:2]] == [float, float]
        assert within(np.array(documents), expected)
    for query in (embeddings.embed_query(TEXTS[2]), asyncio.run(embeddings.aembed_query(TEXTS[2]))):
        assert type(query[0]) is float
        assert within(np.array(query), expected[2])
    assert embeddings.embed_documents([]) == []
    with pytest.raises(TextTypeError, match="item 1"):
        embeddings.embed_documents(["a", None])
    for one in ("hello", np.array("hello")):
        with pytest.raises(TextTypeError, match="one string"):
            embeddings.embed_documents(one)
    with pytest.raises(TextTypeError, match=r"one text; got list .*embed_documents"):
        embeddings.embed_query(["a", "b"])


@pytest.mark.parametrize("normalize", [False, True])
def test_llama_index(encoder: FastEncoder, normalize: bool):
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    expected = encoder.encode(TEXTS, normalize_embeddings=normalize)
    embedding = adapter.DittoEmbedding(encoder, normalize_embeddings=normalize)
    for batch in (
        embedding.get_text_embedding_batch(TEXTS),
        asyncio.run(embedding.aget_text_embedding_batch(TEXTS)),
    ):
        assert type(batch[0][0]) is float
        assert within(np.array(batch), expected)
    for single in (
        embedding.get_text_embedding(TEXTS[2]),
        embedding.get_query_embedding(TEXTS[2]),
        asyncio.run(embedding.aget_text_embedding(TEXTS[2])),
        asyncio.run(embedding.aget_query_embedding(TEXTS[2])),
    ):
        assert type(single[0]) is float
        assert within(np.array(single), expected[2])
    assert embedding.get_text_embedding_batch([]) == []
    with pytest.raises(TextTypeError, match="item 1"):
        embedding.get_text_embedding_batch(["a", None])
    for ask in (
        lambda: embedding.get_text_embedding_batch("hello"),
        lambda: asyncio.run(embedding.aget_text_embedding_batch("hello")),
    ):
        with pytest.raises(TextTypeError, match="one string"):
            ask()
    with pytest.raises(TextTypeError, match="one text; got list"):
        embedding.get_query_embedding(["a", "b"])


def test_llama_index_passes_whole_batches(encoder: FastEncoder, calls: list[object]):
    """Its defaults would pass ten at a time, and one at a time when asynchronous."""
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    texts = TEXTS * 5
    adapter.DittoEmbedding(encoder).get_text_embedding_batch(texts)
    asyncio.run(adapter.DittoEmbedding(encoder).aget_text_embedding_batch(texts))
    assert calls == [texts, texts]
    adapter.DittoEmbedding(encoder, embed_batch_size=15).get_text_embedding_batch(texts)
    assert calls[2:] == [texts[:15], texts[15:]]


def test_llama_index_caches_tell_models_apart(tiny_export: Path, encoder: FastEncoder, calls: list[object]):
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    from llama_index.core.ingestion import IngestionCache, IngestionPipeline
    from llama_index.core.schema import TextNode

    cache = IngestionCache()

    def ingest(embedding) -> np.ndarray:
        pipeline = IngestionPipeline(transformations=[embedding], cache=cache)
        nodes = pipeline.run(nodes=[TextNode(text=text, id_=text) for text in TEXTS if text])
        return np.array([node.embedding for node in nodes])

    ditto = ingest(adapter.DittoEmbedding(encoder))
    assert within(ingest(adapter.DittoEmbedding(FastEncoder(tiny_export))), ditto)
    assert len(calls) == 1  # the second came from the cache
    assert not within(ingest(adapter.DittoEmbedding(FastEncoder(tiny_export, pooling="cls"))), ditto)
    assert not within(ingest(adapter.DittoEmbedding(encoder, normalize_embeddings=True)), ditto)
    assert len(calls) == 3


def test_llama_index_names_all_that_vectors_depend_on(
    checkpoint, tiny_export: Path, encoder: FastEncoder, tmp_path: Path
):
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    other = write_checkpoint("bert", tmp_path / "bert", initializer_range=0.3)  # the same name, other weights
    cased = shutil.copytree(other, tmp_path / "cased" / "bert")  # the same weights, another tokenizer
    settings = json.loads((cased / "tokenizer_config.json").read_text())
    (cased / "tokenizer_config.json").write_text(json.dumps(settings | {"do_lower_case": False}))
    encoders = [
        encoder,
        FastEncoder(tiny_export, pooling="cls"),
        FastEncoder(tiny_export, max_seq_length=8),
        FastEncoder(tiny_export, prompts={"document": "passage: "}),
        FastEncoder(export_model(other, "2-3", tmp_path / "other").directory),
        FastEncoder(export_model(cased, "2-3", tmp_path / "other tokenizer").directory),
        FastEncoder(export_model(other, "1-1", tmp_path / "other head").directory),
        FastEncoder(export_model(other, "2-3", tmp_path / "normalized", normalize=True).directory),
        FastEncoder(export_model(checkpoint("bert"), "2-3", tmp_path / "int8", precision=("int8",)).directory),
    ]
    names = {adapter.DittoEmbedding(each).model_name for each in encoders}
    assert len(names) == len(encoders)
    assert len({name.split("@")[0] for name in names}) == 1
    assert adapter.DittoEmbedding(FastEncoder(tiny_export)).model_name in names


@pytest.mark.parametrize("name", MODULES)
def test_a_missing_package_names_the_extra(name: str):
    code = f"import sys; sys.modules[{MODULES[name]!r}] = None; import ditto_fast.integrations.{name}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingDependencyError" in result.stderr
    assert f"pip install 'ditto-fast[{name.replace('_', '-')}]'" in result.stderr


def test_ditto_fast_imports_none_of_them():
    packages = {*MODULES.values(), "ditto_fast.integrations"}
    code = f"import ditto_fast, sys; print({packages} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stdout + result.stderr


def test_llama_index_makes_an_embedding_again_of_its_fields_and_an_encoder(encoder: FastEncoder):
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    fields = adapter.DittoEmbedding(encoder, normalize_embeddings=True, embed_batch_size=7).to_dict()
    embedding = adapter.DittoEmbedding
    for build in (
        embedding.from_dict,
        embedding.model_validate,
        lambda fields: embedding.model_validate_json(json.dumps(fields)),
    ):
        with pytest.raises(OptionError, match="from_dict"):
            build(fields)
    again = adapter.DittoEmbedding.from_dict(fields, encoder=encoder)
    assert (again.normalize_embeddings, again.embed_batch_size) == (True, 7)
    assert again.to_dict() == fields


def test_llama_index_names_the_length_that_was_set_last(tiny_export: Path):
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    encoder = FastEncoder(tiny_export)
    embedding = adapter.DittoEmbedding(encoder)
    encoder.max_seq_length = 8
    assert " 8 tokens" in embedding.to_dict()["model_name"]


def test_llama_index_takes_its_own_options(encoder: FastEncoder, calls: list[object]):
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
    from llama_index.core.storage.kvstore import SimpleKVStore

    events = LlamaDebugHandler(print_trace_on_end=False)
    embedding = adapter.DittoEmbedding(
        encoder,
        callback_manager=CallbackManager([events]),
        num_workers=2,
        embeddings_cache=SimpleKVStore(),
        embed_batch_size=1,
    )
    vectors = embedding.get_text_embedding_batch(TEXTS)
    assert embedding.get_text_embedding_batch(TEXTS) == vectors
    assert calls == [[text] for text in TEXTS]  # the second time they came from the cache
    assert len(events.get_event_pairs()) == 2 * len(TEXTS)
    assert within(np.array(asyncio.run(embedding.aget_text_embedding_batch(TEXTS))), np.array(vectors))


def test_llama_index_caches_by_text_only_where_queries_are_documents(tiny_export: Path, encoder: FastEncoder):
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    from llama_index.core.storage.kvstore import SimpleKVStore

    one = FastEncoder(tiny_export, prompts={"query": "text: ", "document": "text: "})
    adapter.DittoEmbedding(one, embeddings_cache=SimpleKVStore())
    for prompts in ({"query": "query: "}, {"query": "query: ", "document": "passage: "}):
        two = FastEncoder(tiny_export, prompts=prompts)
        with pytest.raises(OptionError, match=r"the same prompt .* 'query: '.* Leave it out"):
            adapter.DittoEmbedding(two, embeddings_cache=SimpleKVStore())
        embedding = adapter.DittoEmbedding(two)
        with pytest.raises(OptionError, match="the same prompt"):
            embedding.embeddings_cache = SimpleKVStore()
        embedding.embeddings_cache = None


def test_llama_index_pickles_its_encoder_or_says_that_it_cannot(tiny_export: Path, encoder: FastEncoder):
    adapter = pytest.importorskip("ditto_fast.integrations.llama_index", exc_type=MissingDependencyError)
    embedding = adapter.DittoEmbedding(encoder, normalize_embeddings=True)
    again = pickle.loads(pickle.dumps(embedding))
    assert again.to_dict() == embedding.to_dict()
    assert within(np.array(again.get_text_embedding("rain")), np.array(embedding.get_text_embedding("rain")))
    unpicklable = FastEncoder(tiny_export, session_options=lambda _: None)
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(adapter.DittoEmbedding(unpicklable))
