"""jitgrad's own format: tensors and plain containers in a zip file of .npy arrays and one JSON description.

Nothing in a file is code: reading builds tensors, numbers, strings, bytes, None, lists, tuples, sets, dicts, dtypes,
parameters, and modules of `jitgrad.nn`'s own classes from what is in their attributes, and refuses everything else.
Tensors that share memory are saved once and share it again after loading; one parameter or module stays one.

    data.json   {"format": "jitgrad", "version": 1, "root": <description>}
    t0.npy ...  one array per memory; a tensor that is a part of it says which: "view": [offset, sizes, strides]
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from jitgrad import dtypes
from jitgrad.device import device
from jitgrad.eager.arrays.arrays import to_host
from jitgrad.eager.autograd.grad_mode import no_grad
from jitgrad.eager.construct import from_numpy
from jitgrad.eager.locations import Locations
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.tensorbase import Size
from jitgrad.serialization.archive import ALIGNMENT, Array, LoadError, Source, check_members, read_array, undamaged

if TYPE_CHECKING:
    import zipfile

#: version 2 has views: what reads only version 1 would take a memory for the tensor
FORMAT, VERSION = "jitgrad", 2
#: containers by their kind; an object is of the first one that fits
DICTS: dict[str, type[Any]] = {"odict": OrderedDict, "counter": Counter, "dict": dict}
SEQUENCES: dict[str, type[Any]] = {"list": list, "size": Size, "tuple": tuple, "set": set, "frozenset": frozenset}


def _own_class(name: str) -> type[Any] | None:
    """The class of modules that a file of `jitgrad.nn` makes, by both names: "modules.linear.Linear"."""
    from jitgrad import nn

    file, _, own = f"{nn.__name__}.{name}".rpartition(".")
    found = vars(sys.modules.get(file, nn)).get(own)
    return found if isinstance(found, type) and issubclass(found, nn.Module) and found.__module__ == file else None


def _own_function(name: str) -> Any:
    """The function that `jitgrad.nn.functional` has under a name: a module's activation."""
    from jitgrad.nn import functional

    found = None if name.startswith("_") else vars(functional).get(name)
    return found if callable(found) and not isinstance(found, type) else None


# --- writing -------------------------------------------------------------------------------------------------------


