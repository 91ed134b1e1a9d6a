"""A call: signature, guards, inputs, program, results, what is stored afterwards."""
