"""Generated Python as code; that of a long text is kept in the disk cache, as compiling takes longer than reading.

    exec(code("def f(): return 1", "<jitgrad f>"), scope)

A text that is to be found again holds no address and no other number of its process.
"""

import marshal
import sys
from types import CodeType

from jitgrad.codegen.run import store

#: characters that take a millisecond to compile
LONG = 5000


def code(text: str, title: str) -> CodeType:
    """The code of a module's text; `title` stands for a file's name in tracebacks."""
    if len(text) < LONG:
        return compile(text, title, "exec")
    key = store.key_of("python", sys.version, title, text)
    found: CodeType = marshal.loads(store.kept(key, lambda: marshal.dumps(compile(text, title, "exec"))))
    return found
