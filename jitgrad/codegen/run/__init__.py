"""Native code at run time: compile, store, load, launch, measure."""
