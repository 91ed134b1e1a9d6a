"""Which steps the device runs without the host: regions, resident and repeated loops, grouped launches."""
