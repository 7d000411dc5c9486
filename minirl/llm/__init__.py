"""The same loop on language: a policy over any Hugging Face causal LM, word problems, GSM8K and a verifier."""
