"""PyTorch's files, as `torch.save` writes them: of today, a zip file, and of before 1.6, pickles with data behind them.

    archive/data.pkl     the object; a tensor in it names a storage, an offset, sizes and strides
    archive/data/0 ...   one storage each, its bytes as they lie in memory
    archive/byteorder    "little" or "big"

The older form: a magic number, a version and facts of the machine, the object, the storages' keys (a pickle each), then
per key the number of elements, int64, and the bytes. Tensors that share a storage share memory here, too.

Read twice: first without tensors, which tells what is refused and what storages there are before any of them is read;
then `map_location` is asked where each of them goes; then with tensors.
Source: torch/serialization.py, torch/_utils.py, torch/csrc/jit/serialization of PyTorch 2.13 (what they write).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jitgrad
from jitgrad import dtypes
from jitgrad.eager.construct import from_numpy
from jitgrad.eager.locations import Locations
from jitgrad.eager.tensor import Tensor
from jitgrad.serialization.archive import WIDEST, Array, LoadError, Source, check_members, numbers, undamaged
from jitgrad.serialization.pickles import Blank, Machine, Named, Refused, refusals

if TYPE_CHECKING:
    import zipfile

WHAT = "file of PyTorch"
MAGIC, PROTOCOL = 0x1950a86a20f9469cfc6c, 1001
#: the classes of storages by the dtype of their elements
STORAGES = {"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
            "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
            "ComplexFloat": "complex64", "ComplexDouble": "complex128"}
#: the class of storages whose dtype tensors say
UNTYPED = "torch.storage.UntypedStorage"


class Stored(NamedTuple):
    """A storage as a pickle names it."""

    key: str
    dtype: dtypes.dtype
    location: str
    length: int


def _by_name(name: str) -> Any:
    """A dtype of ours; a blank for one that there is not."""
    try:
        return dtypes.by_name(name)
    except KeyError:
        return Blank(f"torch.{name}")


def _values() -> dict[str, Any]:
    """What a file's other names stand for: dtypes, classes of storages (their dtype), classes of tensors (True)."""
    found: dict[str, Any] = {f"torch.{d.name}": d for d in dtypes.ALL}
    for name, d in STORAGES.items():
        storage = _by_name(d)
        found[f"torch.{name}Storage"] = storage if isinstance(storage, Blank) else Named(f"{name}Storage", fact=storage)
    tensors = ["torch.Tensor", "torch.nn.parameter.Parameter", *(f"torch.{name}Tensor" for name in STORAGES)]
    return {**found, UNTYPED: Named(UNTYPED, fact=dtypes.uint8), **{name: Named(name, fact=True) for name in tensors}}


def _device(*given: Any) -> Any:
    if not given or not isinstance(given[0], str) or not all(type(n) is int for n in given[1:]):
        raise LoadError("damaged file: a device without a name")
    return jitgrad.device(*given)


def _sizes(given: Any) -> tuple[int, ...]:
    if not isinstance(given, tuple) or not all(type(n) is int and n >= 0 for n in given):
        raise LoadError("damaged file: sizes or strides that are no natural numbers")
    return given


