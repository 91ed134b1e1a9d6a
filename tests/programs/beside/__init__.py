"""Programs as users of PyTorch write them, run in both libraries from equal weights: models, a batch and a step."""
