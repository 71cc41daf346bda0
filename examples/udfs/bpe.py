"""A tokenizer of Hugging Face's package `tokenizers`, trained on the texts at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MOST_TOKENS = 2048


def trained_on(folder: str, *, vocabulary: int = 8000) -> Tokenizer:
    """Byte pairs of the English texts in a folder of Parquet files."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts(folder), trainer)
    return tokenizer


def texts(folder: str) -> Iterator[str]:
    """The English texts of a folder."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder, columns=["text"], filters=[("lang", "=", "en")])
    yield from table["text"].to_pylist()


def encode(text: str, tokenizer: Tokenizer) -> list[int]:
    """The text's tokens; ValueError for a text that no model would take whole."""
    tokens = tokenizer.encode(text).ids
    if len(tokens) > MOST_TOKENS:
        raise ValueError(f"{len(tokens):,} tokens are more than {MOST_TOKENS:,}")
    return tokens