class _Writer:
    """Descriptions of objects, and the arrays that they refer to."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        #: numbers of arrays that are parts of others
        self.unused: set[int] = set()
        #: descriptions of tensors on the CPU, by the number of their array
        self._views: dict[int, list[dict[str, Any]]] = {}
        #: numbers of the parameters and modules so far, which live as long as this
        self._kept: dict[int, tuple[int, Any]] = {}

    def describe(self, obj: Any, where: str) -> Any:
        """JSON for an object; `where` is its path, for the message."""
        if obj is None or isinstance(obj, (bool, str)):
            return obj
        from jitgrad.nn import Module, Parameter

        if isinstance(obj, (Parameter, Module)):
            if id(obj) in self._kept:
                return {"same": self._kept[id(obj)][0]}
            self._kept[id(obj)] = len(self._kept), obj
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(obj, (int, np.integer)):
            return {"int": str(int(obj))} if abs(int(obj)) >= 1 << 53 else int(obj)
        if isinstance(obj, (float, np.floating)):
            return float(obj) if math.isfinite(obj) else {"float": repr(float(obj))}
        if isinstance(obj, complex):
            return {"complex": [repr(obj.real), repr(obj.imag)]}
        if isinstance(obj, (bytes, bytearray)):
            return {type(obj).__name__: obj.hex()}
        if isinstance(obj, np.ndarray):
            return {"ndarray": self._array(obj)}
        if isinstance(obj, dtypes.dtype):
            return {"dtype": obj.name}
        if isinstance(obj, device):
            return {"device": str(obj)}
        if isinstance(obj, dict):
            kind = next(kind for kind, cls in DICTS.items() if isinstance(obj, cls))
            items = [[self.describe(k, f"{where} key"), self.describe(v, f"{where}[{k!r}]")] for k, v in obj.items()]
            metadata = getattr(obj, "_metadata", None)  # a state_dict's: of what versions its modules are
            return {kind: items} if metadata is None else {kind: items, "metadata": self.describe(metadata, "metadata")}
        for kind, cls in SEQUENCES.items():
            if isinstance(obj, cls):
                return {kind: [self.describe(v, f"{where}[{i}]") for i, v in enumerate(obj)]}
        return self._own(obj, where)

    def _own(self, obj: Any, where: str) -> Any:
        """A module or function of `jitgrad.nn`."""
        from jitgrad.nn import Module

        name = f"{type(obj).__module__}.{type(obj).__name__}".removeprefix("jitgrad.nn.")
        if isinstance(obj, Module) and _own_class(name) is type(obj):
            return {"module": name, "state": self.describe(obj.__getstate__(), where)}
        if callable(obj) and _own_function(name := getattr(obj, "__name__", "")) is obj:
            return {"function": name}
        raise TypeError(f"cannot save {where}: an object of type `{type(obj).__name__}`; of a module with classes of "
                        "your own save the `state_dict()`, and give it to `load_state_dict` of a new one")

    def _tensor(self, t: Tensor) -> Any:
        from jitgrad.nn import Parameter

        kind = "parameter" if isinstance(t, Parameter) else "tensor"
        found: dict[str, Any] = {kind: self._array(to_host(t._data), t), "requires_grad": bool(t.requires_grad)}
        if t.is_cuda:
            return {**found, "device": str(t.device)}
        self._views.setdefault(found[kind], []).append(found)
        return found

    def _array(self, a: np.ndarray[Any, Any], t: Tensor | None = None) -> int:
        there: Any = a if t is None else t._data
        where = a.__array_interface__["data"][0] if t is None or not t.is_cuda else (str(t.device), t.data_ptr())
        key = (where, a.shape, there.strides, a.dtype.str)
        if key not in self._numbers or not a.size:
            self._numbers[key] = len(self.arrays)
            self.arrays.append(a)
        return self._numbers[key]

    def share(self) -> None:
        """Of tensors that lie in each other's memory keep the memory, and say of each what part of it is its own."""
        spans = [(*np.lib.array_utils.byte_bounds(self.arrays[n]), n) for n in self._views if self.arrays[n].size]
        together: list[list[int]] = []
        reach = 0
        for begin, end, number in sorted(spans):
            if begin < reach and self.arrays[number].dtype == self.arrays[together[-1][0]].dtype:
                together[-1].append(number)
            else:
                together.append([number])
            reach = max(reach, end)
        sizes = {number: end - begin for begin, end, number in spans}
        for group in together:
            if len(group) > 1 or sizes[group[0]] < self.arrays[group[0]].nbytes:  # one that was expanded
                self._share(group)

    def _share(self, group: list[int]) -> None:
        arrays = [self.arrays[number] for number in group]
        bounds = [np.lib.array_utils.byte_bounds(a) for a in arrays]
        begin, size = bounds[0][0], arrays[0].itemsize
        steps = [step for (start, _), a in zip(bounds, arrays, strict=True) for step in (start - begin, *a.strides)]
        if any(step < 0 or step % size for step in steps):
            return  # no tensor of ours, but of an array of somebody's; they stay apart
        for (start, _), array, number in zip(bounds, arrays, group, strict=True):
            for described in self._views[number]:
                described["tensor" if "tensor" in described else "parameter"] = len(self.arrays)
                described["view"] = [(start - begin) // size, list(array.shape), [s // size for s in array.strides]]
            self.unused.add(number)
        length = (max(end for _, end in bounds) - begin) // size
        self.arrays.append(np.lib.stride_tricks.as_strided(arrays[0], (length,), (size,)))


def write(obj: Any, file: IO[bytes]) -> None:
    """Write `obj`. TypeError for what the format does not hold; the message says where it is."""
    import zipfile

    writer = _Writer()
    root = writer.describe(obj, "the object")
    writer.share()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        header = {"format": FORMAT, "version": VERSION if writer.unused else 1, "root": root}
        archive.writestr("data.json", json.dumps(header, allow_nan=False))
        for number, array in enumerate(writer.arrays):
            if number in writer.unused:
                continue
            with archive.open(_aligned(archive, f"t{number}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _aligned(archive: zipfile.ZipFile, name: str) -> Any:
    """A member whose bytes begin at a multiple of ALIGNMENT: an extra field of its header is as long as that takes."""
    from zipfile import ZipInfo

    member = ZipInfo(name)
    begin = archive.start_dir + 30 + len(name) + 20 + 4  # of which 20 are the field of large files
    member.extra = b"JG" + (length := -begin % ALIGNMENT).to_bytes(2, "little") + bytes(length)
    return member


# --- reading -------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, archive: zipfile.ZipFile, source: Source):
        self._archive, self._source = archive, source
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}
        self._moved: dict[tuple[int, str], Tensor] = {}
        #: None while the file is checked: tensors stay where they are
        self.locations: Locations | None = None
        #: the parameters and modules so far
        self.kept: list[Any] = []

    def build(self, d: Any) -> Any:
        """The object of a description."""
        if d is None or isinstance(d, (bool, int, float, str)):
            return d
        if not isinstance(d, dict) or not d:
            raise LoadError("damaged file: an unknown kind of entry")
        kind, value = next(iter(d.items()))
        if kind in ("tensor", "parameter"):
            return self._tensor(kind, value, d)
        if kind in (*DICTS, *SEQUENCES) and not isinstance(value, list):
            raise LoadError(f"damaged file: a {kind} without items")
        if kind in SEQUENCES:
            return SEQUENCES[kind](self.build(v) for v in value)
        if kind in DICTS:
            found = DICTS[kind]({self.build(k): self.build(v) for k, v in value})
            if "metadata" in d and kind == "odict":
                found._metadata = self.build(d["metadata"])
            return found
        simple: dict[str, Callable[[Any], Any]] = {
            "int": int, "float": float, "complex": lambda parts: complex(*map(float, parts)), "bytes": bytes.fromhex,
            "bytearray": bytearray.fromhex, "dtype": dtypes.by_name, "device": device, "ndarray": self._array}
        if kind == "module":
            return self._module(value, d["state"])
        if kind == "same":
            return self.kept[int(value)]
        if kind == "function" and (function := _own_function(value)):
            return function
        if kind not in simple:
            raise LoadError(f"a file of a newer version? entry of kind `{kind}` is unknown")
        return simple[kind](value)

    def _tensor(self, kind: str, number: Any, d: dict[str, Any]) -> Any:
        where, requires_grad = d.get("device", "cpu"), bool(d.get("requires_grad", False))
        if self.locations is None:
            device(where)  # raises for what is no device's name
            t = from_numpy(self._array(number))
        else:
            t = self._located(number, where, self.locations)
        if "view" in d:
            offset, shape, strides = d["view"]
            with no_grad():
                t = t.as_strided(shape, strides, offset).data
        if kind == "tensor":
            return t.requires_grad_() if requires_grad else t
        from jitgrad.nn import Parameter

        self.kept.append(Parameter(t, requires_grad))
        return self.kept[-1]

    def _module(self, name: str, state: Any) -> Any:
        """A module of one of our classes, of which no code runs but `__setstate__`, with its attributes."""
        cls = _own_class(name)
        if cls is None:
            raise LoadError(f"a file of a newer version? `nn.{name}` is unknown")
        made = object.__new__(cls)
        self.kept.append(made)
        values = self.build(state)
        if not isinstance(values, dict) or not all(isinstance(values.get(part), dict) for part in (
                "_parameters", "_buffers", "_modules")):
            raise LoadError(f"damaged file: `nn.{name}` without its parts")
        made.__setstate__(values)
        return made

    def _located(self, number: Any, where: str, locations: Locations) -> Any:
        """The tensor of an array, where `map_location` wants it, or on the device that it was saved from."""
        key = (int(number), where)
        if key not in self._moved:
            self._moved[key] = locations.tensor(from_numpy(self._array(number)), where)
        made: Any = self._moved[key].detach()
        return made

    def _array(self, number: Any) -> np.ndarray[Any, Any]:
        if number not in self._arrays:
            name = f"t{int(number)}.npy"
            self._arrays[number] = read_array(self._source.member(self._archive.getinfo(name)), name)
        return self._arrays[number]


def read(archive: zipfile.ZipFile, source: Source, locations: Locations) -> Any:
    """What `write` wrote."""
    with undamaged("jitgrad file"):
        check_members(archive, source.file)
        header = json.loads(archive.read("data.json"))
        if header.get("format") != FORMAT:
            raise LoadError("not a jitgrad file")
        if header.get("version", 0) > VERSION:
            raise LoadError(f"a file of version {header['version']}, but this jitgrad reads up to {VERSION}")
        reader = _Reader(archive, source)
        reader.build(header["root"])
    reader.kept.clear()
    reader.locations = locations  # what is raised from here on is not the file's fault
    return reader.build(header["root"])
