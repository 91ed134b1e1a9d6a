"""What programs may contain, a family of statements a module."""
