"""Short stories of what goes wrong elsewhere: each program is the same eagerly, interpreted and native."""
