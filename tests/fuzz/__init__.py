"""Programs that we would not write: random Python functions run eagerly, interpreted and natively must agree.

    make fuzz N=500 SEED=0       # or: python -m tests.fuzz --count 500 --seed 0 [--show 17]

Compared are results, printed text, exceptions (type and message), the arguments and the object's attributes after the
call with their flags, every `.grad` (None stays None); on every tenth program second-order gradients too. Of five
programs one is also verified between passes, one run again from a disk cache of its own, and one run from files, saved
for each call as a method of the object.

`tests.fuzz.tiny` has programs of a few lines.
"""
