"""What Python does outside: functions that are called back, and its own that are asked or told something."""
