"""DittoPooling on tiny random encoders against the eager way: every attention returned, then one diagonal."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    RobertaConfig,
    RobertaModel,
)

from ditto_fast.errors import HeadError, UnsupportedModelError
from ditto_fast.heads import Head
from ditto_fast.kernels import DittoPooling

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
    "initializer_range": 0.5,  # large weights, so that heads differ clearly
}
MODELS = {
    "bert": (BertModel, BertConfig(**SIZES), "sdpa"),
    "roberta": (RobertaModel, RobertaConfig(**SIZES), "sdpa"),
    # projects its embeddings; transformers has no SDPA for it
    "electra": (ElectraModel, ElectraConfig(**SIZES, embedding_size=16), "eager"),
}


def pair(name):
    """The same random encoder twice: eager, which can return attentions, and as users load it."""
    torch.manual_seed(0)
    model_class, config, implementation = MODELS[name]
    eager = model_class._from_config(config, attn_implementation="eager").eval()
    loaded = model_class._from_config(config, attn_implementation=implementation).eval()
    loaded.load_state_dict(eager.state_dict())
    return eager, loaded


def batch():
    ids = torch.randint(5, 50, (3, 20), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(20) < torch.tensor([[20], [3], [11]])).long()
    return ids, mask


def eager_embeddings(model, ids, mask, head, normalize):
    with torch.inference_mode():
        out = model(ids, attention_mask=mask, output_attentions=True, output_hidden_states=True)
    diagonal = out.attentions[head.layer - 1][:, head.number - 1].diagonal(dim1=1, dim2=2) * mask
    states = (out.hidden_states[0] + out.hidden_states[-1]) / 2
    embeddings = (states * diagonal[:, :, None]).sum(dim=1)
    return torch.nn.functional.normalize(embeddings, dim=1) if normalize else embeddings


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("head", ["1-1", "1-4", "3-2"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_equals_the_eager_way_and_leaves_attention_as_loaded(name, head, normalize):
    eager, loaded = pair(name)
    ids, mask = batch()
    with torch.inference_mode():
        got = DittoPooling(loaded, head, normalize=normalize)(ids, mask, torch.zeros_like(ids))
    assert loaded.config._attn_implementation == MODELS[name][2]
    expected = eager_embeddings(eager, ids, mask, Head.parse(head), normalize)
    scale = max(1.0, float(expected.abs().max()))
    assert float((got - expected).abs().max()) / scale <= 1e-5
    other = eager_embeddings(eager, ids, mask, Head.parse("2-3"), normalize)
    assert float((got - other).abs().max()) > 1e-2  # another head is far off


def test_the_kernels_give_the_same_embeddings(triton_device):
    eager, sdpa = (model.to(triton_device) for model in pair("bert"))
    ids, mask = (tensor.to(triton_device) for tensor in batch())
    with torch.inference_mode():
        got = DittoPooling(sdpa, Head(2, 3))(ids, mask)
    assert torch.allclose(got, eager_embeddings(eager, ids, mask, Head(2, 3), False), atol=1e-5)


def test_what_padding_holds_does_not_matter():
    _, sdpa = pair("bert")
    ids, mask = batch()
    pooling = DittoPooling(sdpa, "1-2")
    with torch.inference_mode():
        one, other = pooling(ids, mask), pooling(torch.where(mask == 1, ids, 7), mask)
    assert torch.allclose(one, other, atol=1e-5)


def test_no_hook_is_left_behind():
    _, sdpa = pair("bert")
    pooling = DittoPooling(sdpa, "1-2")
    with torch.inference_mode():
        pooling(*batch())
    with pytest.raises(IndexError):
        pooling(torch.tensor([[10**6]]), torch.tensor([[1]]))  # no such token
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in sdpa.modules())


def test_encoders_of_another_build_are_refused():
    config = DistilBertConfig(vocab_size=50, dim=32, n_layers=1, n_heads=4, hidden_dim=40)
    with pytest.raises(UnsupportedModelError, match=r"got DistilBertModel: .*Call ditto_pool"):
        DittoPooling(DistilBertModel(config), "1-1")
    relative = BertModel(BertConfig(**SIZES, position_embedding_type="relative_key"))
    with pytest.raises(UnsupportedModelError, match="BertModel has 'relative_key'"):
        DittoPooling(relative, "1-1")


def test_a_head_that_is_not_there_is_refused():
    _, sdpa = pair("bert")
    with pytest.raises(HeadError, match="layers 1 to 3 with heads 1 to 4"):
        DittoPooling(sdpa, "4-1")
