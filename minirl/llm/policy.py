"""A policy over any Hugging Face causal LM: the same protocol as the sorter's, so the core's loop trains it unchanged.

Tokens in, tokens out: nothing is decoded and tokenised again on the way. What is sampled is what is scored: the same
temperature and the same truncation, and nothing from the checkpoint's own generation defaults. Left out: beam search,
speculative decoding and paged attention, which make sampling faster and change nothing that is taught here.
"""

import copy
import inspect
from collections.abc import Sequence
from contextlib import contextmanager, nullcontext

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from minirl.rollout import Mask, PerToken, Prompts, Responses

LOGITS_PER_CHUNK = 2**24  # how many logits may exist at once while scoring: 64 MB of float32


class LanguagePolicy(nn.Module):
    """π over the tokens of `model`, for left-padded prompts.

    `temperature`, `top_k` and `top_p` shape the distribution that is sampled *and* scored. A response ends with the
    first of `end_ids` (the tokenizer's and the checkpoint's) or is cut after `max_new_tokens`; see `truncated`. Dropout
    is set to 0 for good. While scoring, `rows_per_pass` responses go through the model at once. On a GPU the forward
    pass runs in bfloat16 under autocast; the weights stay float32, so that small updates are not rounded away.
    """

    def __init__(
        self,
        model,
        tokenizer,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        rows_per_pass: int = 32,
    ):
        super().__init__()
        if not temperature > 0:
            raise ValueError(
                f"temperature divides the logits and must be positive; got {temperature}; use greedy() for 0"
            )
        if max_new_tokens < 1 or rows_per_pass < 1:
            raise ValueError(
                f"max_new_tokens and rows_per_pass must be at least 1; got {max_new_tokens}, {rows_per_pass}"
            )
        if (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
            raise ValueError(f"top_k must be at least 1 and top_p in (0, 1]; got top_k={top_k}, top_p={top_p}")
        self.model, self.tokenizer, self.max_new_tokens = model, tokenizer, max_new_tokens
        self.temperature, self.top_k, self.top_p, self.rows_per_pass = temperature, top_k, top_p, rows_per_pass
        self.end_ids = end_token_ids(model, tokenizer)
        self.pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.end_ids[0]
        self._cache_name = (
            "cache" if "cache" in inspect.signature(model.base_model.forward).parameters else "past_key_values"
        )
        if not 0 <= self.pad_id < (count := len(model.get_input_embeddings().weight)):
            raise ValueError(
                f"the padding token {self.pad_id} is none of the model's {count} embeddings; "
                "call model.resize_token_embeddings, or choose another pad_token"
            )
        without_dropout(model)
        refuse_unknown_head(model)
        refuse_unknown_cache(self)

    @property
    def vocab_size(self) -> int:
        return self.model.get_output_embeddings().weight.shape[0]

    @property
    def width(self) -> int:
        """Of the hidden states that `features` returns."""
        return self.model.get_output_embeddings().weight.shape[1]

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device

    def prompt_mask(self, prompts: Prompts) -> Bool[Tensor, "batch prompt"]:
        """False on the left padding. A pad token inside a prompt counts as part of it, one in front does not."""
        return (prompts != self.pad_id).cumsum(-1) > 0

    def truncated(self, responses: Responses, mask: Mask) -> Bool[Tensor, "batch group"]:
        """True for responses cut at `max_new_tokens`: no end token inside the mask."""
        return ~(torch.isin(responses, self._ends(responses)) & mask).any(-1)

    def _ends(self, like: Tensor) -> Int[Tensor, " ends"]:
        return torch.tensor(self.end_ids, device=like.device)

    def _half_precision(self) -> torch.autocast:
        """Entered once around many passes, so that each weight is cast once."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def _forward(self, cache=None, **inputs) -> Float[Tensor, "rows token hidden"]:
        keywords = {"use_cache": False} if cache is None else {"use_cache": True, self._cache_name: cache}
        return self.model.base_model(**inputs, **keywords).last_hidden_state

    def _read(self, prompts: Prompts):
        """What going on from a prompt needs: the cache, its mask, the place of the last token, and its hidden state."""
        from transformers import DynamicCache

        seen, cache = self.prompt_mask(prompts).long(), DynamicCache()
        places = (seen.cumsum(-1) - 1).clamp(min=0)
        hidden = self._forward(cache, input_ids=prompts, attention_mask=seen, position_ids=places)
        return cache, seen, places[:, -1:], hidden[:, -1]

    def _log_softmax(self, hidden: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens vocab"]:
        """The distribution that is sampled and scored, float32 whatever the model computes in."""
        logits = self.model.get_output_embeddings()(hidden)
        logits = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
        return truncate(logits / self.temperature, self.top_k, self.top_p).log_softmax(-1)

    # ---- sampling

    def sample(self, prompts: Prompts, group_size: int, generator: torch.Generator | None = None):
        """`group_size` responses to each prompt, [batch group token], and their mask.

        One uniform number per (step, row) is drawn before the first step. So what a row gets depends on nothing that
        happens to other rows, and dropping finished ones changes no token.
        """
        self.refuse_unfit(prompts)
        noise = torch.rand(self.max_new_tokens, len(prompts) * group_size, generator=generator, dtype=torch.float64)
        noise = noise.to(self.device)

        def draw(log_probs, step, rows):
            cumulative = log_probs.double().exp().cumsum(-1)
            levels = noise[step, rows, None] * cumulative[:, -1:]
            return torch.searchsorted(cumulative, levels, right=True).squeeze(-1).clamp(max=log_probs.shape[-1] - 1)

        with self._half_precision():
            return self._generate(prompts.to(self.device), group_size, draw)

    def greedy(self, prompts: Prompts) -> tuple[Responses, Mask]:
        """The most likely token at every step, [batch 1 token]."""
        self.refuse_unfit(prompts)
        with self._half_precision():
            return self._generate(prompts.to(self.device), 1, lambda log_probs, step, rows: log_probs.argmax(-1))

    @torch.no_grad()
    def _generate(self, prompts: Prompts, group_size: int, choose) -> tuple[Responses, Mask]:
        """Prefill each prompt once, share its cache with the group, and drop rows as they finish."""
        cache, *rest = self._read(prompts)
        cache.batch_repeat_interleave(group_size)
        seen, places, hidden = (each.repeat_interleave(group_size, 0) for each in rest)
        rows = torch.arange(len(hidden), device=self.device)
        responses = torch.full((len(rows), self.max_new_tokens), self.pad_id, device=self.device)
        mask = torch.zeros_like(responses, dtype=torch.bool)
        for step in range(self.max_new_tokens):
            tokens = choose(self._log_softmax(hidden), step, rows)
            responses[rows, step], mask[rows, step] = tokens, True
            going = (~torch.isin(tokens, self._ends(tokens))).nonzero().squeeze(-1)
            if not len(going) or step + 1 == self.max_new_tokens:
                break
            if len(going) < len(rows):
                cache.batch_select_indices(going)
                rows, tokens, seen, places = rows[going], tokens[going], seen[going], places[going]
            places, seen = places + 1, nn.functional.pad(seen, (0, 1), value=1)
            hidden = self._forward(cache, input_ids=tokens[:, None], attention_mask=seen, position_ids=places)[:, -1]
        longest = step + 1
        return tuple(each[:, :longest].unflatten(0, (len(prompts), group_size)) for each in (responses, mask))

    def refuse_unfit(self, prompts: Prompts) -> None:
        """ValueError for a prompt without tokens, or one that leaves no room for a response of `max_new_tokens`."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        longest = int(self.prompt_mask(prompts).sum(-1).max())
        if int(self.prompt_mask(prompts).sum(-1).min()) == 0:
            raise ValueError("a prompt has no tokens; expected at least one token that is not padding")
        if limit is not None and longest + self.max_new_tokens > limit:
            raise ValueError(
                f"a prompt of {longest} tokens and {self.max_new_tokens} new ones exceed the context of {limit}: "
                "shorten the prompt or lower max_new_tokens"
            )

    # ---- scoring

    def log_probs(self, prompts: Prompts, responses: Responses, mask: Mask) -> PerToken:
        """log π of each response token in nats, 0 outside the mask; differentiable."""
        return self._score(prompts, responses, mask, chosen_log_prob)[0]

    @torch.no_grad()
    def entropy(self, prompts: Prompts, responses: Responses, mask: Mask) -> PerToken:
        """−Σ p log p over the whole vocabulary at each response position, in nats."""
        return self._score(prompts, responses, mask, entropy_in_nats)[0]

    @torch.no_grad()
    def score(self, prompts: Prompts, responses: Responses, mask: Mask) -> tuple[PerToken, PerToken]:
        """Log-probs and entropy from one pass."""
        return self._score(prompts, responses, mask, chosen_log_prob, entropy_in_nats)

    def _score(self, prompts: Prompts, responses: Responses, mask: Mask, *measures) -> tuple[PerToken, ...]:
        """Each `measure(log_probs, tokens)` at every masked-in position."""
        found, where = [], []
        with self._half_precision():
            for places, hidden, tokens in self._hidden(prompts, responses, mask):
                found.append(self._measure(hidden, tokens, measures))
                where.append(places)
        if not found:
            return (torch.zeros(mask.shape, device=self.device),) * len(measures)
        scores = torch.zeros(len(measures), mask.numel(), device=self.device, dtype=found[0].dtype)
        return (*scores.index_copy(1, torch.cat(where), torch.cat(found, 1)).view(-1, *mask.shape),)

    def features(self, prompts: Prompts, responses: Responses, mask: Mask) -> Float[Tensor, "batch group token width"]:
        """The last hidden state that each token is predicted from, for a critic's head; 0 outside the mask."""
        with self._half_precision():
            found = [(places, hidden) for places, hidden, _ in self._hidden(prompts, responses, mask)]
        wide = torch.promote_types(self.model.get_output_embeddings().weight.dtype, torch.float32)
        features = torch.zeros(mask.numel(), self.width, device=self.device, dtype=wide)
        if found:
            places, hidden = (torch.cat(each) for each in zip(*found, strict=True))
            features = features.index_copy(0, places, hidden.to(wide))
        return features.view(*mask.shape, self.width)

    def _hidden(self, prompts: Prompts, responses: Responses, mask: Mask):
        """(places, hidden states, tokens) of what is inside the mask, in passes over rows of similar length.

        A place counts the positions of all responses; a hidden state is the one from which its token is predicted.
        """
        prompts, responses, mask = (each.to(self.device) for each in (prompts, responses, mask))
        inside, tokens = mask.flatten(0, 1), responses.flatten(0, 1)
        lengths = (inside * torch.arange(1, inside.shape[1] + 1, device=self.device)).amax(-1)
        checkpointing = any(getattr(module, "gradient_checkpointing", False) for module in self.model.modules())
        passes = self._packed_passes if checkpointing else self._shared_passes
        for rows, hidden in passes(prompts, responses, lengths) if lengths.any() else ():
            row, step = inside[rows].nonzero(as_tuple=True)
            yield rows[row] * inside.shape[1] + step, hidden[row, step], tokens[rows][row, step]

    def _rows(self, lengths: Int[Tensor, " rows"]) -> Sequence[Int[Tensor, " some"]]:
        """Rows with tokens, shortest first, in parts of `rows_per_pass`."""
        return lengths.argsort()[(lengths == 0).sum() :].split(self.rows_per_pass)

    def _shared_passes(self, prompts: Prompts, responses: Responses, lengths: Int[Tensor, " rows"]):
        """(rows, hidden states that predict their tokens): each prompt is read once, its group goes on from there."""
        group, tokens = responses.shape[1], responses.flatten(0, 1)
        asked = lengths.view(-1, group).any(-1).nonzero().squeeze(-1)
        cache, seen, places, last = self._read(prompts[asked])
        source = torch.zeros(len(prompts), dtype=torch.long, device=self.device)
        source[asked] = torch.arange(len(asked), device=self.device)
        for rows in self._rows(lengths):
            prompt, width = source[rows // group], lengths[rows].max() - 1  # the last token predicts nothing
            first = last[prompt][:, None]
            if not width:
                yield rows, first
                continue
            later = self._forward(
                picked(cache, prompt),
                input_ids=tokens[rows, :width],
                attention_mask=nn.functional.pad(seen[prompt], (0, int(width)), value=1),
                position_ids=places[prompt] + torch.arange(1, width + 1, device=self.device),
            )
            yield rows, torch.cat([first, later], 1)

    def _packed_passes(self, prompts: Prompts, responses: Responses, lengths: Int[Tensor, " rows"]):
        """The same without a cache, which gradient checkpointing cannot have: every row reads its prompt itself.

        Rows are laid out without left padding, so that causal attention alone keeps the right padding out of sight.
        """
        tokens, starts = packed(prompts, responses, self.prompt_mask(prompts), self.pad_id)
        for rows in self._rows(lengths):
            hidden = self._forward(input_ids=tokens[rows, : (starts + lengths)[rows].max() - 1])
            steps = starts[rows][:, None] - 1 + torch.arange(lengths[rows].max(), device=self.device)
            yield (
                rows,
                hidden.gather(1, steps.clamp(max=hidden.shape[1] - 1)[..., None].expand(-1, -1, hidden.shape[2])),
            )

    def _measure(self, hidden: Float[Tensor, "tokens hidden"], targets: Int[Tensor, " tokens"], measures):
        """[measure token], in chunks, recomputed in the backward pass: the logits of all tokens never exist at once."""

        def measured(hidden, targets):
            log_probs = self._log_softmax(hidden)
            return torch.stack([measure(log_probs, targets) for measure in measures])

        size = max(1, LOGITS_PER_CHUNK // self.vocab_size)
        pieces = zip(hidden.split(size), targets.split(size), strict=True)
        if len(hidden) <= size or not torch.is_grad_enabled():
            return torch.cat([measured(*piece) for piece in pieces], 1)
        return torch.cat([checkpoint(measured, *piece, use_reentrant=False) for piece in pieces], 1)


def picked(cache, rows: Int[Tensor, " rows"]):
    """A cache with the keys and values of these rows, which may repeat; the one that is given stays as it is."""
    other = copy.copy(cache)
    other.layers = [copy.copy(layer) for layer in cache.layers]
    other.batch_select_indices(rows)
    return other


def chosen_log_prob(
    log_probs: Float[Tensor, "tokens vocab"], tokens: Int[Tensor, " tokens"]
) -> Float[Tensor, " tokens"]:
    """The log-prob of the token that was sampled."""
    return log_probs.gather(-1, tokens[:, None]).squeeze(-1)


def entropy_in_nats(
    log_probs: Float[Tensor, "tokens vocab"], tokens: Int[Tensor, " tokens"]
) -> Float[Tensor, " tokens"]:
    """−Σ p log p, whatever was sampled."""
    return torch.special.entr(log_probs.exp()).sum(-1)


def truncate(
    logits: Float[Tensor, "*axes vocab"], top_k: int | None, top_p: float | None
) -> Float[Tensor, "*axes vocab"]:
    """Logits with everything outside the top k, then outside the smallest set of probability p, at −∞."""
    if top_k is not None and top_k < logits.shape[-1]:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[..., -1:], -torch.inf)
    if top_p is not None and top_p < 1:
        ordered = logits.sort(descending=True)
        probs = ordered.values.softmax(-1)
        cut = torch.zeros_like(probs, dtype=torch.bool).scatter(-1, ordered.indices, probs.cumsum(-1) - probs >= top_p)
        logits = logits.masked_fill(cut, -torch.inf)
    return logits


def packed(prompts: Prompts, responses: Responses, prompt_mask: Bool[Tensor, "batch prompt"], pad_id: int):
    """Prompt and response of every row laid end to end without left padding [rows, P + T], and response starts."""
    starts = prompt_mask.sum(-1).repeat_interleave(responses.shape[1])
    rows = torch.cat([prompts.repeat_interleave(responses.shape[1], 0), responses.flatten(0, 1)], -1)
    source = torch.arange(rows.shape[1], device=rows.device) + (prompts.shape[1] - starts)[:, None]
    beyond = source >= rows.shape[1]
    return rows.gather(1, source.clamp(max=rows.shape[1] - 1)).masked_fill(beyond, pad_id), starts


def end_token_ids(model, tokenizer) -> list[int]:
    """Every token that ends a response: the tokenizer's and those of the checkpoint's generation settings."""
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = configured if isinstance(configured, list | tuple) else [configured]
    size = model.get_input_embeddings().weight.shape[0]
    ends = [each for each in dict.fromkeys([tokenizer.eos_token_id, *ids]) if each is not None and 0 <= each < size]
    if not ends:
        raise ValueError("neither tokenizer nor model names an end token; set tokenizer.eos_token")
    return ends


def without_dropout(model) -> None:
    """Set every dropout and jitter to 0: a sampled and a scored probability must be the same number."""
    for place in (*model.modules(), model.config, model.config.get_text_config()):
        for name, value in list(vars(place).items()):
            if isinstance(value, float) and value and (name == "p" or "drop" in name or "jitter" in name):
                setattr(place, name, 0.0)


@torch.no_grad()
def refuse_unknown_head(model) -> None:
    """ValueError where the logits are not output embedding × last hidden state, e.g. under logit soft-capping."""
    probe = torch.zeros(1, 2, dtype=torch.long, device=model.get_input_embeddings().weight.device)
    name = type(model).__name__
    try:
        ours = model.get_output_embeddings()(model.base_model(input_ids=probe).last_hidden_state)
        theirs = model(input_ids=probe).logits
    except (AttributeError, IndexError, TypeError) as error:
        raise ValueError(f"{name} does not show its last hidden state; minirl cannot score it ({error})") from error
    if not theirs.isfinite().all():
        raise ValueError(f"{name} has logits that are not finite: its weights are broken; load another checkpoint")
    if not torch.allclose(ours, theirs, atol=1e-3, rtol=1e-3):
        raise ValueError(f"{name} changes its logits after the output embedding; minirl cannot score it")


@torch.no_grad()
def refuse_unknown_cache(policy: LanguagePolicy) -> None:
    """ValueError where going on from a cache is not the same as reading everything, as in recurrent models."""
    pad = policy.pad_id
    first, last = [token for token in (0, 1, 2) if token != pad][:2]
    prompts = torch.tensor([[pad, pad, first], [first, last, last]], device=policy.device)
    responses = torch.tensor([[[last, first, last]]] * 2, device=policy.device)
    lengths = torch.tensor([3, 3], device=policy.device)
    close = 0.05 if policy.model.dtype in (torch.bfloat16, torch.float16) or policy.device.type == "cuda" else 0.01
    refused = ValueError(
        f"{type(policy.model).__name__} does not go on from a cache of keys and values as if it had read all of it, so "
        "minirl cannot sample from it; choose a model in which every layer is attention"
    )
    try:
        with policy._half_precision():
            ways = [way(prompts, responses, lengths) for way in (policy._shared_passes, policy._packed_passes)]
            ours, theirs = (
                {int(row): each for rows, hidden in way for row, each in zip(rows, hidden, strict=True)} for way in ways
            )
        same = all(torch.allclose(ours[row], theirs[row], atol=close, rtol=close) for row in (0, 1))
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise refused from error
    if not same:
        raise refused


@contextmanager
def quiet():
    """Without the progress bars of transformers, which are gone before one can read them."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def load(name_or_path: str, max_new_tokens: int = 128, device: str | None = None, **settings) -> LanguagePolicy:
    """A policy from "pocket", "pocket-clean", a local folder or a Hugging Face name; only safetensors, no remote code.

    Weights are float32; `settings` go to LanguagePolicy. OSError in one sentence where there is no such model.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from minirl.llm import pocket

    source, local = pocket.located(name_or_path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local)
        with quiet() if name_or_path in pocket.NAMES else nullcontext():
            model = AutoModelForCausalLM.from_pretrained(
                source, dtype=torch.float32, use_safetensors=True, local_files_only=local
            )
    except (OSError, ValueError) as error:
        raise OSError(
            f"cannot load {name_or_path!r}: expected 'pocket', 'pocket-clean', a folder with safetensors, or the name "
            f"of a model on the Hugging Face hub, with the network on ({str(error).splitlines()[0]})"
        ) from error
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return LanguagePolicy(model.to(device), tokenizer, max_new_tokens, **settings)
