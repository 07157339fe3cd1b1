"""Jobs of the study: prompts of many kinds and sampling of many kinds, fixed by (seed, number)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from verillm.constants import PPM
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine
from verillm.types import SamplingParams

TEMPERATURES_PPM = (0, 700_000, PPM, 1_300_000)
MASKS = ((0, PPM), (0, PPM), (50, PPM), (0, 900_000), (20, 950_000))
LENGTHS = (1, 2, 5, 12, 24, 48)
PROMPT_LIMIT = 96
"""Most prompt tokens of a cheat's job."""
HONEST_LIMIT, LONG_EVERY, LONG_LIMIT = 48, 16, 400
"""The honest matrix has many short prompts, and one in LONG_EVERY of up to LONG_LIMIT tokens."""
QUESTIONS = (
    "Why is the sky dark at night?",
    "Write a haiku about rust on a ship.",
    "How many minutes are there in a leap year? Think step by step.",
    "What should I cook with lentils, onions and one lemon?",
    "Erkl\u00e4re kurz, warum Brot aufgeht.",
    "\u00bfQu\u00e9 diferencia hay entre un r\u00edo y un arroyo?",
    "Make a table of the planets with their day lengths.",
    "Reply with one word: is ice lighter than water?",
)
TEXTS = (
    "The committee met on Tuesday and adjourned without a vote, as it had the week before. ",
    "import asyncio\n\nasync def main() -> None:\n    async with asyncio.timeout(3):\n        await ",
    "SELECT name, COUNT(*) FROM visits WHERE day >= '2021-03-01' GROUP BY name HAVING ",
    "Chapter 4. In which the innkeeper's daughter learns to read the tide, and her brother does not. ",
    "Ingredients: 200 g flour, 3 eggs, 1/2 l milk, salt.\n1. Mix.\n2. Wait.\n3. ",
    "x = 3; y = x * x + 7; therefore y = 16. Next, let z = y - ",
    '{"id": 4711, "tags": ["red", "blue"], "price": 19.90, "stock": ',
    "\u041f\u0440\u0438\u0432\u0435\u0442! \u65e5\u672c\u8a9e\u306e\u6587\u3002 La pluie tombe. ",
    "Dear Ms. Okafor,\n\nthank you for your letter of 9 May about the broken heating in flat 12. ",
    "A glacier is a slow river: snow falls, is pressed to ice, and creeps downhill under its own weight. ",
)


@dataclass(frozen=True)
class Request:
    """A prompt and what to generate for it."""

    number: int
    prompt: tuple[int, ...]
    spec: GenerationSpec


def request(engine: Engine, seed: int, number: int, output_tokens: int | None = None) -> Request:
    """Job ``number`` of a study. ``output_tokens`` None draws a length, masks and stop strings too; otherwise
    the job has that length, at temperatures above 0, unmasked."""
    rng = random.Random(f"study {seed} {number}")
    honest = LONG_LIMIT if number % LONG_EVERY == LONG_EVERY - 1 else HONEST_LIMIT
    limit = honest if output_tokens is None else PROMPT_LIMIT
    prompt = _prompt(engine, number, rng)[:limit]
    if not engine.tokenizer.chat_template and engine.tokenizer.bos_token_id is not None:
        prompt = [engine.tokenizer.bos_token_id, *prompt]
    if output_tokens is not None:
        temperature = TEMPERATURES_PPM[1 + number % 3]
        return Request(number, tuple(prompt), _spec(temperature, 0, PPM, rng, output_tokens))
    top_k, top_p = rng.choice(MASKS)
    stop = ("\n\n",) if rng.random() < 0.15 else ()
    temperature = rng.choice(TEMPERATURES_PPM)
    return Request(number, tuple(prompt), _spec(temperature, top_k, top_p, rng, rng.choice(LENGTHS), stop))


def _spec(
    temperature: int, top_k: int, top_p: int, rng: random.Random, tokens: int, stop: tuple[str, ...] = ()
) -> GenerationSpec:
    return GenerationSpec(SamplingParams(temperature, top_k, top_p, rng.getrandbits(64)), tokens, stop)


def _ask(engine: Engine, text: str) -> list[int]:
    """In the model's chat template, if it has one."""
    if engine.tokenizer.chat_template:
        return engine.chat([{"role": "user", "content": text}])
    return engine.encode(f"Question: {text}\nAnswer:")


def _prompt(engine: Engine, number: int, rng: random.Random) -> list[int]:
    """Chat, text, code, other languages, repetition and plain noise; from one token up."""
    question = f"{rng.choice(QUESTIONS)} ({rng.randrange(1000)})"
    match number % 8:
        case 1:
            return engine.encode(rng.choice(TEXTS))
        case 2:
            return engine.encode("".join(rng.choices(TEXTS, k=rng.randrange(4, 30))) + question)
        case 4:
            return [rng.randrange(engine.vocab_size) for _ in range(rng.randrange(4, 80))]
        case 5:
            word = rng.choice(("tick", "0", "the sea,", "ha"))
            return engine.encode(" ".join([word] * rng.randrange(5, 90)))
        case 6:
            return engine.encode(question)[: rng.randrange(1, 5)]
        case 7:
            passage = "".join(rng.sample(TEXTS, rng.randrange(2, len(TEXTS))))
            return _ask(engine, f"Summarise:\n{passage}")
        case _:
            return _ask(engine, question)
