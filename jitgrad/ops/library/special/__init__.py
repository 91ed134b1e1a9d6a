"""The functions of `torch.special`, some of which `torch` has too."""
