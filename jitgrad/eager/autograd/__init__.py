"""The tape: nodes, engine, grad modes, custom Functions, gradcheck, checkpoints."""
