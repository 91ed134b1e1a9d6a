"""The host's function of a device program: the CPU's printer, with launches where kernels were called."""
