"""Between text and token ids, with the model's own tokenizer and chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from verillm.errors import InvalidRequest

Message = dict[str, str]
"""``role`` and ``content``."""


class TextTools:
    """The text half of an engine; ``tokenizer`` is a transformers tokenizer."""

    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, without special tokens."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, without special tokens; the text in which stop strings are looked for."""
        return self.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation in the model's chat template, ready for the assistant's turn.

        Raises InvalidRequest if the model has no template or the template refuses the messages.
        """
        try:
            text = self.tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, tokenize=False
            )
        except Exception as error:  # jinja and the tokenizer raise their own types
            raise InvalidRequest(f"messages: the chat template refused them: {error}") from error
        return self.encode(str(text))
