"""Text to token ids and back, from a model folder, with ``tokenizers`` and ``jinja2`` alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verillm.errors import ConfigError, EncodingError, InvalidRequest
from verillm.sdk.jsoncodec import parse_json

Message = Mapping[str, str]
TOKENIZER_FILE = "tokenizer.json"


class TextCodec:
    """A model's tokenizer and chat template. Raises ConfigError if the folder or a package is missing."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigError("tokenizers: not installed; pip install tokenizers jinja2") from error
        path = self.folder / TOKENIZER_FILE
        if not path.is_file():
            raise ConfigError(
                f"tokenizer: {path} does not exist; give a model folder, or token ids as prompt"
            )
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception
            raise ConfigError(f"tokenizer: cannot read {path}: {error}") from error
        self._special, self._template = _chat_settings(self.folder)

    @property
    def has_chat(self) -> bool:
        """True if the model has a chat template."""
        return self._template is not None

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, without special tokens."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids, without special tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation, ready for the assistant's turn. Raises InvalidRequest."""
        if self._template is None:
            raise InvalidRequest("messages: the model has no chat template; give text or token ids")
        for i, message in enumerate(messages):
            if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
                raise InvalidRequest(f"messages[{i}]: must have role and content")
        return self.encode(_render(self._template, messages, self._special))


def _chat_settings(folder: Path) -> tuple[dict[str, str], str | None]:
    """(special tokens by name, template text or None)."""
    config: dict[str, Any] = {}
    path = folder / "tokenizer_config.json"
    if path.is_file():
        try:
            config = parse_json(path.read_text(), "file")
        except (UnicodeDecodeError, EncodingError) as error:
            raise ConfigError(f"tokenizer: {path} is not JSON: {error}") from error
        if not isinstance(config, dict):
            raise ConfigError(f"tokenizer: {path} is no object")
    special = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        special[name] = value if isinstance(value, str) else ""
    file = folder / "chat_template.jinja"
    template = file.read_text() if file.is_file() else config.get("chat_template")
    if isinstance(template, list):  # several named templates; the plain chat is "default"
        named = [t for t in template if isinstance(t, dict) and t.get("name") == "default"]
        template = named[0].get("template") if named else None
    return special, template if isinstance(template, str) else None


def _render(template: str, messages: Sequence[Message], special: Mapping[str, str]) -> str:
    """The conversation as text, in a sandbox: templates come from strangers."""
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise ConfigError("jinja2: not installed; pip install jinja2") from error

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = refuse
    try:
        compiled = environment.from_string(template)
        values = [dict(message) for message in messages]
        return compiled.render(messages=values, add_generation_prompt=True, **special)
    except Exception as error:  # a stranger's template raises what it likes
        raise InvalidRequest(f"messages: the chat template refused them: {error}") from error


class TextStream:
    """Text of a growing token list, without half characters."""

    def __init__(self, codec: TextCodec | None) -> None:
        self._codec = codec
        self.text = ""

    def advance(self, tokens: Sequence[int], last: bool = False) -> str:
        """What is new in the text of all ``tokens`` so far. An unfinished character at the end is held back
        until it is finished or ``last``."""
        if self._codec is None:
            return ""
        text = self._codec.decode(tokens)
        if text.endswith("\ufffd") and not last:
            text = text.rstrip("\ufffd")
        new = text[len(self.text) :] if text.startswith(self.text) else ""
        self.text += new
        return new
