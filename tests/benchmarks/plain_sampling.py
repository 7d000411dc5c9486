"""Sampling as one first writes it with a cache: what LanguagePolicy.sample is compared with.

Every prompt is read once for each of its responses, and every row goes on until the last of them has ended. The noise
is the same, one number per (step, row), so the tokens must be the same too.
"""

import torch
from transformers import DynamicCache


@torch.no_grad()
def plain_sample(policy, prompts, group_size: int, generator=None):
    """Responses [batch group token] and their mask, all rows at every step."""
    tokens = prompts.repeat_interleave(group_size, 0)
    noise = torch.rand(policy.max_new_tokens, len(tokens), generator=generator, dtype=torch.float64)
    seen, responses, mask = policy.prompt_mask(tokens).long(), [], []
    cached = {policy._cache_name: DynamicCache(), "use_cache": True}
    going, ends = torch.ones(len(tokens), dtype=torch.bool), torch.tensor(policy.end_ids)
    for levels in noise:
        places = (seen.cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        inputs = {"input_ids": tokens, "attention_mask": seen, "position_ids": places}
        logits = policy.model(**inputs, **cached, logits_to_keep=1).logits[:, -1]
        cumulative = (logits / policy.temperature).log_softmax(-1).double().exp().cumsum(-1)
        drawn = (cumulative <= levels[:, None] * cumulative[:, -1:]).sum(-1).masked_fill(~going, policy.pad_id)
        responses, mask = [*responses, drawn], [*mask, going]
        going = going & ~torch.isin(drawn, ends)
        if not going.any():
            break
        tokens = drawn[:, None]
        seen = torch.nn.functional.pad(seen, (0, 1), value=1)
    return tuple(torch.stack(each, -1).unflatten(0, (len(prompts), group_size)) for each in (responses, mask))
