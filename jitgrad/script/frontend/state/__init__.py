"""What evaluation works on: context, frames, sizes, effects; slots for what stands above."""
