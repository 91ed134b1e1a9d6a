"""Complex numbers beside the op table: what a script makes of them."""