class _Builder:
    """Makes tensors of storages.

    Args:
        placed: what stands for a storage; None while they are listed.
    """

    def __init__(self, placed: Callable[[Stored], Tensor] | None = None):
        self._placed = placed
        self.storages: dict[Stored, None] = {}

    def persistent(self, named: Any) -> Any:
        """The storage of a persistent id: ("storage", class, key, location, number of elements)."""
        kind, cls, key, location, count, *view = named
        if isinstance(cls, Blank):
            return cls
        known = isinstance(cls, Named) and isinstance(cls.fact, dtypes.dtype)
        if kind != "storage" or not known or any(v is not None for v in view):
            raise LoadError("damaged file: an object is kept outside that is no storage")
        if not isinstance(key, str) or not isinstance(location, str) or type(count) is not int or count < 0:
            raise LoadError("damaged file: a storage without a key, a place or a length")
        stored = Stored(key, cls.fact, location, count)
        self.storages[stored] = None
        return Blank(None) if self._placed is None else Named("torch.storage", fact=stored)

    def machine(self, classes: Mapping[str, Any]) -> Machine:
        """One that makes what files of PyTorch hold, and objects of the user's classes."""
        utils = (self._rebuild_tensor, self._rebuild_tensor_v2, self._rebuild_tensor_v3, self._rebuild_parameter,
                 self._rebuild_parameter_with_state)
        functions: dict[str, Callable[..., Any]] = {
            "torch._tensor._rebuild_from_type_v2": self._rebuild_from_type_v2, "torch.device": _device,
            "torch.Size": lambda sizes=(): jitgrad.Size(_sizes(sizes))}
        functions |= {f"torch._utils.{f.__name__}": f for f in utils}
        return Machine(functions, _values(), self.persistent, classes)

    def _rebuild_tensor(self, storage: Any, offset: Any, size: Any, stride: Any, marks: Any = None) -> Tensor:
        stored = getattr(storage, "fact", storage)
        if not isinstance(stored, Stored) or self._placed is None:
            raise LoadError(f"damaged file: a tensor of a {type(storage).__name__}")
        if type(offset) is not int or offset < 0 or len(_sizes(size)) != len(_sizes(stride)):
            raise LoadError("damaged file: a tensor whose sizes and strides do not fit")
        made: Any = self._placed(stored)
        if not {None, False}.issuperset((marks or {}).values()):  # what PyTorch does when it reads the numbers
            if not isinstance(marks, dict) or not marks.keys() <= {"conj", "neg"}:
                raise LoadError("a tensor with a mark that there is not here")
            for name in [name for name, set_ in marks.items() if set_]:
                made = getattr(made, name)()
        with jitgrad.no_grad():
            view: Tensor = made.as_strided(size, stride, offset).data
        return view

    def _rebuild_tensor_v2(self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any,
                           hooks: Any = None, metadata: Any = None) -> Tensor:
        return self._rebuild_tensor(storage, offset, size, stride, metadata).requires_grad_(bool(requires_grad))

    def _rebuild_tensor_v3(self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any,
                           hooks: Any, dtype: Any, metadata: Any = None) -> Tensor:
        stored = getattr(storage, "fact", None)
        if not isinstance(stored, Stored) or not isinstance(dtype, dtypes.dtype):
            raise LoadError("damaged file: a tensor without a dtype")
        typed = stored._replace(dtype=dtype, length=stored.length // dtype.itemsize)
        return self._rebuild_tensor_v2(typed, offset, size, stride, requires_grad, metadata=metadata)

    def _rebuild_parameter(self, data: Any, requires_grad: Any, hooks: Any = None) -> Tensor:
        if not isinstance(data, Tensor):
            raise LoadError(f"damaged file: a parameter of a {type(data).__name__}")
        return jitgrad.nn.Parameter(data, bool(requires_grad))

    def _rebuild_parameter_with_state(self, data: Any, requires_grad: Any, hooks: Any, state: Any) -> Tensor:
        return self._with_attributes(self._rebuild_parameter(data, requires_grad), state)

    def _rebuild_from_type_v2(self, function: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
        if not isinstance(kind, Named) or kind.fact is not True or not isinstance(function, Named) or not function.make:
            raise LoadError("damaged file: a tensor of an unknown class")
        made = function.make(*arguments)
        if not isinstance(made, Tensor):
            raise LoadError(f"damaged file: a tensor made as {type(made).__name__}")
        return self._with_attributes(made, state)

    @staticmethod
    def _with_attributes(t: Tensor, state: Any) -> Tensor:
        """A tensor with what its user wrote to it; names that a tensor has itself are not taken."""
        values, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        for name, value in {**(values or {}), **(slots or {})}.items():
            if not isinstance(name, str) or (name.startswith("_") and name != "_is_buffer") or hasattr(Tensor, name):
                raise LoadError("damaged file: a tensor with an attribute that is not the user's")
            setattr(t, name, value)
        return t


class _Storages:
    """The numbers of storages; those of one storage are one memory, however often and as what it is named.

    Args:
        fetch: the bytes of a storage, aligned.
        little: whether their order is little-endian.
    """

    def __init__(self, fetch: Callable[[str], Array], little: bool):
        self._fetch, self._little = fetch, little
        self._bytes: dict[str, Array] = {}
        self._numbers: dict[tuple[str, dtypes.dtype], Array] = {}

    def read(self, stored: Stored) -> Array:
        if stored.key not in self._bytes:
            self._bytes[stored.key] = self._fetch(stored.key)
        data, d = self._bytes[stored.key], stored.dtype
        if (stored.key, d) not in self._numbers:
            self._numbers[stored.key, d] = numbers(data, d, data.size // d.itemsize, self._little)
        found = self._numbers[stored.key, d]
        if stored.length > found.size:
            raise LoadError(f"damaged file: {data.size} bytes for {stored.length} numbers of {d.name}")
        return found[:stored.length]


def _built(run: Callable[[Machine], Any], storages: _Storages, locations: Locations,
           classes: Mapping[str, Any]) -> Any:
    """The object that `run` has a machine make.

    Args:
        run: makes it, twice.
        storages: what tensors are made of.
        locations: where storages go.
        classes: of the user's, which may be made.
    """
    with undamaged(WHAT):
        listing = _Builder()
        _require_known(run(listing.machine(classes)))
    placed: dict[Stored, Tensor] = {}

    def place(stored: Stored) -> Tensor:
        if stored not in placed:  # a storage of bytes, of which a tensor now says what they are
            with undamaged(WHAT):
                data = from_numpy(storages.read(stored))
            placed[stored] = locations.tensor(data, stored.location)
        return placed[stored]

    for stored in listing.storages:
        place(stored)  # what is raised by map_location is not the file's fault
    builder = _Builder(place)
    with undamaged(WHAT):
        made = run(builder.machine(classes))
        _require_known(made)
    return made


def _require_known(obj: Any) -> None:
    """Refused where something in an object was not built; the message says what and where."""
    refused = refusals(obj)
    if not refused:
        return
    first = ", ".join([f"`{name}` at object{path}" for name, path in refused[:5]])
    more = f" and {len(refused) - 5} more" if len(refused) > 5 else ""
    advice = "" if all(name.startswith("torch.") for name, _ in refused) else (
        "; for a class whose objects you want to be made, call jitgrad.serialization.add_safe_globals([cls]) before")
    raise Refused(f"the file holds what is not loaded: {first}{more}. Loading never runs code that a file names. Save, "
                  "with PyTorch, state_dict()s instead of modules, dense tensors of dtypes that jitgrad has, too, "
                  "numbers, strings and containers" + advice)


def read_zip(archive: zipfile.ZipFile, root: str, source: Source, locations: Locations,
             classes: Mapping[str, Any]) -> Any:
    """What `torch.save` writes since 1.6; `root`: the folder in the zip file."""
    with undamaged(WHAT):
        check_members(archive, source.file)
        there = {info.filename: info for info in archive.infolist()}
        program = bytes(source.member(there[f"{root}data.pkl"]))
        order = bytes(source.member(there[f"{root}byteorder"])) if f"{root}byteorder" in there else b"little"
        if f"{root}constants.pkl" in there:
            raise LoadError("a file of torch.jit.save, which holds TorchScript. Load it with PyTorch, and save the "
                            "module's state_dict()")
        if order not in (b"little", b"big"):
            raise LoadError(f"damaged file: the byte order {order!r}")
    storages = _Storages(lambda key: source.member(there[f"{root}data/{key}"]), order == b"little")
    return _built(lambda machine: machine.run(io.BytesIO(program)), storages, locations, classes)


def read_legacy(source: Source, locations: Locations, classes: Mapping[str, Any]) -> Any:
    """What `torch.save` wrote before 1.6, and writes with `_use_new_zipfile_serialization=False`."""
    places: dict[str, tuple[int, int]] = {}  # where the bytes of a storage begin, and how many there are
    file = io.BytesIO(source.part(0, source.size).data)

    def persistent(_: Any) -> Any:
        raise LoadError("damaged file: a storage where none may be")

    with undamaged(WHAT):
        plain = Machine({}, {}, persistent, {})
        magic, protocol, facts = [plain.run(file) for _ in range(3)]
        if magic != MAGIC or protocol != PROTOCOL:
            raise LoadError(f"not a {WHAT}: another magic number or version")
        little = facts["little_endian"] is True
        begin = file.tell()
        listing = _Builder()
        listing.machine(classes).run(file)
        sizes = {stored.key: stored.dtype.itemsize for stored in listing.storages}
        keys = plain.run(file)
        at = file.tell()
        for key in keys:
            if not isinstance(key, str):
                raise LoadError("damaged file: a storage without a key")
            count = int.from_bytes(bytes(source.part(at, 8)), "little" if little else "big", signed=True)
            places[key] = at + 8, count * sizes[key]
            at += 8 + count * sizes[key]
            if count < 0 or at > source.size:
                raise LoadError(f"damaged file: a storage of {count} elements")

    storages = _Storages(lambda key: source.part(*places[key], WIDEST), little)

    def run(machine: Machine) -> Any:
        file.seek(begin)
        return machine.run(file)

    return _built(run, storages, locations, classes)
