import numpy as np
import pytest
import torch

from node.behaviour import Behaviour
from node.cheats import DieAfter, Forge, Int4, Lazy, make_behaviour, quantise_int4
from verillm.constants import FinishReason
from verillm.engine.finish import GenerationSpec
from verillm.engine.transformers_engine import Engine
from verillm.errors import ConfigError
from verillm.types import SamplingParams

PROMPT = [5, 6, 7, 8, 9, 10]
SPEC = GenerationSpec(SamplingParams(temperature_ppm=1_000_000, seed=3), 12)


@pytest.fixture
def load(tiny_folder, tiny_manifest):
    return lambda: Engine.from_manifest(tiny_folder, tiny_manifest)


def _run(behaviour: Behaviour):
    state = behaviour.prefill(PROMPT)
    streamed: list[int] = []
    behaviour.decode([state], [SPEC], lambda _, token: streamed.append(token))
    assert streamed == state.output
    rows = len(PROMPT) + len(state.output) - 1
    assert all(state.store.count(b) == rows for b in range(state.store.boundaries))
    return state


def test_int4_has_at_most_15_levels_per_group_and_is_close():
    weight = torch.randn(3, 70, generator=torch.Generator().manual_seed(1))
    quantised = quantise_int4(weight)
    assert quantised.shape == weight.shape
    assert len(quantised[0, :32].unique()) <= 15
    assert (quantised - weight).abs().max() <= weight.abs().max() / 7
    assert not torch.equal(quantised, weight)


def test_honest_is_the_engine_itself(load):
    assert _run(make_behaviour(None, load)).finish_reason is not None


def test_int4_really_computes_something_else(load):
    honest, cheat = load().prefill(PROMPT), Int4(load()).prefill(PROMPT)
    assert not np.array_equal(honest.store.rows(1), cheat.store.rows(1))


def test_forge_writes_other_text_but_commits_honest_rows_of_it(load):
    state = _run(Forge(load(), load()))
    assert state.output != _run(Behaviour(load())).output
    honest = load().prefill([*PROMPT, *state.output[:-1]])
    for boundary in range(2):
        assert np.array_equal(honest.store.rows(boundary), state.store.rows(boundary))


def test_lazy_makes_rows_up_and_infers_honestly(load):
    lazy = Lazy(load())
    first, second = lazy.prefill(PROMPT), lazy.prefill(PROMPT)
    assert not np.array_equal(first.store.rows(1), second.store.rows(1))
    assert _run(lazy).output == _run(Behaviour(load())).output
    assert not lazy.accuses


def test_die_after_ends_the_process(load, monkeypatch):
    codes: list[int] = []
    monkeypatch.setattr("node.cheats.os._exit", codes.append)
    cheat = make_behaviour("die-after:3", load)
    assert isinstance(cheat, DieAfter)
    cheat.streamed(2)
    assert codes == []
    cheat.streamed(1)
    assert codes == [1]


def test_unknown_cheats_are_named(load):
    with pytest.raises(ConfigError, match="int4, forge, lazy"):
        make_behaviour("sleep", load)


def test_finish_reason_is_a_protocol_value(load):
    assert _run(Behaviour(load())).finish_reason in list(FinishReason)
