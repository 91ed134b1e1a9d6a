"""Where somebody speaks in a recording: silero-vad with the weights of its PyPI package, the stream as one program.

    pip install --no-deps silero-vad       # 11 MB: weights (MIT)
    python examples/speech.py [file.wav]   # 16 kHz, 16 bits; without a file: tones, noise and silence

The loop over the chunks carries the state of an LSTM; it is compiled once for recordings of any length. With onnx and
onnxruntime installed, the package's ONNX file, whose weights are of another version, is run by both.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F

PACKAGE, RATE, CHUNK, CONTEXT, WINDOW = "silero_vad", 16000, 512, 64, 256
ONNX = "silero_vad_16k_op15.onnx"


def folder() -> Path | None:
    """Where the package keeps the model; None where it is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "data"


class Detector(nn.Module):
    """A spectrum by convolution, four convolutions, an LSTM cell, a probability. Names are the checkpoint's."""

    def __init__(self):
        super().__init__()
        self.stft_conv = nn.Conv1d(1, WINDOW + 2, WINDOW, stride=128, bias=False)
        self.conv1, self.conv2 = nn.Conv1d(129, 128, 3, padding=1), nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3, self.conv4 = nn.Conv1d(64, 64, 3, stride=2, padding=1), nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def chunk(self, x, h, c):
        """Samples (n, CONTEXT + CHUNK) and the state -> probabilities (n,) and the state that follows."""
        spectrum = self.stft_conv(F.pad(x[:, None], (0, 64), mode="reflect"))
        real, imaginary = spectrum.chunk(2, dim=1)
        x = (real.square() + imaginary.square()).sqrt()
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = conv(x).relu()
        h, c = self.lstm_cell(x[:, :, 0], (h, c))
        return self.final_conv(h.relu()[:, :, None]).sigmoid().mean(2).squeeze(1), h, c

    def forward(self, samples):
        """Samples (n, t) -> the probability of speech in each chunk, (n, chunks)."""
        n, t = samples.shape
        chunks = (t + CHUNK - 1) // CHUNK
        samples = F.pad(samples, (CONTEXT, chunks * CHUNK - t))
        h, c = torch.zeros(n, 128), torch.zeros(n, 128)
        found = torch.zeros(n, chunks)
        for i in range(chunks):
            found[:, i], h, c = self.chunk(samples[:, i * CHUNK:i * CHUNK + CONTEXT + CHUNK], h, c)
        return found


def pretrained(where: Path) -> Detector:
    model = Detector()
    model.load_state_dict(torch.load(where / "silero_vad_16k.safetensors"))
    return model.eval()


def pretrained_as_onnx(where: Path) -> Detector:
    """The model with the weights of the package's ONNX file, which stand there in the order of ours."""
    import onnx

    model = Detector()
    stored = onnx.load(where / ONNX).graph.initializer
    arrays = [torch.from_numpy(onnx.numpy_helper.to_array(array).copy()) for array in stored]
    model.load_state_dict(dict(zip(model.state_dict(), arrays, strict=True)))
    return model.eval()


def sounds(seconds: float = 3.0) -> np.ndarray[Any, Any]:
    """A voice-like tone with overtones that swell, between noise and silence, float32."""
    t = np.arange(int(seconds * RATE)) / RATE
    pitch = 2 * np.pi * 140 * t + 3 * np.sin(2 * np.pi * 4 * t)
    voice = sum(np.sin(k * pitch) / k for k in range(1, 12)) * (0.5 + 0.5 * np.sin(2 * np.pi * 3 * t))
    noise = np.random.default_rng(0).normal(0, 0.01, t.size)
    return (0.2 * voice * ((t > 1) & (t < 2)) + noise * (t < 2.5)).astype(np.float32)


def read(path: str) -> np.ndarray[Any, Any]:
    with wave.open(path) as file:
        if (file.getframerate(), file.getsampwidth()) != (RATE, 2):
            sys.exit(f"{path} is not of 16 kHz and 16 bits")
        data = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return data.reshape(-1, file.getnchannels())[:, 0].astype(np.float32) / 32768


def of_onnxruntime(where: Path, samples: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The package's ONNX model over a recording, chunk by chunk."""
    import onnxruntime

    session = onnxruntime.InferenceSession(where / ONNX, providers=["CPUExecutionProvider"])
    state, found = np.zeros((2, 1, 128), np.float32), []
    padded = np.pad(samples, (CONTEXT, -samples.size % CHUNK))[None]
    for begin in range(0, padded.shape[1] - CONTEXT, CHUNK):
        chunk = padded[:, begin:begin + CONTEXT + CHUNK]
        p, state = session.run(None, {"input": chunk, "state": state, "sr": np.array(RATE, np.int64)})
        found.append(p[0, 0])
    return np.array(found)


def main() -> None:
    where = folder()
    if where is None:
        sys.exit("the weights are missing: pip install --no-deps silero-vad")
    samples = read(sys.argv[1]) if len(sys.argv) > 1 else sounds()
    model = pretrained(where)
    scripted = torch.script(model)
    audio = torch.from_numpy(samples)[None]
    with torch.no_grad():
        for name, run in (("eager", model), ("scripted", scripted)):
            run(audio[:, :4 * CHUNK])
            started = time.perf_counter()
            found = run(audio)[0].numpy()
            print(f"{name}: {1e6 * (time.perf_counter() - started) / found.size:.0f} us a chunk of 32 ms")
    if importlib.util.find_spec("onnx") and importlib.util.find_spec("onnxruntime"):
        expected = of_onnxruntime(where, samples)
        with torch.no_grad():
            ours = torch.script(pretrained_as_onnx(where))(audio)[0].numpy()
        print(f"beside onnxruntime, with its weights: largest difference {abs(ours - expected).max():.1e}")
    print("".join("▁▂▃▄▅▆▇█"[min(7, int(8 * p))] for p in found))


if __name__ == "__main__":
    main()
