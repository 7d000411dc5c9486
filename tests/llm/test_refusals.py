"""Models that a language policy cannot sample from are refused when it is made."""

import inspect

import pytest
from tiny import Tokens, tiny_qwen2

from minirl.llm.policy import LanguagePolicy


def test_a_model_that_cannot_go_on_from_a_cache_is_refused():
    """Mamba has a state instead of keys and values."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=19, hidden_size=16, state_size=4, num_hidden_layers=2, eos_token_id=1)
    with pytest.raises(ValueError, match="MambaForCausalLM does not go on from a cache of keys and values"):
        LanguagePolicy(MambaForCausalLM(config), Tokens(), 6)


def test_a_cache_that_is_ignored_is_noticed():
    """A forward pass that swallows the cache would sample each token from the last one alone."""
    model = tiny_qwen2()
    forward = model.model.forward
    name = "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"

    def forgetful(*, cache=None, use_cache=False, **inputs):
        if cache is None or not cache.get_seq_length():
            return forward(**inputs, use_cache=use_cache, **{name: cache})
        return forward(**inputs | {"attention_mask": None}, use_cache=False)

    model.model.forward = forgetful
    with pytest.raises(ValueError, match="does not go on from a cache"):
        LanguagePolicy(model, Tokens(), 6)
