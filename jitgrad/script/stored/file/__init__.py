"""Scripted programs in files: `jitgrad.jit.save` and `jitgrad.jit.load`.

    snapshot.py   the objects that a program reads besides its arguments, as a tree below the loaded module
    write.py      programs and objects as JSON, graphs as text
    read.py       the inverse, which believes nothing: every number, name and index is checked (`values.py`), every
                  path leads through the saved objects (`tree.py`)
    spans.py      the lines of source that messages show
    archive.py    the zip file: members, checksums, arrays
    objects.py    what is loaded: the module that runs, its parts
    choice.py     which program takes a call, and as what
    save.py       `save`; `load` is in `script/loaded.py`
"""
