"""Products and convolutions by tiles of sums that stay in registers."""
