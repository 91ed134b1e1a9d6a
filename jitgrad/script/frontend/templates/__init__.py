"""What a merged variable looks like, and its way through the graph."""
