"""What is lowered otherwise for a device."""
